"""Who produced what last: tells a fresh batch from a repeated one and from one that comes too early.

Rules of this file: no files and no clock. Sequences count records and wrap at 2^31.

Theory of operation. An idempotent producer numbers its records in each partition. The log remembers of each
producer its epoch, where that began, and its last few batches with their CRCs. A batch that continues the
numbering is fresh; one that equals a remembered batch, to the byte, was appended before, its answer was lost,
and it is answered with the offset that it has. Other records under sequences that are in the log come from a
second writer with the same id and epoch: SEQUENCE_CONFLICT, never DUPLICATE_SEQUENCE, which producers take
for success. Anything else is refused, since appending it would hide a loss or make a duplicate. All of it can
be rebuilt from the headers in the log.

Who is forgotten. A producer of which nothing is remembered is taken for a new one at sequence 0, so that the
retry of an append that was forgotten would be appended again. So nobody is forgotten within `RETRY_MS` of its
last append, which is longer than any producer tries; the memory is bounded by `PRODUCERS_MAX`, beyond which a
leader refuses a *new* producer until one has been silent for so long. Followers and recovery refuse nothing:
they forget whoever wrote longest ago, in the order of the log, and those are the ones that the leader forgot.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, TypeAlias

from hightide.batch.header import NO_PRODUCER, BatchHeader, next_sequence
from hightide.v1.errors_pb2 import ErrorCode

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.sealed_file import seal, unseal
from hightide_broker.storage.settings import PRODUCERS_MAX, RETRY_MS

__all__ = [
    "DuplicateBatch",
    "NewBatch",
    "ProducerState",
    "ProducerStates",
    "RejectedBatch",
    "Verdict",
]

_BATCHES_REMEMBERED: Final = 5
_SEQUENCE_MODULUS: Final = 2**31
_SNAPSHOT_MAGIC: Final = b"HTPS"
_SNAPSHOT_VERSION: Final = 3
"""Version 1 had neither CRCs nor where an epoch began, version 2 not of which records it is; what they say is
read from the log again."""
_SNAPSHOT_EPOCH: Final = struct.Struct("<i")
_SNAPSHOT_PRODUCER: Final = struct.Struct("<qiiqi")
_SNAPSHOT_BATCH: Final = struct.Struct("<iiqI")
_FIRST_BATCH_AT: Final = _SNAPSHOT_PRODUCER.size
_SECOND_BATCH_AT: Final = _FIRST_BATCH_AT + _SNAPSHOT_BATCH.size
_PRODUCER_SIZE_BYTES_MAX: Final = _FIRST_BATCH_AT + _BATCHES_REMEMBERED * _SNAPSHOT_BATCH.size


@dataclass(frozen=True, slots=True)
class NewBatch:
    """Not in the log yet, and the next in turn: append it."""


@dataclass(frozen=True, slots=True)
class DuplicateBatch:
    """In the log already, from `base_offset` to before `end_offset`: answer with that, once it is
    committed."""

    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """Not to be appended: OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE, SEQUENCE_CONFLICT,
    FENCED_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID or TOO_MANY_PRODUCERS."""

    code: ErrorCode.ValueType
    message: str


Verdict: TypeAlias = NewBatch | DuplicateBatch | RejectedBatch

_Position: TypeAlias = tuple[int, int]
"""Epoch and next sequence of a producer."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a log remembers of a producer: of its newest epoch the sequence and offset of the first record,
    the sequence that the next one must have, and the offset behind the last one."""

    producer_id: int
    producer_epoch: int
    first_sequence: int
    first_offset: int
    next_sequence: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class _Appended:
    """One remembered batch."""

    base_sequence: int
    record_count: int
    base_offset: int
    crc: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.record_count

    def is_repeated_by(self, header: BatchHeader) -> bool:
        return (self.base_sequence, self.record_count, self.crc) == (
            header.base_sequence,
            header.record_count,
            header.crc,
        )


class _Producer:
    """What is remembered of one producer. `seen_ms` is None while it was heard of since the last expiry
    round. `packed` is its part of a snapshot, with the remembered batches, which follow on each other: there
    may be many producers, and whoever appends waits while their snapshot is put together."""

    __slots__ = ("epoch", "packed", "seen_ms")

    def __init__(self, epoch: int, packed: bytes) -> None:
        self.epoch = epoch
        self.packed = packed
        self.seen_ms: int | None = None

    @classmethod
    def begun_by(cls, header: BatchHeader) -> _Producer:
        """The state of a producer after the first batch of an epoch."""
        packed = _SNAPSHOT_PRODUCER.pack(
            header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset, 1
        )
        return cls(header.producer_epoch, packed + _packed(header))

    @property
    def begin(self) -> tuple[int, int]:
        """Sequence and offset of the first record of its epoch."""
        _, _, first_sequence, first_offset, _ = _SNAPSHOT_PRODUCER.unpack_from(self.packed)
        return first_sequence, first_offset

    @property
    def appended(self) -> list[_Appended]:
        """The remembered batches, oldest first."""
        batches = memoryview(self.packed)[_FIRST_BATCH_AT:]
        return [_Appended(*fields) for fields in _SNAPSHOT_BATCH.iter_unpack(batches)]

    @property
    def next_sequence(self) -> int:
        packed = self.packed
        last = _SNAPSHOT_BATCH.unpack_from(packed, len(packed) - _SNAPSHOT_BATCH.size)
        return next_sequence(last[0], last[1])

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""
        packed = self.packed
        last = _SNAPSHOT_BATCH.unpack_from(packed, len(packed) - _SNAPSHOT_BATCH.size)
        return int(last[2] + last[1])

    def remember(self, header: BatchHeader) -> None:
        packed = self.packed
        if len(packed) == _PRODUCER_SIZE_BYTES_MAX:
            begin = packed[:_FIRST_BATCH_AT] + packed[_SECOND_BATCH_AT:]
        else:
            producer_id, epoch, first_sequence, first_offset, count = _SNAPSHOT_PRODUCER.unpack_from(packed)
            begin = _SNAPSHOT_PRODUCER.pack(producer_id, epoch, first_sequence, first_offset, count + 1)
            begin += packed[_FIRST_BATCH_AT:]
        self.packed = begin + _packed(header)
        self.seen_ms = None


def _packed(header: BatchHeader) -> bytes:
    return _SNAPSHOT_BATCH.pack(header.base_sequence, header.record_count, header.base_offset, header.crc)


class ProducerStates:
    """The producers of one log. Not thread-safe: the log that owns it calls it under its own lock."""

    __slots__ = ("_producers", "_producers_max", "_silent_since_ms")

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        assert producers_max > 0
        self._producers_max = producers_max
        # Who was last heard of then or before is past all retries; None before the first expiry round.
        self._silent_since_ms: int | None = None
        # In the order of their last appends.
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
        ahead: dict[int, _Position] = {}
        duplicates: list[_Appended] = []
        older: list[RejectedBatch] = []
        for header in headers:
            if header.producer_id == NO_PRODUCER:
                continue
            verdict = self._check_one(header, ahead.get(header.producer_id))
            if isinstance(verdict, _Appended):
                duplicates.append(verdict)
            elif verdict is None:
                following = next_sequence(header.base_sequence, header.record_count)
                ahead[header.producer_id] = (header.producer_epoch, following)
            elif verdict.code == ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE:
                older.append(verdict)
            else:
                return verdict
        repeated_count = len(duplicates) + len(older)
        if repeated_count == 0:
            return self._no_room_for(ahead) or NewBatch()
        # Producers take DUPLICATE_SEQUENCE for the success of all that the request holds, and count the
        # offsets of all batches from the first one's.
        if repeated_count < len(headers) or not (older or _follow_on_each_other(duplicates)):
            return RejectedBatch(
                ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT,
                f"of the request's {len(headers)} batches {repeated_count} are in the log already, and not "
                "all in one place; a retry must hold the same batches as before",
            )
        if older:
            return older[0]
        return DuplicateBatch(duplicates[0].base_offset, duplicates[-1].end_offset)

    def _no_room_for(self, fresh: Collection[int]) -> RejectedBatch | None:
        """Why these producers may not append: some are new, and as many would have to be forgotten that may
        still try again. None where they may."""
        if len(self._producers) + len(fresh) <= self._producers_max:
            return None
        new = [producer_id for producer_id in fresh if producer_id not in self._producers]
        missing = len(self._producers) + len(new) - self._producers_max
        if not new or missing <= 0:
            return None
        staying = (each for producer_id, each in self._producers.items() if producer_id not in fresh)
        leaving = list(islice(staying, missing))
        if len(leaving) == missing and all(self._is_past_retries(each) for each in leaving):
            return None
        return RejectedBatch(
            ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS,
            f"producer {new[0]} is new here, and the partition remembers {len(self._producers)} producers, "
            f"of {self._producers_max} at most, that all wrote within the last {RETRY_MS // 60_000} minutes "
            "and may try again; try again when some have been silent, or let fewer ones write for longer",
        )

    def _is_past_retries(self, producer: _Producer) -> bool:
        return (
            producer.seen_ms is not None
            and self._silent_since_ms is not None
            and producer.seen_ms <= self._silent_since_ms
        )

    def _check_one(self, header: BatchHeader, ahead: _Position | None) -> _Appended | RejectedBatch | None:
        """One batch: the remembered one that it repeats, why it is refused, or None where it is fresh.

        `ahead` is where the producer stands after the fresh batches in front of this one in the request.
        """
        producer = self._producers.get(header.producer_id)
        if ahead is not None:
            epoch, expected = ahead
        elif producer is not None:
            epoch, expected = producer.epoch, producer.next_sequence
        elif header.base_sequence == 0:
            return None
        else:
            return RejectedBatch(
                ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID,
                f"producer {header.producer_id} is not known here, but sent sequence "
                f"{header.base_sequence}, not 0",
            )
        if header.producer_epoch < epoch:
            return RejectedBatch(
                ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {header.producer_epoch}; epoch {epoch} took over",
            )
        if header.producer_epoch > epoch:
            if header.base_sequence == 0:
                return None
            return _out_of_order(header, 0)
        behind = (expected - header.base_sequence) % _SEQUENCE_MODULUS
        if behind == 0:
            return None
        in_log = producer if producer is not None and producer.epoch == epoch else None
        remembered = in_log.appended if in_log is not None else []
        for batch in remembered:
            if batch.is_repeated_by(header):
                return batch
        # Of a circle of sequences, the half behind the expected one is the past.
        if behind >= _SEQUENCE_MODULUS // 2:
            return _out_of_order(header, expected)
        end_behind = behind - header.record_count
        if (
            in_log is None
            or ahead is not None
            or end_behind < sum(batch.record_count for batch in remembered)
        ):
            return RejectedBatch(
                ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT,
                f"producer {header.producer_id} sent {header.record_count} records from sequence "
                f"{header.base_sequence} on in epoch {epoch}, of which other records have been written "
                f"before; the next sequence is {expected}. Two writers may share the id and epoch",
            )
        return RejectedBatch(
            ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE,
            f"producer {header.producer_id} repeats sequence {header.base_sequence}, which was appended "
            f"longer ago than is remembered; the next is {expected}",
        )

    def describe(self, producer_ids: Collection[int]) -> list[ProducerState]:
        """What is remembered of these producers, by id; of all where none is named. Called by the log."""
        known: Iterable[int] = self._producers
        if producer_ids:
            known = (each for each in set(producer_ids) if each in self._producers)
        return [
            ProducerState(
                producer_id, found.epoch, *found.begin, found.next_sequence, found.end_offset,
            )
            for producer_id in sorted(known)
            for found in (self._producers[producer_id],)
        ]  # fmt: skip

    def update(self, header: BatchHeader) -> None:
        """Take note of a batch that was appended; called by the log for each batch in offset order.

        A leader appends what does not follow on only where the producer had been forgotten. Whoever has not
        forgotten it, or reads the log again, forgets it then.
        """
        if header.producer_id == NO_PRODUCER:
            return
        producer = self._producers.get(header.producer_id)
        if (
            producer is None
            or producer.epoch != header.producer_epoch
            or producer.next_sequence != header.base_sequence
        ):
            self._producers[header.producer_id] = _Producer.begun_by(header)
        else:
            producer.remember(header)
        self._producers.move_to_end(header.producer_id)
        if len(self._producers) > self._producers_max:
            self._producers.popitem(last=False)

    def expire(self, now_ms: int, expiry_ms: int) -> None:
        """Forget producers not heard of for `expiry_ms`; called by the log with a clock that cannot jump.

        Times are of these calls, not of the batches: a producer of old records is as alive as any. It costs
        what was appended since the last time.
        """
        assert expiry_ms > 0
        self._silent_since_ms = now_ms - RETRY_MS
        for producer in reversed(self._producers.values()):
            if producer.seen_ms is not None:
                break
            producer.seen_ms = now_ms
        while self._producers:
            producer_id, producer = next(iter(self._producers.items()))
            if producer.seen_ms is None or now_ms - producer.seen_ms <= expiry_ms:
                break
            del self._producers[producer_id]

    def clear(self) -> None:
        """Forget everything; called by the log before it rebuilds the states."""
        self._producers.clear()

    def encode(self, leader_epoch: int) -> bytes:
        """The bytes of a snapshot. `leader_epoch`: that of the last record of all."""
        contents = b"".join([producer.packed for producer in self._producers.values()])
        return seal(_SNAPSHOT_MAGIC, _SNAPSHOT_VERSION, _SNAPSHOT_EPOCH.pack(leader_epoch) + contents)

    def restore(self, snapshot: bytes) -> int:
        """Replace everything by a snapshot, and give its leader epoch. Raises CorruptFile, and is empty
        then."""
        self._producers.clear()
        contents = unseal(_SNAPSHOT_MAGIC, _SNAPSHOT_VERSION, snapshot)
        try:
            (leader_epoch,) = _SNAPSHOT_EPOCH.unpack_from(contents)
            at = _SNAPSHOT_EPOCH.size
            while at < len(contents):
                producer_id, epoch, _, _, count = _SNAPSHOT_PRODUCER.unpack_from(contents, at)
                end = at + _SNAPSHOT_PRODUCER.size + count * _SNAPSHOT_BATCH.size
                if not 0 < count <= _BATCHES_REMEMBERED or end > len(contents):
                    raise CorruptFile(
                        f"the producer snapshot has no {count} batches of producer {producer_id}"
                    )
                self._producers[producer_id] = _Producer(epoch, bytes(contents[at:end]))
                at = end
        except (struct.error, CorruptFile) as error:
            self._producers.clear()
            raise CorruptFile(f"the producer snapshot ends within an entry: {error}") from error
        return int(leader_epoch)


def _follow_on_each_other(duplicates: Sequence[_Appended]) -> bool:
    return all(one.end_offset == other.base_offset for one, other in pairwise(duplicates))


def _out_of_order(header: BatchHeader, expected: int) -> RejectedBatch:
    return RejectedBatch(
        ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, the next is {expected}",
    )
