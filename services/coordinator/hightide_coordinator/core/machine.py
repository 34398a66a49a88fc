"""The entry of the coordinator's core: `step` takes an event and the time, and returns the effects.

1. A ShardState changes only in `step`.
2. There is no clock, no I/O, no logging and no randomness.
3. Effects are in order (see effects.py): the shell performs them one after another.
4. The state is changed in place, like the controller's, because a shard has thousands of members: there is no
   way back to the state before a step. (The broker's core returns the next state, and leaves the one before
   as it was.)
"""

from __future__ import annotations

from typing import Final, assert_never

from hightide_coordinator.core import events as ev
from hightide_coordinator.core.commits.offset_deletion import on_delete_offsets_requested
from hightide_coordinator.core.commits.positions import on_position_found
from hightide_coordinator.core.commits.requests import (
    on_commit_ends_found,
    on_commit_requested,
    on_delete_requested,
    on_ends_found,
    on_reset_requested,
)
from hightide_coordinator.core.commits.start_offsets import on_starts_found
from hightide_coordinator.core.commits.store_outcomes import (
    on_group_read,
    on_store_committed,
    on_store_failed,
)
from hightide_coordinator.core.effects import CloseConnection, Effect, RefuseRequest
from hightide_coordinator.core.membership.answers import on_answer
from hightide_coordinator.core.membership.arrivals import on_registered
from hightide_coordinator.core.membership.departures import on_connection_lost, report_dead
from hightide_coordinator.core.membership.liveness import on_member_due, send_pings
from hightide_coordinator.core.rebalancing.rebalance import advance
from hightide_coordinator.core.rebalancing.topic_changes import on_topics_changed, watch_topics
from hightide_coordinator.core.state.descriptions import not_active
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.shard_state import Role, ShardState
from hightide_coordinator.core.takeover import on_coordinator_seen, on_deposed, on_elected, resign
from hightide_coordinator.core.values.limits import GroupLimits

__all__ = ["new_state", "next_deadline_ms", "step"]

_ROLE_EVENTS: Final = (ev.Elected, ev.Deposed, ev.CoordinatorSeen)
_REQUESTS: Final = (
    ev.CommitRequested,
    ev.ResetRequested,
    ev.DeleteGroupRequested,
    ev.DeleteOffsetsRequested,
)
_FROM_CONSUMERS: Final = (
    ev.ConsumerRegistered,
    ev.PingAnswered,
    ev.FetchersStopped,
    ev.FetchersStarted,
    ev.ConsumerLeft,
)
_STORE_OUTCOMES: Final = (ev.StoreCommitted, ev.StoreRefused, ev.StoreUnknown, ev.StoreFenced)


def new_state(limits: GroupLimits) -> ShardState:
    """The state of a shard when its process starts: empty, and a standby until Elected."""
    return ShardState(limits=limits)


def next_deadline_ms(state: ShardState) -> int | None:
    """When `step` needs the next Ticked; None: it waits for nothing."""
    return state.wheel.next_due_ms()


def step(state: ShardState, event: ev.Event, now_ms: int) -> tuple[Effect, ...]:
    """Decide what follows from one event at `now_ms` (any monotonic clock). The state is changed in place."""
    state.now_ms = now_ms
    state.looked_at.clear()
    if state.role is Role.ACTIVE or isinstance(event, _ROLE_EVENTS):
        _dispatch(state, event)
        while state.due_groups:
            _, group = state.due_groups.popitem()
            advance(state, group)
        watch_topics(state)
    else:
        _refuse(state, event)
    if not state.effects:
        return ()
    effects = tuple(state.effects)
    state.effects.clear()
    return effects


def _refuse(state: ShardState, event: ev.Event) -> None:
    """Refuse events on a standby, which has no groups. Outcomes of stores and news of topics are from before
    its resignation."""
    refused = not_active(state)
    assert refused is not None, state.role
    if isinstance(event, _REQUESTS):
        state.do(RefuseRequest(event.request_id, refused.refusal, refused.message, refused.metadata))
    elif isinstance(event, _FROM_CONSUMERS):
        state.do(CloseConnection(event.connection_id, refused.refusal, refused.message, refused.metadata))


def _dispatch(state: ShardState, event: ev.Event) -> None:
    match event:
        case ev.PingAnswered() | ev.FetchersStopped() | ev.FetchersStarted() | ev.ConsumerLeft():
            on_answer(state, event)
        case ev.Ticked():
            _tick(state)
        case ev.ConsumerRegistered():
            on_registered(state, event)
        case ev.ConnectionLost():
            on_connection_lost(state, event)
        case ev.CommitRequested():
            on_commit_requested(state, event)
        case ev.ResetRequested():
            on_reset_requested(state, event)
        case ev.DeleteGroupRequested():
            on_delete_requested(state, event)
        case ev.DeleteOffsetsRequested():
            on_delete_offsets_requested(state, event)
        case ev.StoreCommitted() | ev.StoreRefused() | ev.StoreUnknown() | ev.StoreFenced():
            _on_store_answered(state, event)
        case ev.GroupRead():
            on_group_read(state, event)
        case ev.OffsetsLookedUp():
            _on_looked_up(state, event)
        case ev.TopicsChanged():
            on_topics_changed(state, event)
        case ev.BrokersChanged():
            state.brokers = event.brokers
        case ev.Elected():
            on_elected(state, event)
        case ev.Deposed():
            on_deposed(state, event)
        case ev.CoordinatorSeen():
            on_coordinator_seen(state, event)
        case _:
            assert_never(event)


def _tick(state: ShardState) -> None:
    for item, due_ms in state.wheel.take_due(state.now_ms):
        if isinstance(item, Group):
            if state.groups.get(item.name) is item:
                state.look_at(item)
        else:
            on_member_due(state, item, state.now_ms - due_ms)
    report_dead(state)
    send_pings(state)


def _on_store_answered(
    state: ShardState, event: ev.StoreCommitted | ev.StoreRefused | ev.StoreUnknown | ev.StoreFenced
) -> None:
    if event.store_id not in state.stores:
        return  # From an earlier term of this process.
    match event:
        case ev.StoreCommitted():
            on_store_committed(state, event)
        case ev.StoreRefused() | ev.StoreUnknown():
            on_store_failed(state, event)
        case ev.StoreFenced():
            resign(state, "another coordinator was elected meanwhile")
        case _:
            assert_never(event)


def _on_looked_up(state: ShardState, event: ev.OffsetsLookedUp) -> None:
    if event.look_up_id in state.look_ups:
        on_starts_found(state, event)
    elif event.look_up_id in state.resets:
        on_ends_found(state, event)
    elif event.look_up_id in state.checks:
        on_commit_ends_found(state, event)
    elif event.look_up_id in state.leaps:
        on_position_found(state, event)
