"""The rows of single records: from send() to poll() in one process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from hightide_bench.peers.rows.row import (
    HIGHTIDE,
    KAFKA_DEFAULT,
    P50,
    P99,
    PARTITIONS,
    WARM_S,
    Entrant,
    Figure,
    Figures,
    Row,
    Stage,
)

_RECORD_BYTES: Final = 100


class EndToEnd(Row):
    """Records of 100 bytes at an even rate, without linger, from one thread of a process to another."""

    figures: tuple[Figure, ...] = (
        P50,
        P99,
        Figure("client_us_per_record", "client CPU µs a record", "lower"),
        Figure("broker_us_per_record", "broker CPU µs a record", "lower"),
    )
    # The settings of a tuned client are for many records.
    entrants = (HIGHTIDE, KAFKA_DEFAULT)

    def __init__(self, records_per_s: int) -> None:
        self.name = f"e2e-{records_per_s}"
        self.title = f"e2e, {records_per_s:,} records/s of {_RECORD_BYTES} B"
        self._records_per_s = records_per_s

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Make the topic."""
        with stage.topic(self.name) as topic:
            yield lambda entrant: stage.run(
                entrant,
                "latency_load",
                topic=topic,
                partitions=PARTITIONS,
                record_bytes=_RECORD_BYTES,
                records_per_s=self._records_per_s,
                warm_s=WARM_S,
                measured_s=stage.plan.seconds,
            )


ROWS: Final[tuple[Row, ...]] = (EndToEnd(100), EndToEnd(1_000))
