"""Replicas whose data directory failed, while their broker lives on without them (KIP-112).

For such a partition the broker counts as not alive until it registers anew. It leaves the ISR if others are
in it, stops leading, and gets no new replica of it. Other replicas of the broker are not affected. This is
kept in memory only: a new controller learns of it from the answers to its first LeaderAndISR.
"""

from __future__ import annotations

from hightide_controller.core.effects import Effect
from hightide_controller.core.elections.stores import reconsider
from hightide_controller.core.events import ReplicasFailed
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["forget_failures", "on_replicas_failed"]


def on_replicas_failed(state: ClusterState, event: ReplicasFailed) -> list[Effect]:
    """Handle a broker's report about replicas that it cannot use. A report of an earlier life, or a repeated
    one, is ignored."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return []
    names = [
        name for name in _names(state, event) if event.broker_id not in state.failed_replicas.get(name, ())
    ]
    if not names:
        return []
    for name in names:
        state.failed_replicas[name] = state.failed_replicas.get(name, frozenset()) | {event.broker_id}
        state.note_progress(name)
    there = state.failed_on.setdefault(event.broker_id, set())
    there.update(names)
    message = (
        f"{len(there)} of its replicas cannot be used, because their data directory failed, among them "
        f"{names[0].topic}-{names[0].partition}; repair the disk and restart the broker, or move the "
        "replicas away"
    )
    return complain(state, _subject(event.broker_id), message) + reconsider(state, names, event.cause)


def forget_failures(state: ClusterState, broker_id: int) -> None:
    """Forget the failures of a broker's life that is over; the next life reports anew."""
    for name in state.failed_on.pop(broker_id, ()):
        failed = state.failed_replicas[name] - {broker_id}
        if failed:
            state.failed_replicas[name] = failed
        else:
            del state.failed_replicas[name]
    withdraw(state, _subject(broker_id))


def _names(state: ClusterState, event: ReplicasFailed) -> list[TopicPartition]:
    topic_ids = {topic_id for topic_id, _ in event.replicas}
    topics = {topic.topic_id: topic.name for topic in state.topics.values() if topic.topic_id in topic_ids}
    known = [
        TopicPartition(topics[topic_id], number) for topic_id, number in event.replicas if topic_id in topics
    ]
    return [name for name in known if name in state.partitions]


def _subject(broker_id: int) -> str:
    return f"broker {broker_id}, data directories"
