"""The high watermark of a leader and of its followers: what is committed (V3 section G).

Theory of operation. Three things move a leader's high watermark: a follower's fetch, the leader's own end
(its append, or its fsync with flush=fsync), and a change of the maximal ISR. Each ends in
`leader_inc_high_watermark`. An ISR below min.insync.replicas commits nothing (KIP-966). The replica that left
it last therefore has all committed records as long as that lasts, and may be elected if the ISR is lost. A
follower takes over its leader's high watermark, as far as its own log goes.
"""

from __future__ import annotations

from hightide_broker.core.effects import AdvanceHighWatermark, AnswerProduces, Effects
from hightide_broker.core.isr_state import IsrState
from hightide_broker.core.replica import Leading, Replica

Step = tuple[Replica, Effects]


def leader_inc_high_watermark(replica: Replica, leading: Leading) -> Step:
    """Raise the high watermark to the smallest end over the maximal ISR; it never falls
    (LeaderIncHighWatermark).

    Every member of any ISR that may be stored now has all records below it, and so do the eligible replicas:
    any of them may lead next. A follower's end counts only from its fetches in this epoch. Nothing is
    committed while the ISR that is certainly stored is below min.insync.replicas. Nothing is committed either
    while an ISR may be stored that this leader does not know: a replica that is in no ISR any more may have
    all records, but is not trusted to.
    """
    state = leading.isr
    before = replica.high_watermark
    if not may_commit(replica, state):
        return replica if leading is replica.leading else replica.with_leading(leading, before), ()
    counted = counted_ends(state)
    smallest_end = replica.reliable_end_offset
    for progress in leading.progress:
        if progress.partition_epoch > state.partition_epoch:
            return replica if leading is replica.leading else replica.with_leading(leading, before), ()
        if progress.log_end_offset < smallest_end and progress.replica_id in counted:
            smallest_end = progress.log_end_offset
    after = raised_to(replica, smallest_end)
    if after == before:
        return replica if leading is replica.leading else replica.with_leading(leading, before), ()
    return replica.with_leading(leading, after), (AdvanceHighWatermark(after), AnswerProduces(after))


def followers_high_watermark(replica: Replica, leaders: int, log_end_offset: int) -> int:
    """The high watermark of a follower whose log now ends there, given the one that its leader sent."""
    return raised_to(replica, min(leaders, log_end_offset))


def may_commit(replica: Replica, state: IsrState) -> bool:
    """Whether the ISR that is certainly stored is large enough to commit anything (KIP-966)."""
    return len(state.isr) >= replica.in_sync_minimum


def counted_ends(state: IsrState) -> tuple[int, ...]:
    """The replicas whose log ends count: all that may be elected next (KIP-497)."""
    return state.electable


def raised_to(replica: Replica, offset: int) -> int:
    """The high watermark where it may rise to `offset`: it never falls."""
    return max(offset, replica.high_watermark)
