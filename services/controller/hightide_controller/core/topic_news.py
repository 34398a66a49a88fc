"""Taking over what ZooKeeper now holds about a topic, from a committed multi or a read, and sending it to
brokers.

Both are handled in the same way, so that a multi whose answer was lost ends like one that was answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from hightide_controller.core.admin import clear_admin, take_admin
from hightide_controller.core.brokers.stops import send_stops
from hightide_controller.core.effects import Effect, Refusal, ReplicaStop
from hightide_controller.core.elections.stores import (
    decide_again,
    on_states_read,
    reconsider,
    send_decisions,
    send_metadata,
)
from hightide_controller.core.elections.waiting_requests import turn_away, wait_for_acknowledgement
from hightide_controller.core.events import (
    StatesRead,
    StoredDeletion,
    StoredReassignment,
    Topic,
    TopicsRead,
)
from hightide_controller.core.state.cluster_state import AlteredTopic, ClusterState, TopicStoreInFlight
from hightide_controller.core.state.complaints import withdraw
from hightide_controller.core.state.topic_work import TopicWork
from hightide_controller.core.topics.deletion import tell_deleted
from hightide_controller.core.topics.topic_settings import take_settings
from hightide_controller.core.topics.topics import add_topics
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.core.writes import (
    AdditionDone,
    ConfigWrite,
    DeletionAdopted,
    DeletionDone,
    LeaderAndIsrWrite,
    MarkerCreated,
    MarkerRaised,
    MarkerRemoved,
    PartitionRemoved,
    ReassignmentDone,
    ReassignmentWrite,
    RemovalDone,
    ThrottleWrite,
    TopicRemoved,
    TopicWrite,
    Write,
)

__all__ = ["on_topic_committed", "on_topics_read"]


_States = dict[TopicPartition, LeaderAndIsr | None]


@dataclass(slots=True)
class _News:
    """What became known about one topic, and is not sent yet."""

    cause: str
    decided: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions of which brokers get a LeaderAndISR, if they have a leaderAndISR."""
    altered: AlteredTopic = field(default_factory=AlteredTopic)
    effects: list[Effect] = field(default_factory=list)
    """Effects that are not sent with the rest."""


def on_topic_committed(state: ClusterState, store: TopicStoreInFlight) -> list[Effect]:
    """Handle a committed multi: remember its writes, send them to brokers, and go on."""
    work = state.work[store.topic_name]
    work.store_id = None
    work.refusals = 0
    withdraw(state, f"topic {store.topic_name}")
    for name in store.partitions:
        state.storing.discard(name)
    state.mark_due(store.topic_name, store.cause)
    news = _News(store.cause)
    for write in store.writes:
        _take_write(state, store.topic_name, work, write, news)
    effects = _told(state, store.topic_name, news)
    for request_id in store.request_ids:
        waiter = state.waiters.get(request_id)
        if waiter is not None:
            waiter.undecided.update(news.altered.added)
            wait_for_acknowledgement(waiter, effects)
    free = [name for name in store.partitions if name in state.partitions]
    effects += decide_again(state, free, store.cause)
    return effects + reconsider(state, _known(state, (*news.altered.added, *news.altered.moved)), store.cause)


def _take_write(state: ClusterState, topic_name: str, work: TopicWork, write: Write, news: _News) -> None:
    match write:
        case TopicWrite(topic, expected_version):
            if topic_name in state.topics:
                known = state.topics[topic_name]
                written = replace(
                    topic,
                    version=expected_version + 1,
                    has_marker=known.has_marker,
                    configs=known.configs,
                    config_version=known.config_version,
                )
                news.altered = state.alter_topic(written)
        case MarkerRaised():
            pass  # Only leaders use its version.
        case MarkerCreated():
            _take_marker(state, topic_name, work, news)
        case LeaderAndIsrWrite(name, _, decided):
            state.record(name, decided)
            news.decided[name] = None
        case ConfigWrite(_, configs, expected_version):
            version = 0 if expected_version is None else expected_version + 1
            news.effects += take_settings(state, topic_name, configs, version, news.cause)
        case PartitionRemoved(name, _):
            work.leftovers.pop(name, None)
            if name in state.partitions:
                state.record(name, None)
        case TopicRemoved():
            news.effects += _forget(state, topic_name, work, news.cause)
            work.is_gone = True
        case _:
            _take_admin_write(work, write)


def _forget(state: ClusterState, topic_name: str, work: TopicWork, cause: str) -> list[Effect]:
    """Forget a topic that is gone: requests and work about it are not meant for another topic of its name."""
    effects = tell_deleted(state, *state.forget_topic(topic_name), cause)
    message = f"topic {topic_name!r} was deleted"
    for requested in work.requested_changes:
        effects += turn_away(state, requested, topic_name, Refusal.UNKNOWN_TOPIC, message)
    work.requested_changes.clear()
    for name in [name for name in state.moving.under_way if name.topic == topic_name]:
        state.moving.note(name, None)
    work.abandoned.clear()
    work.deletion = None
    return effects


def _take_marker(state: ClusterState, topic_name: str, work: TopicWork, news: _News) -> None:
    known = state.topics.get(topic_name)
    if known is not None:
        state.topics[topic_name] = replace(known, has_marker=True)
    elif work.newcomer is not None:
        # It is adopted: what is below it is read, and acted on like any other, if it still exists.
        work.orphan_markers[work.newcomer.topic_id] = None
        work.newcomer = None
        work.read_cause = news.cause


def _take_admin_write(work: TopicWork, write: Write) -> None:
    match write:
        case ReassignmentWrite(name, target, original, expected_version):
            version = 0 if expected_version is None else expected_version + 1
            work.moves[name.partition] = StoredReassignment(target, original, version)
            work.due_moves[name.partition] = None
        case ReassignmentDone(name, _):
            work.moves.pop(name.partition, None)
            work.due_moves[name.partition] = None
        case AdditionDone(name, _):
            work.additions.pop(name.partition, None)
        case RemovalDone(name, _):
            work.removals.pop(name.partition, None)
        case DeletionAdopted(_, topic_id, expected_version):
            work.intent = StoredDeletion(topic_id, 0 if expected_version is None else expected_version + 1)
        case DeletionDone():
            work.intent = None
        case MarkerRemoved(topic_id):
            work.orphan_markers.pop(topic_id, None)
        case ThrottleWrite():
            raise AssertionError("the speed limit is no topic's")
        case (
            TopicWrite()
            | MarkerCreated()
            | MarkerRaised()
            | LeaderAndIsrWrite()
            | ConfigWrite()
            | PartitionRemoved()
            | TopicRemoved()
        ):
            raise AssertionError(write)
        case _:
            assert_never(write)


def _told(state: ClusterState, topic_name: str, news: _News) -> list[Effect]:
    """LeaderAndISR to brokers that hold a replica, StopReplica to those that do not any more, UpdateMetadata
    to all."""
    names = dict.fromkeys((*news.altered.moved, *news.decided))
    present = _known(state, names)
    decided = [name for name in present if state.partitions[name].leader_and_isr is not None]
    # In the order of creation: send effects go out in the order of their sequence.
    effects = [*news.effects, *send_decisions(state, decided, news.cause)]
    effects += send_stops(state, _stops_of(state, topic_name, news.altered), news.cause)
    gone = [partition.name for partition in news.altered.removed]
    return effects + send_metadata(state, (*present, *gone), news.cause)


def _stops_of(state: ClusterState, topic_name: str, altered: AlteredTopic) -> dict[int, list[ReplicaStop]]:
    topic = state.topics.get(topic_name)
    stops: dict[int, list[ReplicaStop]] = {}
    if topic is None:
        return stops
    for name, left in altered.moved.items():
        known = state.partitions[name].leader_and_isr
        for broker_id in left:
            epochs = (0, None) if known is None else (known.leader_epoch, known.partition_epoch)
            stop = ReplicaStop(topic.name, topic.topic_id, name.partition, *epochs)
            stops.setdefault(broker_id, []).append(stop)
    for partition in altered.removed:
        # Its last epoch is one less than the epoch with which it would begin if it came back.
        next_epoch = topic.first_leader_epochs.get(partition.name.partition, 1)
        stop = ReplicaStop(topic.name, topic.topic_id, partition.name.partition, max(0, next_epoch - 1), None)
        for broker_id in partition.replicas:
            stops.setdefault(broker_id, []).append(stop)
    return stops


def on_topics_read(state: ClusterState, event: TopicsRead) -> list[Effect]:
    """Take over what ZooKeeper holds about some topics, whatever was assumed before."""
    # An earlier term of this controller asked for the others; the answer may be long out of date.
    asked = [name for name in (*event.topics, *event.unreadable) if _is_awaited(state, name)]
    if not asked:
        return []
    for topic_name in asked:
        clear_admin(state, topic_name)
    effects = take_admin(state, event.admin, event.cause)
    states: dict[str, _States] = {topic_name: {} for topic_name in asked}
    for name, leader_and_isr in event.states.items():
        if name.topic in states:
            states[name.topic][name] = leader_and_isr
    leftovers: dict[str, dict[TopicPartition, int | None]] = {}
    for name, partition_epoch in event.leftovers.items():
        leftovers.setdefault(name.topic, {})[name] = partition_epoch
    for topic_name in asked:
        work = state.work[topic_name]
        work.is_reading = False
        work.leftovers = leftovers.get(topic_name, {})
        state.mark_due(topic_name, event.cause)
        unsure, work.unsure = work.unsure, set()
        if topic_name in event.topics:
            sure = {
                n: read for n, read in states[topic_name].items() if n in unsure or n not in state.rereading
            }
            effects += _take_read(state, work, topic_name, event.topics[topic_name], sure, event.cause)
        else:
            # The work needs to know it. It is read again with the next tick, not all the time.
            work.is_resting = True
        for name in unsure & state.rereading:
            # What cannot be understood is left alone.
            state.rereading.discard(name)
            state.again.pop(name, None)
    return effects


def _take_read(
    state: ClusterState, work: TopicWork, topic_name: str, read: Topic | None, states: _States, cause: str
) -> list[Effect]:
    effects: list[Effect] = []
    known = state.topics.get(topic_name)
    work.is_gone = read is None
    work.newcomer = None
    work.orphan_markers |= work.perhaps_created
    work.perhaps_created.clear()
    if known is not None and (read is None or read.topic_id != known.topic_id):
        # An operator deleted it, or this controller did in a multi whose answer was lost.
        effects += _forget(state, topic_name, work, cause)
        work.orphan_markers[known.topic_id] = None
        known = None
    news = _News(cause)
    if read is None:
        return effects
    work.orphan_markers.pop(read.topic_id, None)
    if known is None:
        news.altered.added, more = add_topics(state, (read,))
        effects += more
    else:
        if work.deletion is not None:
            work.deletion.is_read = True
        # Settings that cannot be decoded leave the old ones; a request that corrects them needs the version.
        is_garbled = read.has_garbled_configs
        version = read.config_version if is_garbled else known.config_version
        news.altered = state.alter_topic(replace(read, configs=known.configs, config_version=version))
        if not is_garbled and (read.configs, read.config_version) != (known.configs, known.config_version):
            effects += take_settings(state, topic_name, read.configs, read.config_version, cause)
        present = {name: found for name, found in states.items() if name in state.partitions}
        _look_twice(state, work, present, cause)
        effects += on_states_read(state, StatesRead(present, cause), is_topic_read=True)
    for name, found in states.items():
        # A partition that counted as NEW is not, although this controller wrote nothing about it.
        if found is not None and _is_thought_new(state, name):
            state.record(name, found)
            news.decided[name] = None
    effects += _told(state, topic_name, news)
    for requested in work.requested_changes:
        waiter = state.waiters.get(requested.request_id)
        if requested.is_begun and waiter is not None:
            waiter.undecided.update(news.altered.added)
            wait_for_acknowledgement(waiter, effects)
    touched = {*news.altered.added, *news.altered.moved, *news.decided}
    return effects + reconsider(state, _known(state, touched), cause)


def _look_twice(state: ClusterState, work: TopicWork, states: _States, cause: str) -> None:
    """Read again: an operator deleted a leaderAndISR, or the read is older than its creation."""
    for name, found in states.items():
        is_busy = name in state.storing or name in state.rereading
        if found is None and not is_busy and state.partitions[name].leader_and_isr is not None:
            state.rereading.add(name)
            state.again.setdefault(name, frozenset())
            work.unsure.add(name)
            state.want_read(name.topic, cause)


def _is_awaited(state: ClusterState, topic_name: str) -> bool:
    work = state.work.get(topic_name)
    return work is not None and work.is_reading


def _is_thought_new(state: ClusterState, name: TopicPartition) -> bool:
    partition = state.partitions.get(name)
    return partition is not None and partition.leader_and_isr is None and name not in state.storing


def _known(state: ClusterState, names: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [name for name in names if name in state.partitions]
