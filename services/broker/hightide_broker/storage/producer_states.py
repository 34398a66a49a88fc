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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hightide.batch.checksum import crc32c
from hightide.batch.header import NO_PRODUCER, BatchHeader, next_sequence
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.storage.errors import CorruptFile

__all__ = ["DuplicateOf", "Fresh", "ProducerStates", "Rejected", "Verdict"]

_BATCHES_REMEMBERED: Final = 5
_SEQUENCE_MODULUS: Final = 2**31
_SNAPSHOT_MAGIC: Final = b"HTPS"
_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEADER: Final = struct.Struct("<4sIII")
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
        batches it held before.
        """
        raise NotImplementedError

    def update(self, header: BatchHeader) -> None:
        """Take note of a batch that was appended; called by the log for each batch in offset order."""
        raise NotImplementedError

    def expire(self, now_us: int, expiry_us: int) -> None:
        """Forget producers not heard of for `expiry_us`; called by the log with retention."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything; called by the log before it rebuilds the states."""
        self._producers.clear()
