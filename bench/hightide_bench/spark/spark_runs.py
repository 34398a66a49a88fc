"""The common parts of the Spark benchmarks: a session on this machine, topics, and rounds."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from hightide import Admin, TopicPartition
from hightide_cli.printing.progress import WorkDone, progress
from hightide_local.processes.spark_java import spark_java_home

from hightide_bench.loads.load_worker import run_load
from hightide_bench.measuring.statistics import BYTES_PER_MB, medians
from hightide_bench.measuring.target import LoadTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Figures = dict[str, float | None]
Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """The load: `size_mb` MB of values in records of `record_bytes`, for each of these numbers of partitions
    in turns. `workers` is the number of Spark's threads, `batches` the number of micro-batches of a query
    whose micro-batches are timed."""

    record_bytes: int
    size_mb: int
    partitions: Sequence[int]
    rounds: int
    workers: int
    batches: int = 20

    @property
    def records(self) -> int:
        """The number of records."""
        return max(self.size_mb * BYTES_PER_MB // self.record_bytes, 1)

    @property
    def turns(self) -> int:
        """The number of measurements of all topics together, including the first ones, which warm up."""
        return (self.rounds + 1) * len(self.partitions)


def on_spark(
    measure: "Callable[[SparkSession, LoadTarget, SparkPlan, WorkDone], Measured]",
    plan: SparkPlan,
    steps: int,
) -> Callable[[LoadTarget], Measured]:
    """Return a function that makes a Spark session with the plan's threads, calls `measure` with it, and ends
    it. `steps` is how often `measure` advances the progress bar."""

    def measure_target(target: LoadTarget) -> Measured:
        os.environ["JAVA_HOME"] = str(spark_java_home())
        from hightide_spark.session import spark_session

        # Spark would draw its own bars over the benchmark's.
        defaults = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
        with progress("measuring", steps, "steps") as done:
            session = spark_session("hightide bench", master=f"local[{plan.workers}]", defaults=defaults)
            try:
                return measure(session, target, plan, done)
            finally:
                session.stop()

    return measure_target


@contextmanager
def topics_of(
    target: LoadTarget, purpose: str, partitions: Sequence[int], configs: dict[str, str] | None = None
) -> Iterator[dict[int, str]]:
    """Create a topic with each number of partitions. They are deleted after the block."""
    with ExitStack() as stack:
        yield {
            number: stack.enter_context(target.topic(f"{purpose}-{number}", number, configs))
            for number in partitions
        }


def fill(target: LoadTarget, topic: str, records: int, record_bytes: int) -> None:
    """Write at least this many records to a topic, as fast as one process can."""
    configuration = {
        "bootstrap": target.bootstrap,
        "topic": topic,
        "broker_pids": [],
        "record_bytes": record_bytes,
        "records": records,
        "warm_s": 0.0,
        "measured_s": 0.0,
        "api": "send_arrow",
        "acks": "all",
        "compression": None,
        "linger_ms": 5,
    }
    run_load("hightide_bench.loads.produce_load", configuration)


def records_in(target: LoadTarget, topic: str, partitions: int) -> int:
    """Return the number of records in a topic from which none was deleted."""
    with Admin(target.bootstrap) as admin:
        ends = admin.list_offsets([TopicPartition(topic, number) for number in range(partitions)])
    return sum(end or 0 for end in ends.values())


def seconds(work: Callable[[], object]) -> float:
    """Return the time that this work takes."""
    started_s = monotonic()
    work()
    return monotonic() - started_s


def rates(records: int, record_bytes: int, elapsed_s: float) -> Figures:
    """Return the rates of one round."""
    return {
        "rows_per_s": records / elapsed_s,
        "mb_per_s": records * record_bytes / BYTES_PER_MB / elapsed_s,
    }


def medians_by_partitions(
    plan: SparkPlan, measure: Callable[[int], Mapping[str, float | None]], done: WorkDone
) -> dict[int, Figures]:
    """Measure each number of partitions in turns, and return the medians of each. The first turn warms up and
    does not count."""

    def measure_one(number: int) -> Mapping[str, float | None]:
        figures = measure(number)
        done.advance(1)
        return figures

    for number in plan.partitions:
        measure_one(number)
    measured = [{number: measure_one(number) for number in plan.partitions} for _ in range(plan.rounds)]
    return {number: medians([each[number] for each in measured]) for number in plan.partitions}
