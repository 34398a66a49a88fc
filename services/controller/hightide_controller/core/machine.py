"""The entry of the controller's core: `step` takes an event and returns the effects.

1. A ClusterState changes only in `step`.
2. There is no clock, no I/O and no logging.
3. Effects are in order (see effects.py). The state is changed in place, because a controller cannot afford to
   copy 10,000 partitions for each event: there is no way back to the state before a step. (The broker's core
   returns the next state, and leaves the one before as it was.)
"""

from __future__ import annotations

from typing import Final, assert_never

from hightide_controller.core import events as ev
from hightide_controller.core.admin import on_admin_changed
from hightide_controller.core.brokers.awaited_brokers import complain_of_waits
from hightide_controller.core.brokers.damaged_replicas import on_replicas_damaged
from hightide_controller.core.brokers.failed_replicas import on_replicas_failed
from hightide_controller.core.brokers.membership import (
    on_broker_process_alive,
    on_broker_process_died,
    on_brokers_changed,
    on_leadership_declined,
)
from hightide_controller.core.brokers.silence import on_broker_answers, on_broker_silent
from hightide_controller.core.effects import Effect, Refusal, RefuseRequest
from hightide_controller.core.elections.preferred_leaders import on_balance_due, on_elect_leaders
from hightide_controller.core.elections.refresh import on_ticked
from hightide_controller.core.elections.stores import on_committed, on_failed, on_states_read
from hightide_controller.core.elections.waiting_requests import (
    answer_settled,
    on_broker_acknowledged,
    on_controlled_shutdown,
    on_wait_expired,
)
from hightide_controller.core.moves.move_requests import (
    on_cancel_requested,
    on_reassignments_requested,
    release_held_moves,
)
from hightide_controller.core.moves.reassignment import look_at_moves_again
from hightide_controller.core.moves.throttle import (
    decide_throttle,
    on_throttle_answered,
    on_throttle_requested,
)
from hightide_controller.core.state.cluster_state import (
    ClusterState,
    Role,
    StoreInFlight,
    ThrottleStoreInFlight,
    TopicStoreInFlight,
)
from hightide_controller.core.takeover import (
    on_campaign_lost,
    on_controller_seen,
    on_elected,
    on_resignation_requested,
    on_rested,
    on_stepped_down,
    resign,
)
from hightide_controller.core.topic_news import on_topic_committed, on_topics_read
from hightide_controller.core.topic_writes import decide_due, on_topic_failed, wake_resting
from hightide_controller.core.topics.deletion import on_delete_topic
from hightide_controller.core.topics.topic_requests import (
    on_add_partitions,
    on_alter_topic_config,
    on_remove_partitions,
)
from hightide_controller.core.topics.topic_settings import on_configs_changed
from hightide_controller.core.topics.topics import (
    on_create_topic,
    on_topic_store_refused,
    on_topic_stored,
    on_topics_changed,
)
from hightide_controller.core.values import requests as rq

__all__ = ["step"]

_ROLE_EVENTS: Final = (
    ev.ControllerSeen,
    ev.Elected,
    ev.CampaignLost,
    ev.Fenced,
    ev.SessionLost,
    ev.ResignationRequested,
    ev.SteppedDown,
    ev.Rested,
)
_REQUESTS: Final = (
    ev.CreateTopicRequested,
    ev.ControlledShutdownRequested,
    rq.DeleteTopicRequested,
    rq.AddPartitionsRequested,
    rq.RemovePartitionsRequested,
    rq.AlterTopicConfigRequested,
    rq.ReassignmentsRequested,
    rq.CancelReassignmentsRequested,
    rq.ReassignmentThrottleRequested,
    rq.ElectLeadersRequested,
)
_STORE_OUTCOMES: Final = (ev.StoreCommitted, ev.StoreRefused, ev.StoreUnknown)

_AboutTopics = (
    ev.TopicsChanged
    | ev.TopicsRead
    | ev.AdminChanged
    | ev.ConfigsChanged
    | ev.StatesRead
    | ev.CreateTopicRequested
    | ev.TopicStored
    | ev.TopicStoreRefused
    | rq.DeleteTopicRequested
    | rq.AddPartitionsRequested
    | rq.RemovePartitionsRequested
    | rq.AlterTopicConfigRequested
)


def step(state: ClusterState, event: ev.Event) -> tuple[ClusterState, tuple[Effect, ...]]:
    """Decide what follows from one event. Called by the shell's only task, and by tests."""
    if not isinstance(event, _ROLE_EVENTS) and state.role is not Role.ACTIVE:
        # Answers to work from before a resignation, and watches that fire before an election.
        if isinstance(event, _REQUESTS):
            message = "this controller is not the active one"
            return state, (RefuseRequest(event.request_id, Refusal.NOT_CONTROLLER, message),)
        return state, ()
    if isinstance(event, _STORE_OUTCOMES) and event.store_id not in state.stores:
        return state, ()
    effects = _dispatch(state, event)
    effects += decide_throttle(state)
    release_held_moves(state)
    effects += decide_due(state)
    effects += state.moving.effects()
    if state.awaited or state.awaited_complaints:
        effects += complain_of_waits(state)
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
            if state.role is Role.CAMPAIGNING:
                return []  # The answer to a write of an earlier term of this process.
            return resign(state, "a newer controller epoch exists")
        case ev.SessionLost():
            return resign(state, "ZooKeeper expired the session")
        case ev.ResignationRequested():
            return on_resignation_requested(state, event)
        case ev.SteppedDown():
            return on_stepped_down(state, event)
        case ev.Rested():
            return on_rested(state)
        case ev.BrokersChanged():
            state.mark_all_due(event.cause)
            look_at_moves_again(state, event.cause)
            return on_brokers_changed(state, event)
        case ev.BrokerProcessDied():
            state.mark_all_due(event.cause)
            look_at_moves_again(state, event.cause)
            return on_broker_process_died(state, event)
        case ev.BrokerProcessAlive():
            state.mark_all_due(event.cause)
            look_at_moves_again(state, event.cause)
            return on_broker_process_alive(state, event)
        case ev.BrokerSilent():
            return on_broker_silent(state, event)
        case ev.BrokerAnswers():
            return on_broker_answers(state, event)
        case ev.StoreCommitted() | ev.StoreRefused() | ev.StoreUnknown():
            return _on_store_answered(state, event)
        case ev.BrokerAcknowledged():
            return on_broker_acknowledged(state, event)
        case ev.LeadershipDeclined():
            return on_leadership_declined(state, event)
        case ev.ControlledShutdownRequested():
            return on_controlled_shutdown(state, event)
        case ev.WaitExpired():
            return on_wait_expired(state, event)
        case ev.ReplicasFailed():
            look_at_moves_again(state, event.cause)
            return on_replicas_failed(state, event)
        case ev.ReplicasDamaged():
            return on_replicas_damaged(state, event)
        case ev.BalanceDue():
            return on_balance_due(state, event)
        case rq.ReassignmentsRequested():
            return on_reassignments_requested(state, event)
        case rq.CancelReassignmentsRequested():
            return on_cancel_requested(state, event)
        case rq.ReassignmentThrottleRequested():
            return on_throttle_requested(state, event)
        case rq.ElectLeadersRequested():
            return on_elect_leaders(state, event)
        case ev.Ticked():
            wake_resting(state)
            state.throttle_work.is_waiting = False
            return on_ticked(state)
        case _:
            return _dispatch_about_topics(state, event)


def _dispatch_about_topics(state: ClusterState, event: _AboutTopics) -> list[Effect]:
    match event:
        case ev.TopicsChanged():
            return on_topics_changed(state, event)
        case ev.TopicsRead():
            return on_topics_read(state, event)
        case ev.AdminChanged():
            return on_admin_changed(state, event)
        case ev.ConfigsChanged():
            return on_configs_changed(state, event)
        case ev.StatesRead():
            return on_states_read(state, event)
        case ev.CreateTopicRequested():
            return on_create_topic(state, event)
        case rq.DeleteTopicRequested():
            return on_delete_topic(state, event)
        case rq.AddPartitionsRequested():
            return on_add_partitions(state, event)
        case rq.RemovePartitionsRequested():
            return on_remove_partitions(state, event)
        case rq.AlterTopicConfigRequested():
            return on_alter_topic_config(state, event)
        case ev.TopicStored():
            return on_topic_stored(state, event)
        case ev.TopicStoreRefused():
            return on_topic_store_refused(state, event)
        case _:
            assert_never(event)


def _on_store_answered(
    state: ClusterState, event: ev.StoreCommitted | ev.StoreRefused | ev.StoreUnknown
) -> list[Effect]:
    store = state.stores.pop(event.store_id)
    is_unknown = isinstance(event, ev.StoreUnknown)
    match store:
        case StoreInFlight():
            if isinstance(event, ev.StoreCommitted):
                return on_committed(state, store)
            return on_failed(state, store, is_unknown=is_unknown)
        case TopicStoreInFlight():
            if isinstance(event, ev.StoreCommitted):
                return on_topic_committed(state, store)
            return on_topic_failed(state, store, is_unknown=is_unknown)
        case ThrottleStoreInFlight():
            return on_throttle_answered(state, store, is_stored=isinstance(event, ev.StoreCommitted))
        case _:
            assert_never(store)
