"""The benchmarks of Spark on little data: they measure everything that they promise."""

from typing import TYPE_CHECKING

from hightide_bench.commands.spark import CATCH_UP_KEYS, RATE_KEYS, STREAM_KEYS
from hightide_bench.measuring.target import LoadTarget
from hightide_bench.spark.reading import measure_spark_read
from hightide_bench.spark.spark_runs import SparkPlan
from hightide_bench.spark.streaming import measure_spark_stream
from hightide_bench.spark.writing import measure_spark_write
from hightide_cli.printing.progress import WorkDone
from hightide_local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Counted(WorkDone):
    """Counts what a bar would show."""

    def __init__(self) -> None:
        self.steps = 0

    def advance(self, count: int) -> None:
        """One more."""
        self.steps += count


PLAN = SparkPlan(record_bytes=100, size_mb=1, partitions=(1, 2), rounds=1, workers=2, batches=7)


def test_rates_are_measured_for_each_number_of_partitions(
    spark: "SparkSession", cluster: LocalCluster
) -> None:
    target = LoadTarget(cluster.bootstrap, None)
    for measure in (measure_spark_read, measure_spark_write):
        done = Counted()
        figures = measure(spark, target, PLAN, done)
        assert done.steps == PLAN.turns == 4
        assert list(figures) == [1, 2]
        assert all((each[key] or 0) > 0 for each in figures.values() for key in RATE_KEYS)


def test_a_micro_batch_is_measured_beside_one_of_the_rate_source(
    spark: "SparkSession", cluster: LocalCluster
) -> None:
    done = Counted()
    overhead, catch_up = measure_spark_stream(spark, LoadTarget(cluster.bootstrap, None), PLAN, done)
    assert done.steps == PLAN.turns + PLAN.rounds
    assert all((each[key] or 0) > 0 for each in catch_up.values() for key in CATCH_UP_KEYS)
    assert set(overhead) == set(STREAM_KEYS)
    assert (overhead["batch_ms"] or 0) > 0 < (overhead["rate_batch_ms"] or 0)
