"""The blocking producer."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from hightide.delivery import BulkDelivery, Delivery

if TYPE_CHECKING:
    import pyarrow as pa

Acks = Literal["all", 1, 0]
Compression = Literal["lz4", "zstd"]


class Producer:
    """Sends records; thread-safe. Records are gathered in batches and sent in the background.

    Raises InvalidArgumentError for settings that cannot be used. Nothing connects before the first send().
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        acks: Acks = "all",
        linger_ms: float = 5,
        batch_bytes_max: int = 1 << 20,
        buffer_memory_bytes: int = 64 << 20,
        compression: Compression | None = None,
        idempotent: bool = True,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_block_ms: int = 60_000,
        client_id: str | None = None,
    ) -> None:
        raise NotImplementedError

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_us: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> Delivery:
        """Take one record; it is sent in the background. Blocks up to max_block_ms while the buffer is full or the
        topic is not known yet. Raises UnknownTopicError, UnknownPartitionError, BrokersUnavailableError,
        BufferFullError, RecordTooLargeError, InvalidArgumentError, ClosedError."""
        raise NotImplementedError

    def send_arrow(
        self, topic: str, records: "pa.RecordBatch | pa.Table", *, partition: int | None = None
    ) -> BulkDelivery:
        """Take all rows of a table with the columns `value`, and where there are `key` (binary or string),
        `timestamp` (timestamp or int64 of us) and `headers`. Equal keys keep their order. Errors as of send()."""
        raise NotImplementedError

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what waits and return when all of it is acknowledged or failed (each Delivery tells).
        Raises UndeliveredError when the time runs out first."""
        raise NotImplementedError

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then let go of everything. Raises UndeliveredError where records were left when the time ran
        out; those deliveries fail. Closing twice does nothing."""
        raise NotImplementedError

    @property
    def undelivered_count(self) -> int:
        """The number of records that were taken and are neither acknowledged nor failed yet."""
        raise NotImplementedError

    def partitions_for(self, topic: str) -> int:
        """The number of partitions of a topic. Errors as of send()."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
