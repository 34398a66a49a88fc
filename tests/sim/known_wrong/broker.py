"""What a replica does by the replication text (V3), one rule of Hightide's taken out at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hightide_broker.core import decisions, follower, high_watermark, invariants, isr, leader
from hightide_broker.core.effects import AbandonWaiters, Effects, Refuse
from hightide_broker.core.events import FollowerFetched
from hightide_broker.core.high_watermark import leader_inc_high_watermark
from hightide_broker.core.isr import leader_shrink_isr
from hightide_broker.core.isr_state import IsrState
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Decision, FollowerProgress, Leading, Replica, Role, enter
from sim import words
from sim.known_wrong.replacing import Replacement, always

Step = tuple[Replica, Effects]

SMALL_LAG_RECORDS: Final = 4
"""V3's MIN_BYTES_LAG, in records."""


def _truncate_to_high_watermark(replica: Replica, decision: Decision) -> Step:
    """V3 C, becomeFollower: cut at the high watermark, unless the broker follows this leader already."""
    effects: Effects = (AbandonWaiters(Refusal.NOT_LEADER),) if replica.is_leader else ()
    already = replica.role is Role.FETCHING and replica.leader == decision.leader
    following = enter(replica, Role.FETCHING, decision)
    if not already and following.high_watermark < following.log_end_offset:
        following, cut = follower._truncate(following, following.high_watermark)
        effects += cut
    following, fetching = follower.fetch_on(following)
    return following, (*effects, *fetching)


def _fetch_without_asking(replica: Replica) -> Step:
    """V3 knows no epochs in a log: there is nothing to ask."""
    return follower.fetch_on(replica.with_role(Role.FETCHING))


def _is_of_a_stranger(replica: Replica, leader_id: int, leader_epoch: int) -> bool:
    """An answer counts whatever epoch it was asked for in."""
    return not replica.is_follower or leader_id != replica.leader


def _falls(replica: Replica, offset: int) -> int:
    """V3 G: the minimum over the ISR, whatever it was before."""
    return max(offset, replica.log_start_offset)


def _told(replica: Replica, leaders: int, log_end_offset: int) -> int:
    return min(leaders, log_end_offset)


def _lags_little(replica: Replica, leading: Leading, progress: FollowerProgress) -> bool:
    """V3 G: a follower joins when its lag is small."""
    ends = [p.log_end_offset for p in leading.progress if p.replica_id in leading.isr.isr]
    return progress.log_end_offset > min([replica.log_end_offset, *ends]) - SMALL_LAG_RECORDS


def _shrinking(fetched: Callable[[Replica, FollowerFetched], Step]) -> Callable[..., Step]:
    """V3 G, the "???": the ISR is only looked at when some follower fetches."""

    def fetched_and_shrunk(replica: Replica, event: FollowerFetched) -> Step:
        after, effects = fetched(replica, event)
        if after.leading is None or any(isinstance(effect, Refuse) for effect in effects):
            return after, effects
        leading, shrunk = leader_shrink_isr(after, after.leading, event.now_ms)
        if not shrunk:
            return after, effects
        after, advanced = leader_inc_high_watermark(after, leading)
        return after, (*effects, *shrunk, *advanced)

    return fetched_and_shrunk


def _never(replica: Replica, now_ms: int) -> Step:
    return replica, ()


def _asked_for(state: IsrState) -> tuple[int, ...]:
    """The ISR that the leader asked for, before that is stored."""
    return state.wanted


def _told_before(before: FollowerProgress, event: FollowerFetched) -> int:
    """A leader commits by the ISR that it knows, though a fetch tells that another one is stored."""
    return before.partition_epoch


WITHOUT: Final[Mapping[str, tuple[Replacement, ...]]] = {
    "truncate_by_epoch": (
        Replacement(follower, "become_follower_and_truncate", lambda _: _truncate_to_high_watermark),
        Replacement(follower, "_ask", lambda _: _fetch_without_asking),
        Replacement(follower, "is_lineage", always(True)),
    ),
    "fence_by_epoch": (
        Replacement(decisions, "fence_decision", always(None)),
        Replacement(decisions, "fence_stop", always(None)),
        Replacement(leader, "fence_epoch", always(None)),
        Replacement(follower, "is_echo", lambda _: _is_of_a_stranger),
        Replacement(invariants, "check_decided", always(None)),
        Replacement(words, "is_of_another_epoch", always(False)),
        Replacement(words, "is_for_an_earlier_life", always(False)),
    ),
    "high_watermark_never_falls": (
        Replacement(high_watermark, "raised_to", lambda _: _falls),
        Replacement(high_watermark, "followers_high_watermark", lambda _: _told),
    ),
    "join_at_epoch_start": (Replacement(isr, "may_join", lambda _: _lags_little),),
    "shrink_on_timer": (
        Replacement(isr, "tick", lambda _: _never),
        Replacement(leader, "fenced_follower_fetch", _shrinking),
    ),
    "maximal_isr": (Replacement(high_watermark, "counted_ends", lambda _: _asked_for),),
    "spent_epochs": (Replacement(decisions, "is_spent", always(False)),),
    "fenced_joins": (Replacement(isr, "lives_that_join", always(())),),
    "commits_by_min_insync": (
        Replacement(high_watermark, "may_commit", always(True)),
        Replacement(isr, "refuse_waiting", always(())),
    ),
    "heeds_newer_isr": (Replacement(leader, "newest_told_epoch", lambda _: _told_before),),
}
"""Rule of the core (docs/protocol.md, "The safety rules", or a KIP) → the broker without it."""
