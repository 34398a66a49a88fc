"""Jobs of Spark's Kafka source, as they are: only the name of the format is another one."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_spark.save_mode import append_by_default
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASTED = {
    "kafka.security.protocol": "PLAINTEXT",
    "kafka.client.id": "nightly",
    "kafka.request.timeout.ms": "60000",
    # For reads, and ignored by writes.
    "kafka.group.id": "dashboards",
    "kafka.isolation.level": "read_committed",
    "kafka.max.partition.fetch.bytes": "1048576",
    "kafka.max.poll.records": "10000",
    "kafkaConsumer.pollTimeoutMs": "120000",
    # For writes, and ignored by reads.
    "kafka.acks": "all",
    "kafka.linger.ms": "10",
    "kafka.compression.type": "zstd",
}


def test_a_job_of_kafka_runs_with_its_options_and_without_a_mode(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, **PASTED}
    rows = spark.range(1_000).selectExpr("CAST(id AS STRING) AS key", "repeat('x', 100) AS value")
    for _ in range(2):
        rows.write.format("hightide").options(**options).option("topic", topic).save()

    read = spark.read.format("hightide").options(**options).option("subscribe", topic).load()
    assert read.count() == 2_000, "the second write appends to the first"

    stream = spark.readStream.format("hightide").options(**options).option("subscribe", topic)
    archive = str(tmp_path / "archive")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("parquet")
        .option("path", archive)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.read.parquet(archive).count() == 2_000


def test_a_mode_that_the_program_names_stays_and_so_do_other_formats(
    spark: "SparkSession", cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    append_by_default(spark)
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    options = {"bootstrap.servers": cluster.bootstrap, "topic": topic}
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            rows.write.mode(mode).format("hightide").options(**options).save()
    with pytest.raises(Exception, match="cannot be overwritten"):
        rows.write.format("hightide").options(**options).mode("overwrite").save()
    rows.write.save(format="hightide", **options)

    folder = str(tmp_path / "rows")
    rows.write.format("hightide").format("json").save(folder)
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        rows.write.format("hightide").format("json").save(folder)
    found = spark.read.format("hightide").options(**options | {"subscribe": topic})
    with pytest.raises(Exception, match="a read names its topics in subscribe"):
        found.load()
    read = {"bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    assert spark.read.format("hightide").options(**read).load().count() == 10


def test_a_pattern_is_that_of_a_group_and_one_that_looks_ahead_is_refused(
    spark: "SparkSession", cluster: LocalCluster
) -> None:
    prefix = f"pattern-{uuid.uuid4().hex}"
    names = [f"{prefix}-{end}" for end in ("a", "b", "old")]
    with Admin(cluster.bootstrap) as admin:
        for name in names:
            admin.create_topic(name, 1, 1)
    rows = spark.createDataFrame([(name, b"v") for name in names], "topic string, value binary")
    rows.write.format("hightide").option("bootstrap.servers", cluster.bootstrap).save()

    reader = spark.read.format("hightide").option("bootstrap.servers", cluster.bootstrap)
    found = reader.option("subscribePattern", rf"(?i){prefix.upper()}-\pL").load()
    assert sorted(row.topic for row in found.select("topic").collect()) == names[:2]
    with pytest.raises(Exception, match="RE2 looks neither ahead nor behind"):
        reader.option("subscribePattern", f"(?!.*-old){prefix}.*").load()
