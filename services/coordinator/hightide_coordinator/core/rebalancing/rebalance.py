"""When a group is rebalanced, and when the rebalance is done (§9; C6, C7, C11).

A rebalance is an attempt: a target, a generation, and the next step of every partition (`placement`). Changes
during it are gathered and make the next target. Nothing under way has to be undone for that, because every
step begins from the current state.
"""

from __future__ import annotations

from hightide_coordinator.core.commits.start_offsets import ask_for_starts
from hightide_coordinator.core.commits.store_building import forget_group, store_what_is_due
from hightide_coordinator.core.effects import LogSentence
from hightide_coordinator.core.membership.orders import send_orders
from hightide_coordinator.core.placement.placement import place
from hightide_coordinator.core.placement.subscriptions import compute_target
from hightide_coordinator.core.placement.unread_topics import drop_concerns
from hightide_coordinator.core.placement.unreadable_topics import read_what_is_due
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason

__all__ = ["advance"]


def advance(state: ShardState, group: Group) -> None:
    """Take the next step of a group; called at the end of each event about it."""
    now_ms = state.now_ms
    read_what_is_due(state, group)
    if not group.members:
        _empty(group)
    elif group.state is GroupState.RECOVERING:
        if not group.missing:
            group.become(GroupState.GATHERING)
            _begin(state, group)
    elif (group.is_changed and now_ms >= group.gather_until_ms) or 0 < group.retry_ms <= now_ms:
        _begin(state, group)
    elif group.gives and group.state is GroupState.STABLE:
        _open_attempt(state, group)
    send_orders(state, group)
    ask_for_starts(state, group)
    store_what_is_due(state, group)
    send_orders(state, group)
    if group.state is GroupState.REBALANCING:
        _finish(state, group)
    if group.doubtful and not group.steps and not group.is_changed:
        drop_concerns(state, group)
    if not group.members and group.is_nothing:
        forget_group(state, group)
    else:
        _arm(state, group)


def _empty(group: Group) -> None:
    """Handle a group without members: its partitions get no owner, so that the next coordinator waits for no
    member."""
    if group.target or group.state is not GroupState.EMPTY:
        group.target = {}
        group.is_changed = False
        group.retry_ms = group.failures = 0
        group.renewed.clear()
        group.found.clear()
        group.begun.clear()
        group.failed_partitions.clear()
        group.become(GroupState.EMPTY)
        group.note_reason(RebalanceReason.OTHER, "it has no members")
        for name in {**group.steps, **group.owners}:
            place(group, name)


def _begin(state: ShardState, group: Group) -> None:
    """Make a target and decide the next step of every partition; O(members + partitions), once for each
    attempt."""
    group.is_changed = False
    group.retry_ms = 0
    group.failed_partitions.clear()
    for member in group.resting.values():
        member.is_resting = False
    group.resting.clear()
    group.session_timeout_ms = max(member.session_timeout_ms for member in group.members.values())
    before = group.target
    group.target = compute_target(state, group)
    for name in before:
        if name not in group.target:
            place(group, name)
    for name in (*group.owners, *group.readers):
        if name not in group.target and name not in before:
            place(group, name)
    for name in group.target:
        place(group, name)
    if group.doubtful:
        drop_concerns(state, group)
    if group.steps:
        _open_attempt(state, group)
    elif not group.open_orders and (group.store is None or not group.store.owners):
        _settle(state, group)
        group.become(GroupState.STABLE)
    elif group.state is not GroupState.REBALANCING:
        group.began_ms = state.now_ms
        group.become(GroupState.REBALANCING)


def _open_attempt(state: ShardState, group: Group) -> None:
    if group.state is not GroupState.REBALANCING:
        group.began_ms = state.now_ms
        group.become(GroupState.REBALANCING)
    group.generation += 1
    group.gives_not_before_ms = state.now_ms + state.limits.join_window_ms
    message = f"group {group.name}: generation {group.generation}, {len(group.steps)} partitions move: "
    message += group.reason or "they were not where they should be"
    state.do(LogSentence(message, begun_group=group.name))


def _finish(state: ShardState, group: Group) -> None:
    is_busy = group.steps or group.open_orders or (group.store is not None and group.store.owners)
    if is_busy or group.retry_ms:
        return
    _settle(state, group)
    group.become(GroupState.GATHERING if group.is_changed else GroupState.STABLE)
    message = f"group {group.name}: generation {group.generation} is complete, {len(group.members)} members, "
    state.do(LogSentence(message + f"after {group.last_rebalance_ms} ms", rebalanced_group=group.name))


def _settle(state: ShardState, group: Group) -> None:
    group.failures = 0
    if group.state is GroupState.REBALANCING:
        group.rebalance_count += 1
        group.last_rebalance_ms = state.now_ms - group.began_ms


def _arm(state: ShardState, group: Group) -> None:
    """Set the timer to the earliest deadline of the group."""
    if group.is_changed and group.members and group.state is not GroupState.RECOVERING:
        state.wheel.arm(group, group.gather_until_ms)
    if group.retry_ms and group.state is not GroupState.RECOVERING:
        state.wheel.arm(group, group.retry_ms)
    if group.store is not None or group.is_reading:
        return  # It is checked again when the answer comes.
    if group.positions_due_ms:
        state.wheel.arm(group, max(group.positions_due_ms, group.store_not_before_ms))
    if group.gives and group.gives_not_before_ms > state.now_ms:
        state.wheel.arm(group, group.gives_not_before_ms)
    if group.store_not_before_ms > state.now_ms:
        state.wheel.arm(group, group.store_not_before_ms)
