"""Topics appear, by request or by hand, and vanish (V3 B)."""

from __future__ import annotations

from typing import Final

from hightide_controller.core.assignment import assign
from hightide_controller.core.cluster_state import ClusterState, Waiter
from hightide_controller.core.effects import (
    AnswerCreateTopic,
    Effect,
    Refusal,
    RefuseRequest,
    Report,
    SendUpdateMetadata,
    StoreTopic,
)
from hightide_controller.core.events import (
    CreateTopicRequested,
    Topic,
    TopicsChanged,
    TopicStored,
    TopicStoreRefused,
)
from hightide_controller.core.partition import TopicPartition
from hightide_controller.core.stores import reconsider
from hightide_controller.core.topic_configs import config_fault
from hightide_controller.core.topic_rules import (
    PARTITIONS_PER_TOPIC_MAX,
    assignment_fault,
    name_fault,
    request_fault,
    size_fault,
)

__all__ = [
    "REQUESTS_MAX",
    "add_topics",
    "on_create_topic",
    "on_topic_store_refused",
    "on_topic_stored",
    "on_topics_changed",
]

REQUESTS_MAX: Final = 100
"""Requests that may wait at the same time; more are refused as OVERLOADED."""


def on_create_topic(state: ClusterState, event: CreateTopicRequested) -> list[Effect]:
    """Check everything, then store the topic znode; leaders follow once it is there."""
    if event.name in state.topics:
        message = f"topic {event.name!r} exists already"
        return [RefuseRequest(event.request_id, Refusal.TOPIC_ALREADY_EXISTS, message)]
    eligible = [b.broker_id for b in state.live_brokers() if b.broker_id not in state.shutting_down]
    fault = request_fault(
        event.name,
        event.partition_count,
        event.replication_factor,
        event.assignment,
        event.configs,
        eligible,
    )
    if fault is not None:
        return [RefuseRequest(event.request_id, *fault)]
    assignment = event.assignment or assign(
        eligible, event.partition_count, event.replication_factor, start=state.seed % len(eligible)
    )
    if (too_large := size_fault(assignment)) is not None:
        return [RefuseRequest(event.request_id, Refusal.INVALID_PARTITION_COUNT, too_large)]
    topic = Topic(event.name, event.topic_id, assignment, event.configs)
    if event.validate_only:
        return [AnswerCreateTopic(event.request_id, topic)]
    if len(state.waiters) >= REQUESTS_MAX:
        message = f"{REQUESTS_MAX} requests are waiting already; try again after a pause"
        return [RefuseRequest(event.request_id, Refusal.OVERLOADED, message)]
    # The next topic goes on where this one stopped, so that many small topics are balanced too.
    state.seed += len(assignment)
    names = {TopicPartition(event.name, number) for number in range(len(assignment))}
    state.waiters[event.request_id] = Waiter(event.request_id, event.cause, topic, None, names)
    version = state.controller_epoch_version if state.mends.fenced_writes else None
    return [StoreTopic(event.request_id, version, topic, event.cause)]


def on_topic_stored(state: ClusterState, event: TopicStored) -> list[Effect]:
    """B.1.1: the topic znode is there, so its partitions get their first leaders."""
    waiter = state.waiters.get(event.request_id)
    # The request's time may have run out meanwhile; the topics watch then brings the topic.
    if waiter is None or waiter.topic is None:
        return []
    names, effects = add_topics(state, (waiter.topic,))
    return effects + reconsider(state, names, waiter.cause)


def on_topic_store_refused(state: ClusterState, event: TopicStoreRefused) -> list[Effect]:
    """Somebody else created the topic, or the connection broke: the topics watch tells which."""
    waiter = state.waiters.pop(event.request_id, None)
    if waiter is None or waiter.topic is None:
        return []
    name = waiter.topic.name
    if event.exists:
        message = f"topic {name!r} exists already"
        return [RefuseRequest(event.request_id, Refusal.TOPIC_ALREADY_EXISTS, message)]
    message = f"ZooKeeper did not answer, so topic {name!r} may have been created or not; describe it to see"
    return [RefuseRequest(event.request_id, Refusal.TIMED_OUT, message)]


def on_topics_changed(state: ClusterState, event: TopicsChanged) -> list[Effect]:
    """B.1 for topics that an administrator put into ZooKeeper, and what is gone from there."""
    deleted = tuple(state.forget_topic(name).topic_id for name in event.removed if name in state.topics)
    names, effects = add_topics(state, event.added)
    receivers = tuple((broker.broker_id, broker.broker_epoch) for broker in state.live_brokers())
    if deleted and receivers:
        sequence = state.take_sequence()
        effects.append(SendUpdateMetadata(receivers, sequence, deleted_topic_ids=deleted, cause=event.cause))
    return effects + reconsider(state, names, event.cause)


def add_topics(state: ClusterState, topics: tuple[Topic, ...]) -> tuple[list[TopicPartition], list[Effect]]:
    """Take topics in, except for those known already and those that cannot be led as they are."""
    names: list[TopicPartition] = []
    effects: list[Effect] = []
    for topic in topics:
        if topic.name in state.topics:
            continue
        fault = _fault_of(topic)
        if fault is None:
            names += state.add_topic(topic)
        else:
            effects.append(Report(f"topic {topic.name[:260]!r} in ZooKeeper is left alone: {fault}"))
    return names, effects


def _fault_of(topic: Topic) -> str | None:
    """Why a topic znode is not one that this controller can act on."""
    if (fault := name_fault(topic.name)) is not None:
        return fault
    if not 1 <= len(topic.assignment) <= PARTITIONS_PER_TOPIC_MAX:
        return f"{len(topic.assignment)} partitions; a topic has 1 to {PARTITIONS_PER_TOPIC_MAX:,}"
    if (fault := assignment_fault(topic.assignment, known=None)) is not None:
        return fault
    return config_fault(topic.configs, min(len(replicas) for replicas in topic.assignment))
