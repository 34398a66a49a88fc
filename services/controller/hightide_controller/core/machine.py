"""The one door into the controller's core: `step` takes an event and gives back the effects.

1. `step` is the only way in which a ClusterState changes. 2. No clock, no I/O, no logging.
3. Effects are in order (see effects.py). The state handed in is consumed: it is mutated and handed back,
because copying 10,000 partitions for each event is what a controller cannot afford.
"""

from __future__ import annotations

from typing import Final, assert_never

from hightide_controller.core import events as ev
from hightide_controller.core.cluster_state import ClusterState, Role
from hightide_controller.core.effects import Effect, Refusal, RefuseRequest
from hightide_controller.core.membership import (
    on_broker_process_died,
    on_brokers_changed,
    on_leadership_declined,
)
from hightide_controller.core.refresh import on_ticked
from hightide_controller.core.stores import on_committed, on_failed, on_states_read
from hightide_controller.core.takeover import on_campaign_lost, on_controller_seen, on_elected, resign
from hightide_controller.core.topics import (
    on_create_topic,
    on_topic_store_refused,
    on_topic_stored,
    on_topics_changed,
)
from hightide_controller.core.waiters import (
    answer_settled,
    on_broker_acknowledged,
    on_controlled_shutdown,
    on_wait_expired,
)

__all__ = ["step"]

_ROLE_EVENTS: Final = (ev.ControllerSeen, ev.Elected, ev.CampaignLost, ev.Fenced, ev.SessionLost)
_REQUESTS: Final = (ev.CreateTopicRequested, ev.ControlledShutdownRequested)
_STORE_OUTCOMES: Final = (ev.StoreCommitted, ev.StoreRefused, ev.StoreUnknown)


def step(state: ClusterState, event: ev.Event) -> tuple[ClusterState, tuple[Effect, ...]]:
    """Decide what follows from one event. Called by the shell's only task, and by tests."""
    if not isinstance(event, _ROLE_EVENTS) and state.role is not Role.ACTIVE:
        # Answers to what was begun before a resignation, and watches that fire before an election.
        if isinstance(event, _REQUESTS):
            message = "this controller is not the active one"
            return state, (RefuseRequest(event.request_id, Refusal.NOT_CONTROLLER, message),)
        return state, ()
    if isinstance(event, _STORE_OUTCOMES) and event.store_id not in state.stores:
        return state, ()
    effects = _dispatch(state, event)
    return state, (*effects, *answer_settled(state))


def _dispatch(state: ClusterState, event: ev.Event) -> list[Effect]:
    match event:
        case ev.ControllerSeen():
            return on_controller_seen(state, event)
        case ev.Elected():
            return on_elected(state, event)
        case ev.CampaignLost():
            return on_campaign_lost(state)
        case ev.Fenced():
            return resign(state, "a newer controller epoch exists")
        case ev.SessionLost():
            return resign(state, "ZooKeeper expired the session")
        case ev.BrokersChanged():
            return on_brokers_changed(state, event)
        case ev.BrokerProcessDied():
            return on_broker_process_died(state, event)
        case ev.TopicsChanged():
            return on_topics_changed(state, event)
        case ev.StoreCommitted():
            return on_committed(state, event)
        case ev.StoreRefused() | ev.StoreUnknown():
            return on_failed(state, event)
        case ev.StatesRead():
            return on_states_read(state, event)
        case ev.BrokerAcknowledged():
            return on_broker_acknowledged(state, event)
        case ev.LeadershipDeclined():
            return on_leadership_declined(state, event)
        case ev.CreateTopicRequested():
            return on_create_topic(state, event)
        case ev.TopicStored():
            return on_topic_stored(state, event)
        case ev.TopicStoreRefused():
            return on_topic_store_refused(state, event)
        case ev.ControlledShutdownRequested():
            return on_controlled_shutdown(state, event)
        case ev.WaitExpired():
            return on_wait_expired(state, event)
        case ev.Ticked():
            return on_ticked(state)
        case _:
            assert_never(event)
