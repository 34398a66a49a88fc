"""Requests that change a topic: checked against what is known, then passed to topic_writes.py."""

from __future__ import annotations

from msgspec.structs import replace

from hightide_controller.core.effects import AnswerTopic, Effect, Refusal, RefuseRequest
from hightide_controller.core.elections.waiting_requests import overloaded
from hightide_controller.core.events import Topic
from hightide_controller.core.state.cluster_state import ClusterState, WaitingRequest
from hightide_controller.core.state.request_purposes import AltersTopic
from hightide_controller.core.state.topic_rules import Fault, topic_id_fault
from hightide_controller.core.topics.partition_changes import choose_replicas, growth_fault, shrink_fault
from hightide_controller.core.topics.topic_settings import altered_configs, settings_fault
from hightide_controller.core.values.requested_changes import (
    RequestedChange,
    RequestedGrowth,
    RequestedSettings,
    RequestedShrink,
)
from hightide_controller.core.values.requests import (
    AddPartitionsRequested,
    AlterTopicConfigRequested,
    RemovePartitionsRequested,
)

__all__ = ["on_add_partitions", "on_alter_topic_config", "on_remove_partitions"]


def on_add_partitions(state: ClusterState, event: AddPartitionsRequested) -> list[Effect]:
    """Grow a topic (V3 H)."""
    found = _altered_topic(state, event.request_id, event.name)
    if not isinstance(found, Topic):
        return found
    fault = growth_fault(state, found, event.partition_count, event.assignment)
    if fault is None and event.validate_only:
        chosen = event.assignment or choose_replicas(state, found, event.partition_count)
        return [AnswerTopic(event.request_id, replace(found, assignment=(*found.assignment, *chosen)))]
    requested = RequestedGrowth(event.request_id, event.partition_count, event.assignment)
    return _request_change(state, found, requested, fault, event.cause)


def on_remove_partitions(state: ClusterState, event: RemovePartitionsRequested) -> list[Effect]:
    """Shrink a topic (V3 H)."""
    found = _altered_topic(state, event.request_id, event.name)
    if not isinstance(found, Topic):
        return found
    fault = topic_id_fault(found, event.topic_id) or shrink_fault(state, found, event.partition_count)
    if fault is None and event.validate_only:
        kept = found.assignment[: event.partition_count]
        return [AnswerTopic(event.request_id, replace(found, assignment=kept))]
    return _request_change(
        state, found, RequestedShrink(event.request_id, event.partition_count), fault, event.cause
    )


def on_alter_topic_config(state: ClusterState, event: AlterTopicConfigRequested) -> list[Effect]:
    """Change settings."""
    found = _altered_topic(state, event.request_id, event.name)
    if not isinstance(found, Topic):
        return found
    fault = settings_fault(found, event.to_set, event.to_reset)
    if fault is None and event.validate_only:
        configs = altered_configs(found, event.to_set, event.to_reset)
        return [AnswerTopic(event.request_id, replace(found, configs=configs))]
    requested = RequestedSettings(event.request_id, event.to_set, event.to_reset)
    return _request_change(state, found, requested, fault, event.cause)


def _altered_topic(state: ClusterState, request_id: int, topic_name: str) -> Topic | list[Effect]:
    topic = state.topics.get(topic_name)
    if topic is None:
        message = f"topic {topic_name[:260]!r} does not exist"
        return [RefuseRequest(request_id, Refusal.UNKNOWN_TOPIC, message)]
    if state.is_being_deleted(topic_name):
        message = f"topic {topic_name!r} is being deleted"
        return [RefuseRequest(request_id, Refusal.TOPIC_BEING_DELETED, message)]
    return topic


def _request_change(
    state: ClusterState, topic: Topic, requested: RequestedChange, fault: Fault | None, cause: str
) -> list[Effect]:
    """Accept the request, unless it is known already that it cannot be carried out."""
    if fault is not None:
        return [RefuseRequest(requested.request_id, *fault)]
    if refused := overloaded(state, requested.request_id):
        return refused
    waiter = WaitingRequest(requested.request_id, cause, AltersTopic(topic), is_unwritten=True)
    state.waiters[requested.request_id] = waiter
    state.work_of(topic.name).requested_changes.append(requested)
    state.mark_due(topic.name, cause)
    return []
