"""The blocking consumer, in assign mode."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from hightide.records import Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

OffsetReset = Literal["earliest", "latest", "error"]


class Consumer:
    """Reads committed records of the partitions that are assigned to it; for use by one thread at a time.

    Records of one partition come in offset order. Nothing connects before the first use.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        topics: Sequence[str] | str | None = None,
        offset_reset: OffsetReset = "earliest",
        fetch_max_bytes: int = 4 << 20,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        prefetch_bytes: int = 32 << 20,
        check_crcs: bool = True,
        request_timeout_ms: int = 30_000,
        unavailable_timeout_ms: int = 60_000,
        client_id: str | None = None,
    ) -> None:
        raise NotImplementedError

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on, and no others. Partitions that stay keep their position; new ones
        start as offset_reset says (earliest for "error")."""
        raise NotImplementedError

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are assigned, sorted. With `topics`, known after the first use."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Record]:
        """Every record, for ever: waits for new ones at the end. Errors as of poll()."""
        raise NotImplementedError

    def read_to_end(self) -> Iterator[Record]:
        """Every record up to the end offsets as they are when the iteration starts; then it stops."""
        raise NotImplementedError

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> list[Record]:
        """The next records; an empty list where none came in time. Raises BrokersUnavailableError,
        UnknownTopicError (deleted), OffsetOutOfRangeError (offset_reset="error"), CorruptBatchError, ClosedError."""
        raise NotImplementedError

    def poll_arrow(self, timeout_s: float = 1.0) -> "pa.RecordBatch":
        """The next rows of one partition, with the columns topic, partition, offset, timestamp, key, value and,
        where records have them, headers. No rows where none came in time. Errors as of poll()."""
        raise NotImplementedError

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from this offset. Raises NotAssignedError, InvalidArgumentError for a negative offset."""
        raise NotImplementedError

    def seek_to_timestamp(self, partition: TopicPartition | None, timestamp: datetime | int) -> None:
        """Read on from the first record at or after a time (aware datetime, or microseconds since 1970), else from
        the end; None means all assigned partitions."""
        raise NotImplementedError

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offset that exists; without arguments, of all assigned partitions."""
        raise NotImplementedError

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the high watermark; without arguments, of all assigned partitions."""
        raise NotImplementedError

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out. Looks it up where it is not known yet."""
        raise NotImplementedError

    def lag(self) -> Mapping[TopicPartition, int]:
        """How many records each assigned partition is behind its high watermark, as last heard of."""
        raise NotImplementedError

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that exists, asked of the leaders."""
        raise NotImplementedError

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark, asked of the leaders."""
        raise NotImplementedError

    def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time; None where no committed record is that late."""
        raise NotImplementedError

    def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of a topic. Raises UnknownTopicError, BrokersUnavailableError."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop fetching and let go of everything. Closing twice does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
