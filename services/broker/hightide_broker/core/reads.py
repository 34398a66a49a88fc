"""What a replica answers to readers: pure functions of its state, called by the servicer on Fetch and
ListOffsets."""

from __future__ import annotations

from dataclasses import dataclass

from hightide_broker.core.leader import refuse_client
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """Read whole batches from the asked offset up to `end_offset` (the high watermark)."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class NothingYet:
    """A valid offset at which nothing is committed yet: wait, or answer an empty set (V3 discussion 7)."""

    high_watermark: int


def consumer_fetch(replica: Replica, offset: int, leader_epoch: int = -1) -> ReadUpTo | NothingYet | Refusal:
    """What a consumer that asks for `offset` gets: below HW a read, up to LEO nothing yet, else out of range.

    `leader_epoch` is the one that the consumer believes in, -1 where it does not say (KIP-320). Between HW
    and LEO the offset may have been committed by the leader before this one, so that it is not an error (V3
    discussion 7).
    """
    refusal = refuse_client(replica, leader_epoch)
    if refusal is not None:
        return refusal
    if offset < replica.log_start_offset or offset > replica.log_end_offset:
        return Refusal.OFFSET_OUT_OF_RANGE
    if offset < replica.high_watermark:
        return ReadUpTo(replica.high_watermark)
    return NothingYet(replica.high_watermark)


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
