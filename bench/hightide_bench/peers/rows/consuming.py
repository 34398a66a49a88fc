"""The rows of one Python process that reads whole topics."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from hightide_bench.measuring.statistics import BYTES_PER_MB
from hightide_bench.peers.rows.row import (
    CPU,
    HIGHTIDE,
    KAFKA_TUNED,
    MB_PER_S,
    PARTITIONS,
    RECORDS_PER_S,
    Entrant,
    Figures,
    Row,
    Stage,
    with_whole_cpu,
)

#: Both topics are filled by the client that is best at it.
FILLERS: Final = ((HIGHTIDE, True), (KAFKA_TUNED, False))


class Consume(Row):
    """Reads a topic from its beginning to its end, and touches each value."""

    is_bulk: ClassVar[bool] = True

    def __init__(self, name: str, record_bytes: int, *, arrow: bool = False) -> None:
        self.name, self._record_bytes, self._arrow = name, record_bytes, arrow
        form = "Arrow" if arrow else "records"
        self.title = f"consume {record_bytes:,} B, {form}"
        self.figures = (MB_PER_S if record_bytes >= 1_000 else RECORDS_PER_S, *CPU)

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Fill the topic."""
        records = stage.plan.size_mb * BYTES_PER_MB // self._record_bytes
        with stage.topic(self.name) as topic:
            fill(stage, topic, records, self._record_bytes)

            def measure(entrant: Entrant) -> Figures:
                figures = stage.run(
                    entrant,
                    "consume_load",
                    topic=topic,
                    records=records,
                    record_bytes=self._record_bytes,
                    partitions=PARTITIONS,
                    arrow=self._arrow,
                )
                return with_whole_cpu(figures)

            yield measure


def fill(stage: Stage, topic: str, records: int, record_bytes: int) -> None:
    """Write at least this many records to the topic of each system."""
    for entrant, arrow in FILLERS:
        stage.run(
            entrant,
            "produce_load",
            topic=topic,
            warm_s=0.0,
            measured_s=0.0,
            records=records,
            records_per_s=None,
            record_bytes=record_bytes,
            content="random",
            arrow=arrow,
        )


ROWS: Final[tuple[Row, ...]] = (
    Consume("consume-1kb", 1_000),
    Consume("consume-1kb-arrow", 1_000, arrow=True),
    Consume("consume-100b", 100),
    Consume("consume-100b-arrow", 100, arrow=True),
)
