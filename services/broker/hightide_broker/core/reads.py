"""The answers of a replica to readers: pure functions of its state, called by the servicer on Fetch and
ListOffsets."""

from __future__ import annotations

from msgspec import Struct

from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.leader import refuse_client
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica, Role


class ReadUpTo(Struct, frozen=True):
    """Read whole batches from the asked offset up to `end_offset` (the high watermark)."""

    end_offset: int


class NothingCommittedYet(Struct, frozen=True):
    """A valid offset at which nothing is committed yet: wait, or answer an empty set (V3 discussion 7)."""

    high_watermark: int


class LineageDiverges(Struct, frozen=True):
    """The log does not hold the record that the consumer read before the asked offset (KIP-320)."""

    agreed: EpochEnd
    """The last offset up to which the log and the consumer's records may agree, and the epoch in the log that
    ends there: the log has no record of later epochs up to the named one."""


def consumer_fetch(
    replica: Replica, offset: int, leader_epoch: int = -1, last_fetched_epoch: int = NO_EPOCH
) -> ReadUpTo | NothingCommittedYet | LineageDiverges | Refusal:
    """The answer to a consumer that asks for `offset`: below HW a read, up to LEO nothing yet, otherwise out
    of range.

    `leader_epoch` is the one that the consumer knows, -1 if it names none (KIP-320). Between HW and LEO the
    offset may have been committed by the leader before this one, so that it is not an error (V3 discussion
    7). `last_fetched_epoch` is the epoch of the last record that the consumer has read before `offset`,
    NO_EPOCH if it names none. A log that has lost that record answers so, whether or not it goes on beyond
    the offset.

    Beyond LEO nothing was ever committed, if this replica still leads. It does not know that before it has
    committed in its epoch, nor while an ISR that it asked for is in doubt. The latter is the case when it is
    cut off from ZooKeeper and from the others, one of which may lead by now.
    """
    refusal = refuse_client(replica, leader_epoch)
    if refusal is not None:
        return refusal
    if offset < replica.log_start_offset:
        return Refusal.OFFSET_OUT_OF_RANGE
    if last_fetched_epoch > replica.leader_epoch:
        # Records of that epoch have been committed by a leader that came after this one.
        return Refusal.UNKNOWN_LEADER_EPOCH
    if last_fetched_epoch > NO_EPOCH and offset > 0:
        diverging = _diverging(replica, offset, last_fetched_epoch)
        if diverging is not None:
            return diverging
    if offset > replica.log_end_offset:
        return Refusal.OFFSET_OUT_OF_RANGE if _knows_its_end(replica) else Refusal.OFFSET_NOT_AVAILABLE
    if offset < replica.high_watermark:
        return ReadUpTo(replica.high_watermark)
    return NothingCommittedYet(replica.high_watermark)


def _knows_its_end(replica: Replica) -> bool:
    leading = replica.leading
    assert leading is not None, "others were refused"
    return isinstance(leading.isr, CommittedIsr) and replica.high_watermark >= leading.epoch_start_offset


def replica_read(replica: Replica, offset: int) -> ReadUpTo | NothingCommittedYet | Refusal:
    """The answer for this very replica at `offset`, for comparing replicas. Whether it leads or follows, it
    reads up to the high watermark that it knows, which may lag behind the leader's."""
    if replica.role is Role.FAILED:
        return Refusal.STORAGE_FAILED
    if replica.role in (Role.IDLE, Role.STOPPED):
        return Refusal.NOT_ASSIGNED
    if not replica.log_start_offset <= offset <= replica.log_end_offset:
        return Refusal.OFFSET_OUT_OF_RANGE
    if offset < replica.high_watermark:
        return ReadUpTo(replica.high_watermark)
    return NothingCommittedYet(replica.high_watermark)


def _diverging(replica: Replica, offset: int, epoch: int) -> LineageDiverges | None:
    """The offset at which the log begins to differ from that of a consumer which has read the record before
    `offset` in `epoch`; None if the log holds that record, or once held it.

    A consumer names the epoch of a record, which no log forgets as long as it has the record. So if an epoch
    is missing although an older one is there, the record is missing too, even if the log has another one in
    its place. Records before the first epoch were deleted by retention.
    """
    start = replica.log_start_offset
    end = replica.epochs.end_offset_for(epoch, start, replica.log_end_offset)
    if end.epoch == epoch:
        return None if offset <= end.end_offset else LineageDiverges(end)
    if end.epoch == NO_EPOCH and offset == start:
        return None
    return LineageDiverges(EpochEnd(end.epoch, max(start, min(end.end_offset, offset - 1))))


def latest_offset(replica: Replica, leader_epoch: int = -1) -> int | Refusal:
    """ListOffsets "latest": the high watermark, or OFFSET_NOT_AVAILABLE before it reached this epoch's start.

    Until then the high watermark may lie below one that an earlier leader showed (KIP-207).
    """
    refusal = refuse_client(replica, leader_epoch)
    if refusal is not None:
        return refusal
    assert replica.leading is not None
    if replica.high_watermark < replica.leading.epoch_start_offset:
        return Refusal.OFFSET_NOT_AVAILABLE
    return replica.high_watermark


def earliest_offset(replica: Replica, leader_epoch: int = -1) -> int | Refusal:
    """ListOffsets "earliest": the log start offset."""
    refusal = refuse_client(replica, leader_epoch)
    return replica.log_start_offset if refusal is None else refusal
