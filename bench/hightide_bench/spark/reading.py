"""`bench spark-read`: reads whole topics as a batch into the sink `noop`."""

from typing import TYPE_CHECKING

from hightide_cli.printing.progress import WorkDone

from hightide_bench.measuring.target import LoadTarget
from hightide_bench.spark.spark_runs import (
    Figures,
    SparkPlan,
    fill,
    medians_by_partitions,
    rates,
    records_in,
    seconds,
    topics_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def measure_spark_read(
    spark: "SparkSession", target: LoadTarget, plan: SparkPlan, done: WorkDone
) -> dict[int, Figures]:
    """Fill a topic for each number of partitions, and read the topics in turns, with all columns. Return the
    figures by number of partitions."""
    with topics_of(target, "spark-read", plan.partitions) as topics:
        for topic in topics.values():
            fill(target, topic, plan.records, plan.record_bytes)
        records = {number: records_in(target, topic, number) for number, topic in topics.items()}

        def measure(number: int) -> Figures:
            reader = spark.read.format("hightide").option("bootstrap.servers", target.bootstrap)
            rows = reader.option("subscribe", topics[number]).load()
            elapsed_s = seconds(lambda: rows.write.format("noop").mode("overwrite").save())
            return rates(records[number], plan.record_bytes, elapsed_s)

        return medians_by_partitions(plan, measure, done)
