"""Topics that appear, by request or from an operator, and vanish (V3 B)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hightide_runtime.topics.assignment import assign
from hightide_runtime.topics.topic_configs import configs_of_new_topic
from hightide_runtime.znodes.paths import TOPICS, delete_topic_path, topic_config_path

from hightide_controller.core.effects import (
    AnswerCreateTopic,
    Effect,
    Refusal,
    RefuseRequest,
    StoreTopic,
)
from hightide_controller.core.elections.stores import reconsider
from hightide_controller.core.elections.waiting_requests import overloaded
from hightide_controller.core.events import (
    CreateTopicRequested,
    Topic,
    TopicsChanged,
    TopicStored,
    TopicStoreRefused,
)
from hightide_controller.core.state.cluster_state import ClusterState, WaitingRequest
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.state.request_purposes import CreatesTopic
from hightide_controller.core.state.topic_rules import (
    layout_fault,
    name_fault,
    request_fault,
    size_fault,
)
from hightide_controller.core.topics.deletion import heed_intent
from hightide_controller.core.topics.topic_settings import sensible_settings
from hightide_controller.core.values.partition import TopicPartition

__all__ = [
    "add_topics",
    "on_create_topic",
    "on_topic_store_refused",
    "on_topic_stored",
    "on_topics_changed",
]


TOPICS_IN_DOUBT_MAX: Final = 10_000
CREATIONS_IN_DOUBT_MAX: Final = 100
"""For one name: a client that creates a topic while ZooKeeper is away repeats its request."""


def on_create_topic(state: ClusterState, event: CreateTopicRequested) -> list[Effect]:
    """Check everything, then store the topic znode; leaders follow once it exists."""
    if (taken := _taken(state, event.name)) is not None:
        return [RefuseRequest(event.request_id, *taken)]
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
    configs = configs_of_new_topic(event.configs, min(map(len, assignment)))
    topic = Topic(event.name, event.topic_id, assignment, configs, config_version=0 if configs else None)
    if event.validate_only:
        return [AnswerCreateTopic(event.request_id, topic)]
    if refused := overloaded(state, event.request_id):
        return refused
    # The next topic continues where this one stopped, so that many small topics are balanced too.
    state.seed += len(assignment)
    names = {TopicPartition(event.name, number) for number in range(len(assignment))}
    state.waiters[event.request_id] = WaitingRequest(
        event.request_id, event.cause, CreatesTopic(topic), names
    )
    return [StoreTopic(event.request_id, state.controller_epoch_version, topic, event.cause)]


def _taken(state: ClusterState, topic_name: str) -> tuple[Refusal, str] | None:
    """The reason why a valid name cannot be given to a topic now."""
    work = state.work.get(topic_name)
    if state.is_being_deleted(topic_name):
        return (
            Refusal.TOPIC_BEING_DELETED,
            f"topic {topic_name!r} is being deleted; try again when it is gone",
        )
    if work is not None and work.orphan_markers:
        # As long as it exists, leaders of the earlier topic could write into this one.
        message = (
            f"topic {topic_name!r} was deleted in ZooKeeper, and its remains are being deleted; try again"
        )
        return Refusal.TOPIC_BEING_DELETED, message
    if topic_name in state.topics or (work is not None and work.newcomer is not None):
        return Refusal.TOPIC_ALREADY_EXISTS, f"topic {topic_name!r} exists already"
    for waiter in state.waiters.values():
        if isinstance(waiter.purpose, CreatesTopic) and waiter.purpose.topic.name == topic_name:
            return Refusal.TOPIC_ALREADY_EXISTS, f"topic {topic_name!r} is being created already"
    if work is not None and work.intent is not None:
        message = (
            f"{delete_topic_path(topic_name)} exists in ZooKeeper and would delete the topic; delete that "
            "znode first"
        )
        return Refusal.TOPIC_BEING_DELETED, message
    return None


def on_topic_stored(state: ClusterState, event: TopicStored) -> list[Effect]:
    """V3 B.1.1: the topic znode exists, so its partitions get their first leaders."""
    waiter = state.waiters.get(event.request_id)
    # The request's time may be up meanwhile; the topics watch then reports the topic.
    if waiter is None or not isinstance(waiter.purpose, CreatesTopic):
        return []
    topic = waiter.purpose.topic
    work = state.work.get(topic.name)
    if work is not None and work.is_busy:
        # A read about the name that is under way may be older than the topic, and report that it is gone.
        _read_what_became_of(state, topic, waiter.cause)
        return []
    names, effects = add_topics(state, (topic,))
    return effects + reconsider(state, names, waiter.cause)


def on_topic_store_refused(state: ClusterState, event: TopicStoreRefused) -> list[Effect]:
    """Another process created the topic, or the connection broke: the topics watch tells which."""
    waiter = state.waiters.pop(event.request_id, None)
    if waiter is None or not isinstance(waiter.purpose, CreatesTopic):
        return []
    topic, name = waiter.purpose.topic, waiter.purpose.topic.name
    if event.exists:
        message = f"topic {name!r} exists already"
        return [RefuseRequest(event.request_id, Refusal.TOPIC_ALREADY_EXISTS, message)]
    _read_what_became_of(state, topic, waiter.cause)
    message = f"ZooKeeper did not answer, so topic {name!r} may have been created or not; describe it to see"
    return [RefuseRequest(event.request_id, Refusal.TIMED_OUT, message)]


def _read_what_became_of(state: ClusterState, topic: Topic, cause: str) -> None:
    """Read whether a topic that was created is there. If an operator has deleted it before this controller
    has seen it, only its marker is left. Markers beyond the limits stay until another controller takes over.
    """
    if topic.name in state.work or len(state.work) < TOPICS_IN_DOUBT_MAX:
        work = state.work_of(topic.name)
        if len(work.perhaps_created) < CREATIONS_IN_DOUBT_MAX:
            work.perhaps_created[topic.topic_id] = None
        state.want_read(topic.name, cause)


def on_topics_changed(state: ClusterState, event: TopicsChanged) -> list[Effect]:
    """V3 B.1 for topics that an operator put into ZooKeeper, and for those that are gone.

    The news may be older than what is known: a topic that was deleted and created again under its name looks
    like one that is gone. So a known topic is read once more before the news counts.
    """
    fresh: list[Topic] = []
    for topic in event.added:
        known = state.topics.get(topic.name)
        work = state.work.get(topic.name)
        if known is None and (work is None or not (work.newcomer or work.is_busy)):
            fresh.append(topic)
        elif known is None or known.topic_id != topic.topic_id:
            state.want_read(topic.name, event.cause)
    for topic_name in event.removed:
        withdraw(state, f"{TOPICS}/{topic_name[:260]}")
        if topic_name in state.topics or (topic_name in state.work and state.work[topic_name].newcomer):
            state.want_read(topic_name, event.cause)
    if event.is_everything:
        # A topic that this controller created, and that vanished before its name was ever read.
        for topic_name in sorted(state.topics.keys() - {topic.name for topic in event.added}):
            state.want_read(topic_name, event.cause)
    names, effects = add_topics(state, fresh)
    return effects + reconsider(state, names, event.cause)


def add_topics(state: ClusterState, topics: Iterable[Topic]) -> tuple[list[TopicPartition], list[Effect]]:
    """Add topics, except those that are known already and those that cannot be led as they are.

    Topics without an id or a marker get it first (adoption.py).
    """
    names: list[TopicPartition] = []
    effects: list[Effect] = []
    for topic in topics:
        if topic.name in state.topics:
            continue
        subject = f"{TOPICS}/{topic.name[:260]}"
        if (fault := name_fault(topic.name) or layout_fault(topic.assignment)) is not None:
            effects += complain(state, subject, f"the controller does not touch this topic: {fault}")
            continue
        withdraw(state, subject)
        sensible, fault = sensible_settings(topic)
        if fault is not None:
            message = f"{fault}; brokers do not use such settings of the topic: correct them"
            effects += complain(state, topic_config_path(topic.name), message)
        if topic.is_bare or not topic.has_marker:
            state.work_of(topic.name).newcomer = sensible
        else:
            names += state.add_topic(sensible)
        if topic.name in state.work:
            heed_intent(state, topic.name)
            state.mark_due(topic.name, "")
    return names, effects
