"""Pings and the death of members (consumer coordinator §8): one timer for each member, and no loop over
all."""

from __future__ import annotations

from typing import Final

from hightide_coordinator.core.effects import SendPings
from hightide_coordinator.core.membership.departures import declare_dead
from hightide_coordinator.core.membership.orders import drop_order
from hightide_coordinator.core.placement.placement import place_all
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.group_changes import fail_attempt
from hightide_coordinator.core.state.member import Member, OrderKind
from hightide_coordinator.core.state.shard_state import ShardState

__all__ = ["on_member_due", "send_pings"]

RETURNING_MS: Final = 1_000
"""How long after the last return of a member, after a takeover, others are still expected."""


def on_member_due(state: ShardState, member: Member, late_ms: int) -> None:
    """Handle the earliest deadline of a member: its next Ping, the end of an order's time, of its silence, or
    of its absence. `late_ms`: by how much this coordinator missed the moment."""
    group = state.groups.get(member.group)
    if group is None or group.members.get(member.member_id) is not member:
        return
    _excuse(state, member, late_ms)
    if not member.is_connected:
        due_ms = _return_by_ms(state, member)
        if state.now_ms >= due_ms:
            away = (
                "it did not come back" if member.registration else "it did not register with this coordinator"
            )
            declare_dead(state, member, away)
            return
        state.wheel.arm(member, due_ms)
        return
    dead_ms = _dead_ms(state, member)
    if state.now_ms >= dead_ms:
        declare_dead(state, member, f"it was silent for {state.now_ms - member.heard_ms} ms")
        return
    order = member.order
    if order is not None and state.now_ms >= order.expires_ms and not _expire_order(state, group, member):
        return
    if state.now_ms >= member.next_ping_ms:
        _ping(state, member)
    due_ms = min(member.next_ping_ms, dead_ms)
    if member.order is not None:
        due_ms = min(due_ms, member.order.expires_ms)
    state.wheel.arm(member, due_ms)


def _return_by_ms(state: ShardState, member: Member) -> int:
    """Until when a member without a stream may return. After a takeover of thousands, members may wait in
    this coordinator's queue. To declare them dead would move their partitions twice, and add load. While
    others still return, they have up to half a session timeout more (§10)."""
    if member.registration is not None:
        return member.away_until_ms
    longest_ms = member.away_until_ms + member.session_timeout_ms // 2
    return max(member.away_until_ms, min(state.returned_ms + RETURNING_MS, longest_ms))


def _dead_ms(state: ShardState, member: Member) -> int:
    """One session timeout of silence, and a third of it more for each Ping that may be missed."""
    return member.heard_ms + member.session_timeout_ms * (3 + state.limits.ping_retries_max) // 3


def _excuse(state: ShardState, member: Member, late_ms: int) -> None:
    """Extend the deadlines by what this coordinator itself was late, because it was paused or is busy.
    Answers that wait to be read are no silence."""
    member.heard_ms = min(member.heard_ms + late_ms, state.now_ms)
    member.away_until_ms += late_ms
    if member.order is not None:
        member.order.expires_ms += late_ms


def _ping(state: ShardState, member: Member) -> None:
    overdue_ms = state.now_ms - member.heard_ms - member.session_timeout_ms
    retry_count = 0 if overdue_ms < 0 else overdue_ms // member.ping_interval_ms + 1
    member.sequence += 1
    pings = state.pings.setdefault(member.group, [])
    pings.append((member.connection_id, member.sequence, retry_count))
    following_ms = member.next_ping_ms + member.ping_interval_ms
    # The first Ping of an overdue member is sent at that moment. If it came later, depending on when the last
    # answer came between two Pings, the member would have less than the third that each further Ping is for.
    overdue_at_ms = member.heard_ms + member.session_timeout_ms
    if state.now_ms < overdue_at_ms < following_ms:
        following_ms = overdue_at_ms
    member.next_ping_ms = max(following_ms, state.now_ms + 1)


def send_pings(state: ShardState) -> None:
    """Send the Pings that came due in one tick as one effect for each group, because they differ in
    little."""
    for name, connections in state.pings.items():
        group = state.groups.get(name)
        if group is not None:
            state.do(SendPings(state.coordinator_epoch, group.generation, tuple(connections)))
    state.pings.clear()


def _expire_order(state: ShardState, group: Group, member: Member) -> bool:
    """§8.2, §9 step 5: two thirds of the session timeout passed without an answer. False: the member is
    dead."""
    order = member.order
    assert order is not None, member.member_id
    what = "StopFetcher" if order.kind is OrderKind.STOP else "StartFetcher"
    member.expired_orders += 1
    if member.expired_orders > state.limits.ping_retries_max:
        declare_dead(state, member, f"it left {member.expired_orders} {what} unanswered")
        return False
    drop_order(group, member)
    member.is_resting = True
    group.resting[member.member_id] = member
    # Nobody knows whether it reads them now, and a late answer changes nothing. Partitions that stay its own
    # are started again.
    member.unstarted.update((name, None) for name in order.partitions if name in member.reading)
    place_all(group, {**order.partitions, **member.stops, **member.starts})
    timeout_ms = member.answer_timeout_ms
    reason = f"consumer {member.consumer_id} did not answer {what} within {timeout_ms} ms"
    fail_attempt(state, group, reason)
    return True
