"""`bench spark-write`: writes rows that Spark generates into topics, exactly once."""

from typing import TYPE_CHECKING

from hightide_cli.printing.progress import WorkDone

from hightide_bench.measuring.target import RETENTION, LoadTarget
from hightide_bench.spark.spark_runs import (
    Figures,
    SparkPlan,
    medians_by_partitions,
    rates,
    seconds,
    topics_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def measure_spark_write(
    spark: "SparkSession", target: LoadTarget, plan: SparkPlan, done: WorkDone
) -> dict[int, Figures]:
    """Write the same rows to a topic with each number of partitions, in turns. Return the figures by number
    of partitions."""
    with topics_of(target, "spark-write", plan.partitions, RETENTION) as topics:
        value = f"CAST(lpad(CAST(id AS STRING), {plan.record_bytes}, 'x') AS BINARY) AS value"

        def measure(number: int) -> Figures:
            rows = spark.range(0, plan.records, 1, plan.workers).selectExpr(value)
            writer = rows.write.format("hightide").option("bootstrap.servers", target.bootstrap)
            elapsed_s = seconds(writer.option("topic", topics[number]).mode("append").save)
            return rates(plan.records, plan.record_bytes, elapsed_s)

        return medians_by_partitions(plan, measure, done)
