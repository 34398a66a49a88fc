"""The rows of Spark: the same query over Hightide's source and over Spark's Kafka source, in one session."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Literal

from hightide_bench.loads.load_worker import LoadFailedError, LoadWorker
from hightide_bench.measuring.statistics import BYTES_PER_MB
from hightide_bench.peers.jars.maven_jars import SPARK, jars_of
from hightide_bench.peers.rows.consuming import fill
from hightide_bench.peers.rows.row import (
    HIGHTIDE,
    KAFKA_DEFAULT,
    RETENTION,
    Entrant,
    Figure,
    Figures,
    Row,
    Stage,
)

SPARK_PARTITIONS: Final = 4
_BATCH_ROWS: Final = 20_000
_RATES: Final = (
    Figure("rows_per_s", "rows/s", "higher"),
    Figure("cpu_s_per_mrow", "CPU s a million rows, Spark + brokers", "lower"),
)

Work = Literal["read", "write", "catch-up"]


class SparkRates(Row):
    """Reads a topic as a batch, writes to one, or catches up with one by Trigger.AvailableNow."""

    figures: tuple[Figure, ...] = _RATES
    is_bulk: ClassVar[bool] = True

    def __init__(self, work: Work, record_bytes: int) -> None:
        size = "1kb" if record_bytes == 1_000 else f"{record_bytes}b"
        self.name = f"spark-{work}-{size}"
        verb = "AvailableNow" if work == "catch-up" else work
        self.title = f"Spark, {verb}, {record_bytes:,} B"
        self._work, self._record_bytes = work, record_bytes

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Start Spark, and fill the topic if it is read."""
        rows = stage.plan.size_mb * BYTES_PER_MB // self._record_bytes
        is_written = self._work == "write"
        with stage.topic(self.name, SPARK_PARTITIONS, RETENTION if is_written else None) as topic:
            if not is_written:
                fill(stage, topic, rows, self._record_bytes)
            with spark_worker(stage) as spark:
                yield lambda entrant: _asked(
                    spark, stage, entrant, self._work, topic=topic, rows=rows, record_bytes=self._record_bytes
                )


class MicroBatches(Row):
    """Times micro-batches of 1,000 rows, and how much longer they take than those of Spark's rate source."""

    name: str = "spark-batches"
    title: str = "Spark, micro-batches of 1,000 rows"
    figures: tuple[Figure, ...] = (
        Figure("batch_overhead_ms", "ms more than the rate source", "lower"),
        Figure("batch_ms", "ms", "lower"),
    )
    entrants = (HIGHTIDE, KAFKA_DEFAULT)

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Start Spark, and fill the topic."""
        with stage.topic(self.name, SPARK_PARTITIONS) as topic:
            fill(stage, topic, _BATCH_ROWS, 100)
            with spark_worker(stage) as spark:
                yield lambda entrant: _asked(
                    spark, stage, entrant, "batches", topic=topic, partitions=SPARK_PARTITIONS
                )


@contextmanager
def spark_worker(stage: Stage) -> Iterator[LoadWorker]:
    """Start a Spark session with both sources. Raises ClusterError without Maven or the jars."""
    jars = [str(jar) for jar in jars_of(SPARK, stage.cache)]
    with LoadWorker("hightide_bench.peers.loads.spark_load", {"jars": jars}, dict(os.environ)) as worker:
        worker.wait_until_ready()
        yield worker
        worker.stop()


def _asked(spark: LoadWorker, stage: Stage, entrant: Entrant, work: str, **order: object) -> Figures:
    cluster = stage.clusters[entrant.system]
    answer = spark.ask(
        work,
        system=entrant.system,
        tuned=entrant.tuned,
        bootstrap=cluster.bootstrap,
        broker_pids=cluster.broker_pids(),
        **order,
    )
    if "error" in answer:
        raise LoadFailedError(f"Spark failed: {answer['error']}")
    return dict(answer)


_WORKS: Final[tuple[Work, ...]] = ("read", "write", "catch-up")
ROWS: Final[tuple[Row, ...]] = (
    *(SparkRates(work, record_bytes) for work in _WORKS for record_bytes in (100, 1_000)),
    MicroBatches(),
)
