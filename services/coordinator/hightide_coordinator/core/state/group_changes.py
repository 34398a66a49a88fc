"""Noting that a group has changed, and that an attempt to rebalance it has failed (C6, C7, C11)."""

from __future__ import annotations

from hightide.calls.backoff import Backoff

from hightide_coordinator.core.effects import LogSentence
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason

__all__ = ["backoff_ms", "fail_attempt", "note_change"]

LEAVE_WINDOW_DIVISOR = 5
"""After a leave the wait is a fifth of the join window: long enough to see members that leave together."""


def note_change(
    state: ShardState, group: Group, begun_by: RebalanceReason, reason: str, *, is_urgent: bool = False
) -> None:
    """Take note that members, subscriptions or topics have changed. A new target is made when no more changes
    come for the join window (§6 to §8; C7), also during a rebalance (C6)."""
    state.look_at(group)
    limits = state.limits
    window_ms = limits.join_window_ms // (LEAVE_WINDOW_DIVISOR if is_urgent else 1)
    until_ms = state.now_ms + window_ms
    if not group.is_changed:
        group.is_changed = True
        group.changed_ms = state.now_ms
        group.gather_until_ms = until_ms
        group.note_reason(begun_by, reason)
    else:
        latest_ms = group.changed_ms + limits.join_window_max_ms
        group.gather_until_ms = min(max(group.gather_until_ms, until_ms), latest_ms)
    if group.state not in (GroupState.RECOVERING, GroupState.REBALANCING):
        group.become(GroupState.GATHERING)


def fail_attempt(state: ShardState, group: Group, reason: str) -> None:
    """Take note that a part of the attempt failed. What does not depend on it goes on, and all is tried again
    after a pause. Too many failures in a row make the group FAILED, with the reason, for people to see (§9
    step 5; C11)."""
    state.look_at(group)
    if group.retry_ms:
        return
    group.failures += 1
    limits = state.limits
    is_failed = group.failures > limits.rebalance_retries_max
    pause_ms = limits.rebalance_backoff_max_ms if is_failed else backoff_ms(state, group.failures)
    group.retry_ms = state.now_ms + pause_ms
    group.reason = reason
    if is_failed and group.state in (GroupState.REBALANCING, GroupState.GATHERING):
        group.become(GroupState.FAILED)
    which = f"attempt {group.failures} to rebalance"
    message = f"group {group.name}: {which} failed, again in {pause_ms} ms: {reason}"
    state.do(LogSentence(message, is_warning=True, rebalanced_group=group.name))


def backoff_ms(state: ShardState, failures: int) -> int:
    """The pause after so many failures in a row: it doubles, up to a bound."""
    limits = state.limits
    return Backoff(limits.rebalance_backoff_ms, limits.rebalance_backoff_max_ms).pause_ms(failures)
