"""Invariants of a replica that hold after every step. Tests call `check` after each step and on teardown."""

from __future__ import annotations

from itertools import pairwise

from hightide_broker.core.isr_state import CommittedIsr
from hightide_broker.core.replica import Replica, Role


def check(replica: Replica) -> None:
    """Check every invariant of one replica; raises AssertionError that describes the replica."""
    check_offsets(replica)
    check_lineage(replica)
    check_role(replica)
    if replica.leading is not None:
        check_leading(replica)


def check_offsets(replica: Replica) -> None:
    """0 ≤ log start ≤ HW ≤ log end, and what is durable is in the log."""
    assert 0 <= replica.log_start_offset <= replica.log_end_offset, replica
    assert replica.log_start_offset <= replica.high_watermark <= replica.log_end_offset, replica
    assert 0 <= replica.durable_end_offset <= replica.log_end_offset, replica


def check_lineage(replica: Replica) -> None:
    """Epochs and their starts rise strictly, cover the log, and are not newer than the decision."""
    entries = replica.epochs.entries
    for older, newer in pairwise(entries):
        assert older.epoch < newer.epoch, entries
        assert older.start_offset < newer.start_offset, entries
    if replica.log_end_offset > replica.log_start_offset:
        assert entries, "every record has an epoch"
        assert entries[0].start_offset <= replica.log_start_offset, entries
    if entries:
        assert entries[-1].start_offset <= replica.log_end_offset, entries
        check_decided(replica, entries[-1].epoch)


def check_decided(replica: Replica, latest_epoch: int) -> None:
    """No replica writes in an epoch that is not decided."""
    if replica.role not in (Role.IDLE, Role.FAILED):
        assert latest_epoch <= replica.leader_epoch, "nobody writes in an epoch that is not decided"


def check_role(replica: Replica) -> None:
    """The role agrees with the decision, and only a leader has followers."""
    me = replica.settings.broker_id
    assert (replica.leading is not None) == (replica.role is Role.LEADER)
    match replica.role:
        case Role.LEADER:
            assert replica.leader == me
            assert replica.epochs.latest_epoch == replica.leader_epoch
        case Role.TRUNCATING | Role.FETCHING | Role.DIVERGED:
            assert replica.leader not in (me, -1)
        case Role.OFFLINE:
            assert replica.leader == -1
        case _:
            pass


def check_leading(replica: Replica) -> None:
    """LeaderInIsr; the maximal ISR holds both sets; progress covers the other assigned replicas.

    That HW ≤ the smallest end over the maximal ISR is checked against the logs themselves (tests/sim,
    StrongIsr): what a leader remembers of a follower may lag behind either way.
    """
    leading = replica.leading
    assert leading is not None
    me = replica.settings.broker_id
    assert me in leading.isr.isr, "the leader is in its ISR"
    assert me in leading.isr.wanted
    assert set(leading.isr.isr) <= set(leading.isr.maximal)
    assert not (isinstance(leading.isr, CommittedIsr) and set(leading.waiting) & set(leading.isr.isr))
    ids = [p.replica_id for p in leading.progress]
    assert ids == sorted(set(replica.decision.replicas) - {me})
