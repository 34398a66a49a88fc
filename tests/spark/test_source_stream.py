"""Streams by Spark: they end where they should, go on where they were, and tell what was lost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_spark.errors import DataLossError, PartitionsRemovedLossError, RecordsLostError
from hightide_spark.source import group_progress, micro_batches
from hightide_spark.source.stream_reader import StreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import LongType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def write(cluster: LocalCluster, topic: str, numbers: range, partition: int = 0) -> None:
    table = pa.table({"value": pa.array([b"%d" % at for at in numbers], pa.binary())})
    with Producer(cluster.bootstrap) as producer:
        producer.send_arrow(topic, table, partition=partition).result(60)


class Stream:
    """One query, with a checkpoint, into Parquet files."""

    def __init__(self, spark: "SparkSession", cluster: LocalCluster, directory: Path, **options: str) -> None:
        self._spark = spark
        self._directory = directory
        self._options = {"bootstrap.servers": cluster.bootstrap, "startingOffsets": "earliest"} | options

    def start(self, trigger: dict[str, Any], **options: str) -> "StreamingQuery":
        found = self._spark.readStream.format("hightide").options(**(self._options | options)).load()
        return (
            found.selectExpr("cast(value as string) value", "topic", "partition")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .trigger(**trigger)
            .start(str(self._directory / "rows"))
        )

    def run(self, **options: str) -> list[dict[str, Any]]:
        """To the end of what is there; the progress of each micro-batch that had something."""
        query = self.start({"availableNow": True}, **options)
        query.awaitTermination()
        return [json.loads(each.json) for each in query.recentProgress if each.numInputRows]

    def values(self) -> list[int]:
        files = self._directory / "rows"
        return sorted(int(row.value) for row in self._spark.read.parquet(str(files)).collect())


def test_available_now_ends_at_what_was_there_and_goes_on_where_it_was(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    group = f"lag-{topic}"
    stream = Stream(spark, cluster, tmp_path, subscribe=topic, groupId=group, maxOffsetsPerTrigger="40")
    write(cluster, topic, range(90), 0)
    write(cluster, topic, range(90, 100), 1)
    batches = stream.run()
    assert [each["numInputRows"] for each in batches] == [40, 40, 20]
    ends = [each["sources"][0]["endOffset"][topic]["offsets"] for each in batches]
    assert ends == [{"0": 36, "1": 4}, {"0": 72, "1": 8}, {"0": 90, "1": 10}]
    known = batches[0]["sources"][0]["latestOffset"][topic]["offsets"]
    assert known == {"0": 90, "1": 10}, "so the lag after the first batch is 54 and 6"
    with Admin(cluster.bootstrap) as admin:
        assert {each.partition: each.lag for each in admin.group_lag(group)} == {
            TopicPartition(topic, 0): 0,
            TopicPartition(topic, 1): 0,
        }
        admin.add_partitions(topic, 3)
    write(cluster, topic, range(100, 105), 2)
    assert [each["numInputRows"] for each in stream.run()] == [5]
    assert stream.values() == list(range(105))


def test_a_stream_goes_on_when_a_leader_dies_and_finds_new_topics_of_its_pattern(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, cluster, tmp_path, subscribePattern=f"{topic}(-later)?")
    write(cluster, topic, range(50))
    query = stream.start({"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        with Admin(cluster.bootstrap) as admin:
            leader = admin.describe_topics([topic])[0].partitions[0].leader
            cluster.kill(f"broker-{leader}")
            try:
                write(cluster, topic, range(50, 100))
                query.processAllAvailable()
                assert stream.values() == list(range(100))
            finally:
                cluster.restart(f"broker-{leader}")
            admin.create_topic(f"{topic}-later", 1, 1)
        write(cluster, f"{topic}-later", range(100, 110))
        query.processAllAvailable()
        assert stream.values() == list(range(110))
    finally:
        query.stop()


def test_a_topic_created_again_ends_the_stream_or_is_read_from_its_beginning(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    stream = Stream(spark, cluster, tmp_path, subscribe=topic)
    write(cluster, topic, range(10))
    stream.run()
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(topic)
        with pytest.raises(Exception, match=f"TopicDeletedLossError: topic {topic} was deleted"):
            stream.run()
        admin.create_topic(topic, 1, 1)
    write(cluster, topic, range(10, 13))
    with pytest.raises(Exception, match=f"TopicRecreatedLossError: topic {topic} .*failOnDataLoss"):
        stream.run()
    assert sum(each["numInputRows"] for each in stream.run(failOnDataLoss="false")) == 3
    assert stream.values() == list(range(13))


def driver_side(cluster: LocalCluster, topic: str, **options: str) -> StreamReader:
    """What Spark keeps on the driver for a stream; it needs no session."""
    given = {"bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return StreamReader(given | options, StructType([StructField("offset", LongType())]))


def offsets(found: dict[str, Any], topic: str) -> dict[str, int]:
    ends: dict[str, int] = found[topic]["offsets"]
    return ends


def test_available_now_does_not_take_what_comes_later(cluster: LocalCluster, topic: str) -> None:
    reader = driver_side(cluster, topic, minOffsetsPerTrigger="1000")
    start = reader.initialOffset()
    write(cluster, topic, range(10))
    reader.prepareForTriggerAvailableNow()
    write(cluster, topic, range(10, 20))
    with Admin(cluster.bootstrap) as admin:
        admin.add_partitions(topic, 3)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(1000)
    end = reader.latestOffset(start, limit)
    assert offsets(end, topic) == {"0": 10, "1": 0}
    assert reader.latestOffset(end, limit) == end
    assert reader.partitions(end, end) == []


def test_a_batch_waits_for_a_number_of_records_unless_all_are_asked_for(
    cluster: LocalCluster, topic: str
) -> None:
    reader = driver_side(
        cluster, topic, minOffsetsPerTrigger="8", maxOffsetsPerTrigger="10", maxTriggerDelay="1h"
    )
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    write(cluster, topic, range(5))
    first = reader.latestOffset(start, ReadMaxRows(10))
    assert offsets(first, topic) == {"0": 5, "1": 0}, "the first one waits for nothing"
    write(cluster, topic, range(7))
    assert reader.latestOffset(first, ReadMaxRows(10)) is first
    assert offsets(reader.latestOffset(first, ReadAllAvailable()), topic) == {"0": 12, "1": 0}
    write(cluster, topic, range(7))
    assert offsets(reader.latestOffset(first, ReadMaxRows(10)), topic) == {"0": 15, "1": 0}
    assert offsets(reader.reportLatestOffset() or {}, topic) == {"0": 19, "1": 0}


def test_a_shorter_log_and_fewer_partitions_are_told_apart(
    cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batches, "_STALE_ENDS_S", 0.0)
    reader, tolerant = (driver_side(cluster, topic, failOnDataLoss=fails) for fails in ("true", "false"))
    write(cluster, topic, range(5))
    start = reader.initialOffset()
    start[topic]["offsets"]["0"] = 9
    losses: list[type[DataLossError]] = [RecordsLostError, PartitionsRemovedLossError]
    for kind in losses:
        with pytest.raises(kind, match=topic):
            reader.latestOffset(start, ReadAllAvailable())
        end = tolerant.latestOffset(start, ReadAllAvailable())
        assert offsets(end, topic)["0"] == 5
        assert tolerant.partitions(start, end) == []
        start = end
        if kind is RecordsLostError:
            with Admin(cluster.bootstrap) as admin:
                admin.remove_partitions(topic, 1)


def test_a_group_with_members_is_told_nothing_and_the_stream_goes_on(
    cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_progress, "_PAUSE_S", 0.0)
    group = f"busy-{topic}"
    reader = driver_side(cluster, topic, groupId=group)
    start = reader.initialOffset()
    with (
        Admin(cluster.bootstrap) as admin,
        Consumer(cluster.bootstrap, group=group, topics=[topic], session_timeout_ms=30_000) as member,
    ):

        def has_members() -> bool:
            member.poll(0)
            return any(each.group == group and each.member_count for each in admin.list_groups())

        wait_until("the consumer is a member", has_members, 60)
        for count in (1, 2):
            write(cluster, topic, range(1))
            start = reader.latestOffset(start, ReadAllAvailable())
            assert offsets(start, topic) == {"0": count, "1": 0}
    told = [record for record in caplog.records if record.name == group_progress.__name__]
    assert [record.levelname for record in told if group in record.getMessage()] == ["WARNING"]
    with Admin(cluster.bootstrap) as admin:

        def is_published() -> bool:
            reader.latestOffset(start, ReadAllAvailable())
            published = admin.group_offsets(group).get(TopicPartition(topic, 0))
            return published is not None and published.offset == 2

        # A goodbye that the coordinator missed is made good by the end of the member's session.
        wait_until("the group is told of the second record", is_published, 60)
    reader.stop()
