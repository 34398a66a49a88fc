"""Batch reads by Spark: columns, ranges, filters, losses, and refusals as a user sees them."""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hightide import Admin, Producer
from hightide.records import ReplicaDescription
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.pytest_plugin import ClusterFactory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

BEGAN = datetime(2013, 1, 1, 5, tzinfo=UTC)


def read(spark: "SparkSession", bootstrap: str, topic: str, **options: Any) -> "DataFrame":
    """Of the topic, the columns offset and value."""
    reader = spark.read.format("hightide").schema("offset bigint, value binary")
    reader = reader.option("bootstrap.servers", bootstrap).option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, json.dumps(value) if isinstance(value, dict) else value)
    return reader.load()


def values(found: "DataFrame") -> list[int]:
    return sorted(int(row.value) for row in found.collect())


def write(bootstrap: str, topic: str, numbers: range, partition: int) -> None:
    """Row i has the value b"i", filled up to 100 bytes, and is i seconds old when it begins."""
    table = pa.table(
        {
            "value": pa.array([b"%-100d" % at for at in numbers], pa.binary()),
            "timestamp": pa.array(
                [BEGAN + timedelta(seconds=at) for at in numbers], pa.timestamp("us", "UTC")
            ),
        }
    )
    with Producer(bootstrap, batch_bytes_max=1 << 13) as producer:
        producer.send_arrow(topic, table, partition=partition).result(60)


def test_every_column_is_read_as_it_was_written(
    spark: "SparkSession", cluster: LocalCluster, topic: str
) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"v", key=b"k", partition=0, timestamp_us=1_357_016_400_123_456)
        producer.send(topic, None, key=b"gone", partition=1, timestamp_us=0)
        producer.send(topic, b"", partition=1, timestamp_us=1, headers=[("a", b"1"), ("a", b"")])
        producer.flush()
    found = (
        spark.read.format("hightide")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )
    assert found.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = [
        [row.key, row.value, row.topic, row.partition, row.offset, row.us, row.timestampType, row.headers]
        for row in found.selectExpr("*", "unix_micros(timestamp) us").orderBy("partition", "offset").collect()
    ]
    assert rows == [
        [b"k", b"v", topic, 0, 0, 1_357_016_400_123_456, 0, None],
        [b"gone", None, topic, 1, 0, 0, 0, None],
        [None, b"", topic, 1, 1, 1, 0, [("a", b"1"), ("a", b"")]],
    ]


def test_ranges_by_offset_and_by_time_in_as_many_tasks_as_asked_for(
    spark: "SparkSession", cluster: LocalCluster, topic: str
) -> None:
    write(cluster.bootstrap, topic, range(1000), 0)
    write(cluster.bootstrap, topic, range(1000, 1100), 1)
    everything = read(spark, cluster.bootstrap, topic, minPartitions="5")
    assert everything.rdd.getNumPartitions() == 5
    assert values(everything) == list(range(1100))

    by_offset = read(
        spark,
        cluster.bootstrap,
        topic,
        startingOffsets={topic: {"0": 990, "1": -2}},
        endingOffsets={topic: {"0": -1, "1": 3}},
    )
    assert values(by_offset) == [*range(990, 1003)]

    late_ms = int((BEGAN + timedelta(seconds=998)).timestamp() * 1000)
    end_ms = late_ms + 4_000
    by_time = read(spark, cluster.bootstrap, topic, startingTimestamp=late_ms, endingTimestamp=end_ms)
    assert values(by_time) == [998, 999, 1000, 1001]


def test_filters_narrow_what_is_read_where_that_is_asked_for(
    spark: "SparkSession", cluster: LocalCluster, topic: str
) -> None:
    write(cluster.bootstrap, topic, range(100), 0)
    write(cluster.bootstrap, topic, range(100, 200), 1)
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        found = (
            spark.read.format("hightide")
            .options(**{"bootstrap.servers": cluster.bootstrap, "assign": json.dumps({topic: [0, 1]})})
            .option("pushdown", "true")
            .load()
            .where("partition = 1 and offset >= 97")
        )
        assert found.rdd.getNumPartitions() == 1
        assert values(found) == [197, 198, 199]
    finally:
        spark.conf.unset(setting)


def test_what_a_user_sees_of_a_refusal(spark: "SparkSession", cluster: LocalCluster, topic: str) -> None:
    def reader(subscribe: str) -> "DataFrameReader":
        given = {"bootstrap.servers": cluster.bootstrap, "subscribe": subscribe}
        return spark.read.format("hightide").options(**given)

    with pytest.raises(Exception, match=r"UnknownOptionError: .* did you mean 'startingOffsets'"):
        reader(topic).option("startingOffset", "latest").load()
    with pytest.raises(Exception, match=r"UnknownTopicError: .*nowhere"):
        reader("nowhere").load().collect()
    with pytest.raises(Exception, match=r"UnsupportedSchemaError: .*'value' is string; it is BINARY"):
        reader(topic).schema("value string").load().collect()


def test_records_that_retention_has_deleted_are_told_or_passed_over(
    spark: "SparkSession", hightide_cluster_factory: ClusterFactory
) -> None:
    alone = hightide_cluster_factory(
        brokers=1, controllers=1, broker_arguments=("--retention-check-interval-ms", "100")
    )
    with Admin(alone.bootstrap) as admin:
        segment_bytes, retention_bytes = 20_000, 40_000
        few = {"segment.bytes": str(segment_bytes), "retention.bytes": str(retention_bytes)}
        admin.create_topic("short", 1, 1, configs=few)
        write(alone.bootstrap, "short", range(2000), 0)

        def replica() -> ReplicaDescription:
            (found,) = admin.describe_replicas(["short"]).replicas
            return found

        # All of them: a segment that went while its rows are read would leave a hole in these.
        is_short = retention_bytes + segment_bytes
        wait_until("retention deletes the first segments", lambda: replica().size_bytes < is_short, 60)
        everything = {"short": {"0": 0}}
        with pytest.raises(Exception, match=r"RecordsDeletedError.*short-0.*failOnDataLoss"):
            read(spark, alone.bootstrap, "short", startingOffsets=everything).collect()
        left = read(spark, alone.bootstrap, "short", startingOffsets=everything, failOnDataLoss="false")
        found = values(left)
        assert found == list(range(found[0], 2000))
        assert 0 < found[0] <= replica().log_start_offset
