"""The policy for a batch that no reader can open, shared by consumers, range readers and Spark's source.

Rules of this file: no clock, no I/O.

Theory of operation. A leader checks what it can see of a batch without opening it, so a batch that is wrong
inside gets past it. Such a batch is the same on every replica, and would stop all consumers of its partition
for ever. So a reader may skip it, if its policy says so, and counts the batches that it leaves out. A batch
whose CRC does not fit its bytes is a different case. It was good when it was written, and another replica may
hold it whole; to leave it out would lose records that were acknowledged. That is an error under each policy.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow.compute as pc

from hightide.batch import body, header
from hightide.batch.errors import BatchError, InvalidBatch
from hightide.calls.notice import Level, Notice
from hightide.consuming.fetch_position import FetchedBatch
from hightide.errors import CorruptBatchError, InvalidArgumentError, UnreadableBatchError
from hightide.records import TopicPartition

OnCorruptBatch = Literal["fail", "skip"]

_POLICIES: Final = ("fail", "skip")


def check_policy(policy: str) -> None:
    """Check a policy. Raises InvalidArgumentError."""
    if policy not in _POLICIES:
        raise InvalidArgumentError(f"on_corrupt_batch is {policy!r}; it may be one of {_POLICIES}")


@dataclass(frozen=True, slots=True)
class SkippedBatches:
    """The amount that was left out of one partition since the reader was made; records that are read again
    count again."""

    batch_count: int
    record_count: int


class CorruptBatches:
    """The batches that one reader has left out. Thread-safe."""

    def __init__(self, policy: OnCorruptBatch, report: Callable[[Notice], None]) -> None:
        """`report` is told of each batch that is left out."""
        self._policy = policy
        self._report = report
        self._skipped: dict[TopicPartition, SkippedBatches] = {}
        self._lock = threading.Lock()

    @property
    def skipped(self) -> Mapping[TopicPartition, SkippedBatches]:
        """The amounts that were left out, by partition; partitions without any are absent."""
        with self._lock:
            return dict(self._skipped)

    def opened(self, chunk: FetchedBatch, policy: OnCorruptBatch | None = None) -> Any:
        """The wanted rows of a chunk, over the received bytes, or None if the chunk is left out, which is
        counted and reported. Called once for each chunk. Raises CorruptBatchError, UnreadableBatchError."""
        try:
            return _rows(chunk)
        except UnreadableBatchError as error:
            if (policy or self._policy) == "fail":
                raise
            self._count(chunk)
            text = f"{error.message}: left out, as on_corrupt_batch says"
            self._report(Notice("hightide.consumer", Level.WARNING, text))
        return None

    def _count(self, chunk: FetchedBatch) -> None:
        with self._lock:
            before = self._skipped.get(chunk.partition, SkippedBatches(0, 0))
            self._skipped[chunk.partition] = SkippedBatches(
                before.batch_count + 1, before.record_count + chunk.header.record_count - chunk.skip
            )


def _rows(chunk: FetchedBatch) -> Any:
    try:
        # The CRC was checked when the batch arrived, if that was wanted.
        columns = body.decode(chunk.batch, check_crc=False)
        _check_names(columns)
    except BatchError as error:
        raise _failure(chunk, error) from error
    return columns.slice(chunk.skip) if chunk.skip else columns


def _check_names(columns: Any) -> None:
    """Check that each header has a name, which is not to be seen without opening the batch. Raises
    InvalidBatch."""
    if columns.num_columns <= len(body.SCHEMA):
        return
    headers = columns.column(len(body.SCHEMA)).flatten()
    names = headers.field(0)
    if names.null_count and pc.any(pc.and_(names.is_null(), headers.is_valid())).as_py():
        raise InvalidBatch("a record has a header without a name")


def _failure(chunk: FetchedBatch, error: BatchError) -> CorruptBatchError:
    """The error that says whether the bytes were changed later, or written like that."""
    first, next_offset = chunk.header.base_offset, chunk.header.next_offset
    which = f"the batch of the offsets {first} to {next_offset - 1} of {chunk.partition} cannot be read"
    topic, partition = chunk.partition.topic, chunk.partition.partition
    try:
        header.verify_crc(chunk.batch, 0, chunk.header)
    except BatchError as changed:
        return CorruptBatchError(
            f"{which}: {changed}; another replica may hold it whole", topic=topic, partition=partition
        )
    offsets = {"base_offset": str(first), "next_offset": str(next_offset)}
    return UnreadableBatchError(
        f"{which}: {error}; seek to {next_offset} to leave it out",
        topic=topic,
        partition=partition,
        metadata=offsets,
    )
