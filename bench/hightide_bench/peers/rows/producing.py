"""The rows of one Python process that sends: as fast as it can, and at half of that rate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Literal

from hightide_bench.peers.rows.row import (
    CPU,
    HIGHTIDE,
    KAFKA_DEFAULT,
    KAFKA_TUNED,
    MB_PER_S,
    P50,
    P99,
    RECORDS_PER_S,
    RETENTION,
    WARM_S,
    Entrant,
    Figure,
    Figures,
    Row,
    Stage,
    with_whole_cpu,
)

_LOAD: Final = "produce_load"


class Produce(Row):
    """Sends values of one size as fast as one process can, `acks=all`, each record once."""

    is_bulk: ClassVar[bool] = True

    def __init__(
        self, name: str, record_bytes: int, *, arrow: bool = False, compression: Literal["lz4"] | None = None
    ) -> None:
        self.name = name
        api = "send_arrow" if arrow else "send"
        self.title = f"produce {record_bytes:,} B, {api}" + (f", {compression}, JSON" if compression else "")
        # Of small records the number counts, of large ones the bytes.
        self.figures = (MB_PER_S if record_bytes >= 1_000 else RECORDS_PER_S, *CPU)
        # With compression, the batches decide; librdkafka's default ones are small.
        self.entrants = (HIGHTIDE, KAFKA_TUNED) if compression else (HIGHTIDE, KAFKA_DEFAULT, KAFKA_TUNED)
        self._load = {
            "record_bytes": record_bytes,
            "arrow": arrow,
            "compression": compression,
            "content": "json" if compression else "random",
        }

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Make the topic."""
        with stage.topic(self.name, configs=RETENTION) as topic:

            def measure(entrant: Entrant) -> Figures:
                figures = stage.run(
                    entrant,
                    _LOAD,
                    topic=topic,
                    warm_s=WARM_S,
                    measured_s=stage.plan.seconds,
                    records=None,
                    records_per_s=None,
                    **self._load,
                )
                return with_whole_cpu(figures)

            yield measure


class ProduceAtHalfRate(Row):
    """Sends at half of the rate that every entrant reaches, and times the acknowledgements."""

    name: str = "produce-latency"
    title: str = "produce 1,000 B at half of the peak rate"
    figures: tuple[Figure, ...] = (P50, P99, *CPU, RECORDS_PER_S)
    is_bulk: ClassVar[bool] = True

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Find the peak of each entrant, and take half of the lowest for all of them."""
        with stage.topic(self.name, configs=RETENTION) as topic:

            def send(entrant: Entrant, records_per_s: float | None) -> Figures:
                figures = stage.run(
                    entrant,
                    _LOAD,
                    topic=topic,
                    warm_s=WARM_S,
                    measured_s=stage.plan.seconds,
                    records=None,
                    records_per_s=records_per_s,
                    record_bytes=1_000,
                    content="random",
                )
                return with_whole_cpu(figures)

            peaks = [send(entrant, None)["records_per_s"] or 0.0 for entrant in self.entrants]
            yield lambda entrant: send(entrant, min(peaks) / 2)


ROWS: Final[tuple[Row, ...]] = (
    Produce("produce-1kb", 1_000),
    Produce("produce-1kb-arrow", 1_000, arrow=True),
    Produce("produce-1kb-lz4", 1_000, compression="lz4"),
    Produce("produce-1kb-arrow-lz4", 1_000, arrow=True, compression="lz4"),
    Produce("produce-100b", 100),
    Produce("produce-100b-arrow", 100, arrow=True),
    ProduceAtHalfRate(),
)
