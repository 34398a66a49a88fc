"""A batch that is not finished: records are appended to its columns, then it is encoded, sent, and
acknowledged or failed.

Rules of this file: the caller that appends, encodes or finishes holds the producer's lock. Only the encoding
of a closed batch may happen outside of it, since only one request carries a batch at a time. Waiters are
guarded by one lock for all batches, since there are few.
"""

import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import pyarrow as pa

from hightide.batch import body
from hightide.batch.checksum import crc32c
from hightide.batch.header import (
    CRC_COVERS_FROM,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    Buffer,
    Compression,
    parse,
)
from hightide.errors import HightideError
from hightide.records import RecordMetadata, RecordRange

# The size of one record beside its key and value: two offsets, a timestamp, validity bits, rounded up.
RECORD_OVERHEAD_BYTES: Final = 24
# The size of a batch beside its records: the header, Arrow's metadata, padding.
BATCH_OVERHEAD_BYTES: Final = 1024
# An open batch of this size that has not grown for so long is a whole burst: nothing comes that it could wait
# for, and it is large enough for a call of its own.
BURST_BYTES: Final = 256 << 10
PAUSE_MS: Final = 1.0

_waiters_lock = threading.Lock()


def warm_up() -> None:
    """Let Arrow make its first array. Arrow then looks for pandas, which takes long if it is installed, and
    fails while the interpreter ends. Called by producers before their first record."""
    pa.array([0])


class BatchOwner(Protocol):
    """The producer that a batch belongs to."""

    def hurry(self, batch: "PendingBatch") -> None:
        """Send this batch without lingering, because its outcome is waited for. Called from any thread."""


class PendingBatch:
    """One batch of one partition. `ordinal` is the number of records that the partition was given before.
    `size_bytes` is never below the size of the encoded batch, uncompressed; `granted_bytes` is the part of
    the producer's memory that it holds. `seen_bytes` is the size that it had at `seen_ms`. `in_doubt` are the
    ids of the topics to which an earlier attempt may have appended it: one name has several, where it was
    deleted and created again."""

    __slots__ = (
        "_waiters",
        "arrow",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "deadline_ms",
        "encoded",
        "error",
        "granted_bytes",
        "headers",
        "in_doubt",
        "is_done",
        "is_urgent",
        "keys",
        "last_error",
        "ordinal",
        "owner",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "record_count",
        "seen_bytes",
        "seen_ms",
        "size_bytes",
        "timestamps",
        "topic",
        "values",
        "was_sent_first",
    )

    def __init__(
        self,
        owner: BatchOwner,
        topic: str,
        partition: int,
        *,
        ordinal: int,
        created_ms: float,
        deadline_ms: float,
    ) -> None:
        self.owner = owner
        self.topic = topic
        self.partition = partition
        self.ordinal = ordinal
        self.created_ms = created_ms
        self.deadline_ms = deadline_ms
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: Any = array("q")
        self.headers: list[Sequence[tuple[str, bytes]] | None] | None = None
        self.arrow: Any = None
        self.record_count = 0
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.granted_bytes = 0
        self.seen_bytes = 0
        self.seen_ms = created_ms
        self.encoded: tuple[Buffer, ...] | None = None
        self.producer_id = NO_PRODUCER
        self.producer_epoch = NO_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.is_urgent = False
        self.in_doubt: frozenset[bytes] = frozenset()
        self.was_sent_first = False
        self.last_error: HightideError | None = None
        self.is_done = False
        self.error: HightideError | None = None
        self.base_offset = -1
        self.parts: tuple[PendingBatch, ...] = ()
        self._waiters: list[Callable[[], object]] = []

    @property
    def maybe_appended(self) -> bool:
        """Whether the batch may be in some log."""
        return bool(self.in_doubt)

    def has_paused(self, now_ms: float) -> bool:
        """Whether the batch is large, and has not grown between two such questions PAUSE_MS apart."""
        if self.size_bytes < BURST_BYTES:
            return False
        if self.size_bytes > self.seen_bytes:
            self.seen_bytes, self.seen_ms = self.size_bytes, now_ms
        return now_ms - self.seen_ms >= PAUSE_MS

    def cut(self, record_count: int) -> None:
        """Take back what lies in the columns behind so many records: parts of a record whose sending was
        interrupted."""
        del self.keys[record_count:], self.values[record_count:], self.timestamps[record_count:]
        if self.headers is not None:
            del self.headers[record_count:]
        self.record_count = record_count

    def append_headers(self, headers: Sequence[tuple[str, bytes]] | None) -> None:
        """Note the headers of the record that was just appended. A batch has the column only once a record
        has headers."""
        if self.headers is None:
            if not headers:
                return
            self.headers = [None] * (self.record_count - 1)
        self.headers.append(headers or None)

    # -- encoding --------------------------------------------------------------------------------------------

    def encode(self, topic_id: bytes, compression: Compression) -> tuple[Buffer, ...]:
        """The batch's bytes, in parts, under its producer id, epoch and sequence. It is encoded once; if the
        identity or the topic id has changed since, only the header is made anew."""
        if self.encoded is None:
            made = body.encode(
                self.columns(),
                topic_id=topic_id,
                partition=self.partition,
                compression=compression,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
            )
            self.encoded = made.parts
            # The columns are no longer needed; the timestamps are, for those who ask for a record's metadata.
            self.keys, self.values, self.headers, self.arrow = [], [], None, None
            return self.encoded
        head, rest = self.encoded
        header = parse(head)
        wanted = replace(
            header,
            topic_id=topic_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )
        if wanted != header:
            covered = wanted.pack()[CRC_COVERS_FROM:]
            self.encoded = (replace(wanted, crc=crc32c(rest, crc32c(covered))).pack(), rest)
        return self.encoded

    def columns(self) -> Any:
        """The records as a `pyarrow.RecordBatch` in the schema of batches."""
        if self.arrow is not None:
            return self.arrow
        if self.encoded is not None:
            return body.decode(b"".join(self.encoded), check_crc=False)
        moments = pa.py_buffer(self.timestamps)
        timestamps = pa.Array.from_buffers(body.TIMESTAMP_TYPE, self.record_count, [None, moments], 0)
        arrays = [pa.array(self.keys, pa.binary()), pa.array(self.values, pa.binary()), timestamps]
        if self.headers is None:
            return pa.RecordBatch.from_arrays(arrays, schema=body.SCHEMA)
        rows = [
            None if row is None else [{"key": key, "value": value} for key, value in row]
            for row in self.headers
        ]
        arrays.append(pa.array(rows, body.HEADERS_TYPE))
        return pa.RecordBatch.from_arrays(arrays, schema=body.SCHEMA_WITH_HEADERS)

    # -- the end ---------------------------------------------------------------------------------------------

    def finish(self, base_offset: int, error: HightideError | None) -> list[Callable[[], object]]:
        """End the batch as acknowledged at an offset, or as failed. Returns the callbacks to make, outside of
        the producer's lock."""
        assert not self.is_done, "a batch ends once"
        with _waiters_lock:
            self.base_offset = base_offset
            self.error = error
            self.encoded = None
            self.keys, self.values, self.headers, self.arrow = [], [], None, None
            self.is_done = True
            waiters, self._waiters = self._waiters, []
        return waiters

    def split_into(self, parts: "tuple[PendingBatch, PendingBatch]") -> None:
        """Replace this batch, which was refused as too large, by two halves, which also get its waiters."""
        with _waiters_lock:
            self.parts = parts
            waiters, self._waiters = self._waiters, []
            self.encoded = None
        for waiter in waiters:
            # Without its index a waiter waits for both halves; that is right, if later than need be.
            self.when_done(waiter, None)

    def when_done(self, callback: Callable[[], object], index: int | None) -> None:
        """Call back once the record at `index`, or with None the whole batch, is acknowledged or failed."""
        holder = self if index is None else self.holder_of(index)[0]
        with _waiters_lock:
            is_done, parts = holder.is_done, holder.parts
            if not is_done and not parts:
                holder._waiters.append(callback)
                return
        if is_done:
            callback()
            return
        left = [len(parts)]

        def one_done() -> None:
            with _waiters_lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                callback()

        for part in parts:
            part.when_done(one_done, None)

    def hurry(self) -> None:
        """Send the batch at once, since its outcome is waited for."""
        self.owner.hurry(self)

    def leaves(self) -> "Iterator[PendingBatch]":
        """This batch, or the batches into which it was split, in order."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def holder_of(self, index: int) -> "tuple[PendingBatch, int]":
        """The batch that holds the record now, and the record's index there."""
        batch = self
        while batch.parts:
            first, second = batch.parts
            if index < first.record_count:
                batch = first
            else:
                index -= first.record_count
                batch = second
        return batch, index

    def metadata_of(self, index: int) -> RecordMetadata:
        """The place of the record at this index. Only once the batch is acknowledged."""
        assert self.is_done, "only what is done has a place"
        assert self.error is None, "what failed has no place"
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(self.topic, self.partition, offset, self.timestamps[index])

    def record_range(self) -> RecordRange:
        """The place of the whole batch. Only once it is acknowledged."""
        return RecordRange(self.topic, self.partition, self.base_offset, self.record_count)
