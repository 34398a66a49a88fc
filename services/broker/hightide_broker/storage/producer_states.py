"""Who produced what last: tells a fresh batch from a repeated one and from one that comes too early.

Rules of this file: no files and no clock. Sequences count records and wrap at 2^31.

Theory of operation. An idempotent producer numbers its records in each partition. The log remembers of each
producer its epoch and its last few batches. A batch that continues the numbering is fresh; one that equals
a remembered batch was appended before, its answer was lost, and it is answered with the offset that it has;
anything else is refused, since appending it would hide a loss or make a duplicate. All of it can be rebuilt
from the headers in the log.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hightide.batch.header import NO_PRODUCER, BatchHeader, next_sequence
from hightide.v1.errors_pb2 import ErrorCode

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.sealed_file import seal, unseal

__all__ = ["DuplicateOf", "Fresh", "ProducerStates", "Rejected", "Verdict"]

_BATCHES_REMEMBERED: Final = 5
_SEQUENCE_MODULUS: Final = 2**31
_SNAPSHOT_MAGIC: Final = b"HTPS"
_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_PRODUCER: Final = struct.Struct("<qii")
_SNAPSHOT_BATCH: Final = struct.Struct("<iiq")


@dataclass(frozen=True, slots=True)
class Fresh:
    """Not in the log yet, and the next in turn: append it."""


@dataclass(frozen=True, slots=True)
class DuplicateOf:
    """In the log already, from `base_offset` to before `end_offset`: answer with that, once it is
    committed."""

    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not to be appended: OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE, FENCED_PRODUCER_EPOCH or
    UNKNOWN_PRODUCER_ID."""

    code: ErrorCode.ValueType
    message: str


Verdict: TypeAlias = Fresh | DuplicateOf | Rejected


@dataclass(frozen=True, slots=True)
class _Appended:
    """One remembered batch."""

    base_sequence: int
    record_count: int
    base_offset: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.record_count


class _Producer:
    """What is remembered of one producer. `seen_us` is None while it was heard of since the last expiry
    round."""

    __slots__ = ("appended", "epoch", "seen_us")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.appended: tuple[_Appended, ...] = ()
        self.seen_us: int | None = None

    @property
    def next_sequence(self) -> int:
        last = self.appended[-1]
        return next_sequence(last.base_sequence, last.record_count)

    def remember(self, batch: _Appended) -> None:
        self.appended = (*self.appended[1 - _BATCHES_REMEMBERED :], batch)
        self.seen_us = None
        assert len(self.appended) <= _BATCHES_REMEMBERED


class ProducerStates:
    """The producers of one log. Not thread-safe: the log that owns it calls it under its own lock."""

    __slots__ = ("_producers", "_producers_max")

    def __init__(self, producers_max: int = 5_000) -> None:
        assert producers_max > 0
        self._producers_max = producers_max
        self._producers: OrderedDict[int, _Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader) -> Verdict:
        """Judge one batch that is about to be appended. Called by a leader, never by a follower. Changes
        nothing."""
        return self.check_all((header,))

    def check_all(self, headers: Sequence[BatchHeader]) -> Verdict:
        """Judge the batches that one request holds for the partition, as one.

        Called by a leader before `append_as_leader`. All are fresh, or all are duplicates (then from the
        first one's base offset to the last one's end), or the request is rejected: a retry must hold the
        batches that it held before.
        """
        assert headers
        ahead: dict[int, tuple[int, int]] = {}
        duplicates: list[_Appended] = []
        for header in headers:
            if header.producer_id == NO_PRODUCER:
                continue
            verdict = self._check_one(header, ahead.get(header.producer_id))
            if isinstance(verdict, Rejected):
                return verdict
            if isinstance(verdict, _Appended):
                duplicates.append(verdict)
            ahead[header.producer_id] = (
                header.producer_epoch,
                next_sequence(header.base_sequence, header.record_count),
            )
        if not duplicates:
            return Fresh()
        if len(duplicates) < len(headers):
            return Rejected(
                ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE,
                f"{len(duplicates)} of the request's {len(headers)} batches are in the log already; "
                "a retry must hold the same batches as before",
            )
        return DuplicateOf(duplicates[0].base_offset, duplicates[-1].end_offset)

    def _check_one(self, header: BatchHeader, ahead: tuple[int, int] | None) -> _Appended | Rejected | None:
        """One batch: the remembered one that it repeats, why it is refused, or None where it is fresh.

        `ahead` is epoch and next sequence of the producer after what is in front of the batch in the request.
        """
        producer = self._producers.get(header.producer_id)
        if ahead is None and producer is None:
            if header.base_sequence == 0:
                return None
            return Rejected(
                ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID,
                f"producer {header.producer_id} is not known here, but sent sequence "
                f"{header.base_sequence}, not 0",
            )
        if producer is not None and header.producer_epoch < producer.epoch:
            return Rejected(
                ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {header.producer_epoch}; "
                f"epoch {producer.epoch} took over",
            )
        if producer is not None and header.producer_epoch == producer.epoch:
            for batch in producer.appended:
                if (batch.base_sequence, batch.record_count) == (header.base_sequence, header.record_count):
                    return batch
        expected = _expected_sequence(header, producer, ahead)
        behind = (expected - header.base_sequence) % _SEQUENCE_MODULUS
        if behind == 0:
            return None
        # Of a circle of sequences, the half behind the expected one is the past.
        if behind < _SEQUENCE_MODULUS // 2:
            return Rejected(
                ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE,
                f"producer {header.producer_id} repeats sequence {header.base_sequence}, which was appended "
                f"longer ago than is remembered; the next is {expected}",
            )
        return Rejected(
            ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE,
            f"producer {header.producer_id} sent sequence {header.base_sequence}, the next is {expected}",
        )

    def update(self, header: BatchHeader) -> None:
        """Take note of a batch that was appended; called by the log for each batch in offset order."""
        if header.producer_id == NO_PRODUCER:
            return
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        producer.remember(_Appended(header.base_sequence, header.record_count, header.base_offset))
        self._producers.move_to_end(header.producer_id)
        if len(self._producers) > self._producers_max:
            self._producers.popitem(last=False)

    def expire(self, now_us: int, expiry_us: int) -> None:
        """Forget producers not heard of for `expiry_us`; called by the log with retention.

        Times are of these calls, not of the batches: a producer of old records is as alive as any.
        """
        for producer_id, producer in list(self._producers.items()):
            if producer.seen_us is None:
                producer.seen_us = now_us
            elif now_us - producer.seen_us > expiry_us:
                del self._producers[producer_id]

    def clear(self) -> None:
        """Forget everything; called by the log before it rebuilds the states."""
        self._producers.clear()

    def encode(self) -> bytes:
        """The bytes of a snapshot."""
        pieces = []
        for producer_id, producer in self._producers.items():
            pieces.append(_SNAPSHOT_PRODUCER.pack(producer_id, producer.epoch, len(producer.appended)))
            pieces.extend(
                _SNAPSHOT_BATCH.pack(batch.base_sequence, batch.record_count, batch.base_offset)
                for batch in producer.appended
            )
        return seal(_SNAPSHOT_MAGIC, _SNAPSHOT_VERSION, b"".join(pieces))

    def restore(self, snapshot: bytes) -> None:
        """Replace everything by a snapshot. Raises CorruptFile, and is empty then."""
        self._producers.clear()
        contents = unseal(_SNAPSHOT_MAGIC, _SNAPSHOT_VERSION, snapshot)
        at = 0
        try:
            while at < len(contents):
                producer_id, epoch, count = _SNAPSHOT_PRODUCER.unpack_from(contents, at)
                at += _SNAPSHOT_PRODUCER.size
                producer = self._producers[producer_id] = _Producer(epoch)
                for _ in range(count):
                    producer.remember(_Appended(*_SNAPSHOT_BATCH.unpack_from(contents, at)))
                    at += _SNAPSHOT_BATCH.size
        except struct.error as error:
            self._producers.clear()
            raise CorruptFile("the producer snapshot ends within an entry") from error


def _expected_sequence(header: BatchHeader, producer: _Producer | None, ahead: tuple[int, int] | None) -> int:
    """The sequence that would be the next; a new epoch starts again at 0."""
    if ahead is not None and ahead[0] == header.producer_epoch:
        return ahead[1]
    if producer is not None and producer.epoch == header.producer_epoch:
        return producer.next_sequence
    return 0
