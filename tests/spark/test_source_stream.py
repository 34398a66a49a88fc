"""Streams by Spark: they end where they should, go on where they were, and tell what was lost."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hightide import Admin, Producer, TopicPartition
from hightide_local.cluster import LocalCluster

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
