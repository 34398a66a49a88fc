"""What the Spark benchmarks have in common: a session on this machine, and topics that live as long."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from hightide import Admin, TopicPartition
from hightide_cli.printing.progress import WorkDone, progress
from hightide_local.processes.spark_java import spark_java_home

from hightide_bench.loads.load_worker import run_load
from hightide_bench.measuring.statistics import BYTES_PER_MB, medians
from hightide_bench.measuring.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Figures = dict[str, float | None]
Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """So many bytes of values in records of a size, in topics of so many partitions, one after the other, by
    so many threads of Spark. `batches` are micro-batches, where single ones are timed."""

    record_bytes: int
    size_mb: int
    partitions: Sequence[int]
    rounds: int
    workers: int
    batches: int = 20

    @property
    def records(self) -> int:
        """How many records that is."""
        return max(self.size_mb * BYTES_PER_MB // self.record_bytes, 1)

    @property
    def turns(self) -> int:
        """How often all topics together are measured, with the first time that warms up."""
        return (self.rounds + 1) * len(self.partitions)


def on_spark(
    measure: "Callable[[SparkSession, Target, SparkPlan, WorkDone], Measured]", plan: SparkPlan, steps: int
) -> Callable[[Target], Measured]:
    """Return what measures a cluster with a session of the plan's threads, which ends with it. `steps` is how
    often `measure` tells that it has come further."""

    def measure_target(target: Target) -> Measured:
        os.environ["JAVA_HOME"] = str(spark_java_home())
        from hightide_spark.session import spark_session

        # Spark's own bars would be drawn over ours.
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
    target: Target, purpose: str, partitions: Sequence[int], configs: dict[str, str] | None = None
) -> Iterator[dict[int, str]]:
    """Give a new topic for each number of partitions; they are deleted after the block."""
    topics = {number: target.create_topic(f"{purpose}-{number}", number, configs) for number in partitions}
    try:
        yield topics
    finally:
        with Admin(target.bootstrap) as admin:
            for topic in topics.values():
                admin.delete_topic(topic)


def fill(target: Target, topic: str, records: int, record_bytes: int) -> None:
    """Write at least so many records, as fast as one process can."""
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


def records_in(target: Target, topic: str, partitions: int) -> int:
    """Return how many records have been written to a topic that nothing was deleted from."""
    with Admin(target.bootstrap) as admin:
        ends = admin.list_offsets([TopicPartition(topic, number) for number in range(partitions)])
    return sum(end or 0 for end in ends.values())


def seconds(work: Callable[[], object]) -> float:
    """Return how long it took."""
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
    """Measure each number of partitions in turns, and return the medians of each; a first turn warms up."""

    def measure_one(number: int) -> Mapping[str, float | None]:
        figures = measure(number)
        done.advance(1)
        return figures

    for number in plan.partitions:
        measure_one(number)
    measured = [{number: measure_one(number) for number in plan.partitions} for _ in range(plan.rounds)]
    return {number: medians([each[number] for each in measured]) for number in plan.partitions}
