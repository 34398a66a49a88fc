"""Each row once in the log: through the deaths of tasks, of the query between write and commit, and of a
leader."""

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hightide import Admin, ProducerKey, RangeReader, TopicPartition
from hightide.errors import BatchTooLargeError
from hightide.producing.partitioner import partition_for_key
from hightide_local.cluster import LocalCluster
from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.reconcile import NewerWriterError, OtherRowsWrittenError
from hightide_spark.core.sink_columns import sink_columns
from hightide_spark.core.sink_options import WriteOptions
from hightide_spark.sink.task import SinkTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def values_in(cluster: LocalCluster, topic: str) -> list[bytes]:
    """What is committed, partition by partition."""
    with Admin(cluster.bootstrap) as admin, RangeReader(cluster.bootstrap) as reader:
        (described,) = admin.describe_topics([topic])
        ends = admin.list_offsets([TopicPartition(topic, each.partition) for each in described.partitions])
        return [
            value
            for place, end in ends.items()
            for batch in reader.read(topic, described.topic_id, place.partition, 0, end or 0)
            for value in batch.rows.column("value").to_pylist()
        ]


def until_something_is_in(cluster: LocalCluster, topic: str) -> None:
    """Rows are sent in the background: on a busy machine a task could die before its first ones have gone."""
    deadline = time.monotonic() + 60
    while not values_in(cluster, topic):
        assert time.monotonic() < deadline, "what a task sends is in the log within a minute"


def batches(numbers: range, size: int = 1000) -> Iterator[pa.RecordBatch]:
    """Rows as Spark gives them to a task."""
    for at in range(0, len(numbers), size):
        part = numbers[at : at + size]
        keys = pa.array([b"key %d" % (number % 50) for number in part])
        yield pa.record_batch([keys, pa.array([b"%d" % number for number in part])], ["key", "value"])


def sink_task(cluster: LocalCluster, topic: str, version: int, name: str = "task") -> SinkTask:
    """An attempt of the one task of a micro-batch."""
    columns = sink_columns({"key": "binary", "value": "binary"}, topic)
    options = WriteOptions(Cluster(cluster.bootstrap), topic, True, None)
    return SinkTask(options, columns, f"micro-batch {version}", ProducerKey(name, 0, version))


class TaskDies(Exception):
    """The source of a task fails in the middle."""


def test_attempts_that_die_leave_the_rest_to_the_next(
    cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that there are many batches.
    monkeypatch.setattr("hightide_spark.sink.task.GATHERED_BYTES", 20_000)

    def dying(after: int) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(range(20_000))):
            if number == after:
                until_something_is_in(cluster, topic)
                raise TaskDies
            yield batch

    every = Counter(b"%d" % number for number in range(20_000))
    for after in (5, 12):
        with pytest.raises(TaskDies):
            sink_task(cluster, topic, 1).write(dying(after))
    assert 0 < len(values_in(cluster, topic)) < 20_000
    assert sink_task(cluster, topic, 1).write(batches(range(19_999, -1, -1), 777)) == 20_000
    assert Counter(values_in(cluster, topic)) == every
    assert sink_task(cluster, topic, 1).write(batches(range(20_000))) == 20_000
    assert Counter(values_in(cluster, topic)) == every
    with pytest.raises(OtherRowsWrittenError, match="micro-batch 1: an earlier attempt wrote"):
        sink_task(cluster, topic, 1).write(batches(range(10_000)))
    assert Counter(values_in(cluster, topic)) == every
    # The next micro-batch takes over; an attempt of the one before that is still about is told so.
    assert sink_task(cluster, topic, 2).write(batches(range(20_000, 20_100))) == 100
    with pytest.raises(NewerWriterError, match="micro-batch 1: a newer micro-batch"):
        sink_task(cluster, topic, 1).write(batches(range(20_000)))
    assert len(values_in(cluster, topic)) == 20_100


def test_rows_that_lie_where_a_topic_had_them_before_it_grew_are_told(cluster: LocalCluster) -> None:
    name = f"spark-{uuid.uuid4().hex}"
    key = next(key for key in (b"%d" % number for number in range(100)) if partition_for_key(key, 2) == 1)
    rows = pa.record_batch([pa.array([key] * 10), pa.array([b"%d" % n for n in range(10)])], ["key", "value"])
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=1, replication_factor=1)
        assert sink_task(cluster, name, 1).write([rows]) == 10
        admin.add_partitions(name, 2)
    with pytest.raises(
        OtherRowsWrittenError, match=f"micro-batch 1: .* into {name}-0, where this one has no"
    ):
        sink_task(cluster, name, 1).write([rows])
    # What an older micro-batch left there is nobody's concern.
    assert sink_task(cluster, name, 2).write([rows]) == 10


def test_a_row_may_be_as_large_as_its_topic_lets_it(cluster: LocalCluster, topic: str) -> None:
    def rows(*sizes: int) -> list[pa.RecordBatch]:
        values = pa.array([b"x" * size for size in sizes])
        return [pa.record_batch([pa.nulls(len(sizes), pa.binary()), values], ["key", "value"])]

    sizes = [100, 3 << 20, 700, 3 << 20, 1 << 20]
    assert sink_task(cluster, topic, 1).write(rows(*sizes)) == len(sizes)
    assert sorted(map(len, values_in(cluster, topic))) == sorted(sizes)
    with pytest.raises(BatchTooLargeError, match=topic):
        sink_task(cluster, topic, 2).write(rows(5 << 20))


def test_a_leader_that_dies_under_a_task_takes_nothing_with_it(cluster: LocalCluster, topic: str) -> None:
    with Admin(cluster.bootstrap) as admin:
        leader = f"broker-{admin.describe_topics([topic])[0].partitions[0].leader}"

    def killing() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(range(40_000), 2000)):
            if number == 10:
                cluster.kill(leader)
            yield batch

    try:
        assert sink_task(cluster, topic, 1).write(killing()) == 40_000
        assert Counter(values_in(cluster, topic)) == Counter(b"%d" % number for number in range(40_000))
    finally:
        cluster.restart(leader)


def test_a_query_that_dies_between_write_and_commit_writes_nothing_twice(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    """Without the newest file of commits/ a query stands where a crash left it: the micro-batch is planned
    and written, and Spark runs it again."""
    checkpoint, lines = tmp_path / "checkpoint", tmp_path / "lines"
    lines.mkdir()

    def run(rows: "DataFrame") -> None:
        query = (
            rows.writeStream.format("hightide")
            .option("bootstrap.servers", cluster.bootstrap)
            .option("topic", topic)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def add(name: str, numbers: range) -> None:
        (lines / name).write_text("".join(f'{{"key": "{n % 30}", "value": "{n}"}}\n' for n in numbers))

    def backwards(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))

    schema = "key STRING, value STRING"
    source = spark.readStream.schema(schema).json(str(lines)).repartition(2, "key")
    add("0.json", range(1000))
    run(source)
    for left in (checkpoint / "commits").iterdir():
        left.unlink()
    # It is run again with its rows in another order; then comes a micro-batch that is new.
    add("1.json", range(1000, 2000))
    run(source.mapInArrow(backwards, schema))
    assert {"0", "1"} <= {each.name for each in (checkpoint / "commits").iterdir()}
    assert Counter(values_in(cluster, topic)) == Counter(b"%d" % number for number in range(2000))


def test_a_transaction_that_failed_half_way_is_completed(
    spark: "SparkSession", cluster: LocalCluster, topic: str
) -> None:
    def half(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(rows):
            if number == 1:
                raise ValueError("the source is gone")
            yield batch

    def write(rows: "DataFrame") -> None:
        (
            rows.write.format("hightide")
            .option("bootstrap.servers", cluster.bootstrap)
            .option("topic", topic)
            .option("txnAppId", app_id)
            .option("txnVersion", 1)
            .mode("append")
            .save()
        )

    app_id = uuid.uuid4().hex
    every = spark.range(0, 60_000, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match="the source is gone"):
        write(every.mapInArrow(half, "value STRING"))
    write(every)
    assert Counter(values_in(cluster, topic)) == Counter(b"%d" % number for number in range(60_000))
