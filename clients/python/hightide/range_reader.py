"""Reads exact ranges of partitions: what Spark's tasks, and tools that compare replicas, read with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hightide.addresses import bootstrap_addresses
from hightide.batch.header import BatchHeader

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RangeBatch:
    """The rows of one batch of the log that are in the range. `base_offset` is that of the first row; `rows`
    has the columns key, value, timestamp, and headers where the batch has them (`hightide.batch.body.SCHEMA`,
    SCHEMA_WITH_HEADERS), over the bytes as they came. `header` is the whole batch's."""

    header: BatchHeader
    base_offset: int
    rows: "pa.RecordBatch"


class RangeReader:
    """Reads ranges of offsets, from anywhere; thread-safe. One a process is enough for all of its reads."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        client_id: str | None = None,
        fetch_max_bytes: int = 4 << 20,
        prefetch_bytes: int = 16 << 20,
        request_timeout_ms: int = 30_000,
        unavailable_timeout_ms: int = 60_000,
        check_crcs: bool = True,
    ) -> None:
        self._bootstrap = bootstrap_addresses(bootstrap)

    def read(
        self, topic: str, topic_id: bytes, partition: int, start: int, end: int, *, replica: int | None = None
    ) -> Iterator[RangeBatch]:
        """The records [start, end), in order."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of all connections. Closing twice does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
