"""What a user of the sink sees: every column arrives, and mistakes are told in one sentence."""

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hightide import Admin, RangeReader, TopicPartition
from hightide_local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(rows: "DataFrame", cluster: LocalCluster, mode: str = "append", **options: Any) -> None:
    options = {"bootstrap.servers": cluster.bootstrap, **options}
    rows.write.format("hightide").options(**options).mode(mode).save()


def test_every_column_arrives(spark: "SparkSession", cluster: LocalCluster, topic: str) -> None:
    other = f"other-{uuid.uuid4().hex}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(other, partitions=3, replication_factor=1)
    rows = spark.sql(
        f"""SELECT CAST(id AS STRING) AS key, CAST(CAST(id * 2 AS STRING) AS BINARY) AS value,
            IF(id % 2 = 0, '{topic}', '{other}') AS topic, CAST(id % 2 AS INT) AS partition,
            TIMESTAMP_MILLIS(1000 * id) AS timestamp, 'left out' AS comment,
            IF(id < 10, NULL, ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY)))) AS headers
            FROM RANGE(0, 100, 1, 2)"""
    )
    write(rows, cluster, delivery="at-least-once")
    with Admin(cluster.bootstrap) as admin, RangeReader(cluster.bootstrap) as reader:
        for remainder, name in enumerate((topic, other)):
            (described,) = admin.describe_topics([name])
            ends = admin.list_offsets([TopicPartition(name, each.partition) for each in described.partitions])
            assert [end for place, end in ends.items() if place.partition != remainder].count(0) == len(
                ends
            ) - 1
            found = [
                row
                for batch in reader.read(name, described.topic_id, remainder, 0, 50)
                for row in batch.rows.to_pylist()
            ]
            found.sort(key=lambda row: int(row["key"]))
            assert [row["key"] for row in found] == [b"%d" % n for n in range(remainder, 100, 2)]
            assert [row["value"] for row in found] == [b"%d" % (2 * n) for n in range(remainder, 100, 2)]
            assert [row["timestamp"].timestamp() for row in found] == list(range(remainder, 100, 2))
            headers = [row["headers"] for row in found]
            assert headers == [None] * 5 + [[{"key": "h", "value": b"x"}]] * 45


def test_mistakes_are_told(spark: "SparkSession", cluster: LocalCluster, topic: str) -> None:
    rows = spark.range(0, 10, 1, 1)
    text = rows.selectExpr("CAST(id AS STRING) AS value")
    missing = f"missing-{uuid.uuid4().hex}"
    fourth_null = text.selectExpr("value", f"IF(value = 4, NULL, '{topic}') AS topic")
    mistakes: list[tuple[DataFrame, dict[str, str], str]] = [
        (rows.selectExpr("id AS value"), {"topic": topic}, "column value is bigint"),
        (text, {"topic": topic, "mode": "overwrite"}, "a topic cannot be overwritten"),
        (text, {"topic": missing}, f"topic {missing} does not exist"),
        (fourth_null, {}, "the write, Spark partition 0: row 4 has a null topic"),
    ]
    for frame, options, said in mistakes:
        with pytest.raises(Exception) as refused:
            write(frame, cluster, **options)
        assert said in str(refused.value), said
