"""Deleting topics: by request, or because /admin/delete_topics/[topic] exists (V3 B.2, with topic ids).

    intent stored with the topic's id → partitions' znodes deleted, in chunks → topic znode, marker,
    settings and intent deleted in one multi → brokers stop their replicas

From the first step on a deletion is never cancelled. The controller that continues it, this one or the next,
finds in ZooKeeper what is left to do. Meanwhile there are no elections. A broker that is down learns of the
deletion when it starts (docs/protocol.md, "Nothing is deleted by omission"). If an operator deletes a topic
znode, this is the last step.
"""

from __future__ import annotations

from collections.abc import Iterator

from hightide_runtime.znodes.paths import delete_topic_path
from msgspec.structs import replace

from hightide_controller.core.brokers.stops import send_stops
from hightide_controller.core.effects import (
    ANY_LEADER_EPOCH,
    AnswerTopic,
    Effect,
    Refusal,
    RefuseRequest,
    ReplicaStop,
    SendUpdateMetadata,
)
from hightide_controller.core.elections.waiting_requests import (
    overloaded,
    turn_away,
    wait_for_acknowledgement,
)
from hightide_controller.core.events import Topic
from hightide_controller.core.state.cluster_state import ClusterState, WaitingRequest
from hightide_controller.core.state.request_purposes import DeletesTopic
from hightide_controller.core.state.topic_plan import TopicPlan
from hightide_controller.core.state.topic_rules import topic_id_fault
from hightide_controller.core.state.topic_work import TopicDeletion, TopicWork
from hightide_controller.core.values.partition import Partition, TopicPartition
from hightide_controller.core.values.requests import DeleteTopicRequested
from hightide_controller.core.writes import (
    AdditionDone,
    DeletionAdopted,
    DeletionDone,
    PartitionRemoved,
    ReassignmentDone,
    RemovalDone,
    TopicRemoved,
    Write,
)

__all__ = ["heed_intent", "intent_complaint", "on_delete_topic", "plan_deletion", "tell_deleted"]


def on_delete_topic(state: ClusterState, event: DeleteTopicRequested) -> list[Effect]:
    """Begin a deletion, or join one that is under way."""
    topic = state.topics.get(event.name)
    if topic is None:
        message = f"topic {event.name[:260]!r} does not exist"
        return [RefuseRequest(event.request_id, Refusal.UNKNOWN_TOPIC, message)]
    if (fault := topic_id_fault(topic, event.topic_id)) is not None:
        return [RefuseRequest(event.request_id, *fault)]
    absent = _absent_brokers(state, topic)
    if event.validate_only:
        return [AnswerTopic(event.request_id, topic, absent)]
    if refused := overloaded(state, event.request_id):
        return refused
    purpose = DeletesTopic(topic, absent)
    state.waiters[event.request_id] = WaitingRequest(
        event.request_id, event.cause, purpose, is_unwritten=True
    )
    work = state.work_of(topic.name)
    work.deletion = work.deletion or TopicDeletion()
    state.mark_due(topic.name, event.cause)
    return []


def heed_intent(state: ClusterState, topic_name: str) -> None:
    """Begin the deletion of a known topic if there is an intent, unless the intent is about another topic."""
    work = state.work[topic_name]
    topic = state.topics.get(topic_name)
    if work.intent is None or topic is None or work.deletion is not None:
        return
    if work.intent.topic_id in ("", topic.topic_id):
        work.deletion = TopicDeletion()


def intent_complaint(work: TopicWork, topic: Topic) -> dict[str, str]:
    """The complaint about an intent that is about an earlier topic of the name."""
    intent = work.intent
    if intent is None or intent.topic_id in ("", topic.topic_id):
        return {}
    message = (
        f"it is about the topic with id {intent.topic_id}, but {topic.name!r} has id {topic.topic_id} and "
        "stays; delete this znode, and delete the topic again if you mean it"
    )
    return {delete_topic_path(topic.name): message}


def plan_deletion(state: ClusterState, plan: TopicPlan) -> None:
    """Plan the next step. Everything that fits goes into one multi; for a small topic that is all."""
    topic = plan.topic
    work = state.work[plan.name]
    assert topic is not None
    assert work.deletion is not None
    for requested in work.requested_changes:
        message = f"topic {plan.name!r} is being deleted"
        plan.effects += turn_away(state, requested, plan.name, Refusal.TOPIC_BEING_DELETED, message)
    work.requested_changes.clear()
    if work.intent is None or work.intent.topic_id != topic.topic_id:
        version = None if work.intent is None else work.intent.version
        plan.add(DeletionAdopted(plan.name, topic.topic_id, version))
        return
    if not work.deletion.is_read:
        if work.read_cause is None:
            work.read_cause = plan.cause
        return
    for group in _what_stands(state, work, topic):
        names = [write.name for write in group if isinstance(write, PartitionRemoved)]
        if any(name in state.storing or name in state.rereading for name in names):
            # It is being written or read; it is due again when that is answered.
            return
        if not plan.has_room(*group):
            return
        plan.add(*group)
    partitions = (TopicPartition(plan.name, number) for number in range(len(topic.assignment)))
    if any(name in state.storing or name in state.rereading for name in partitions):
        # Something may still be created below it.
        return
    last = (TopicRemoved(topic, topic.version), DeletionDone(plan.name, work.intent.version))
    if plan.has_room(*last):
        plan.add(*last)


def _what_stands(state: ClusterState, work: TopicWork, topic: Topic) -> Iterator[tuple[Write, ...]]:
    """What must be deleted before the topic znode. A partition and the operator's requests about it go
    together."""
    for number in range(len(topic.assignment)):
        name = TopicPartition(topic.name, number)
        known = state.partitions[name].leader_and_isr
        removed = () if known is None else (PartitionRemoved(name, known.partition_epoch),)
        if group := (*removed, *_operator_requests(work, name)):
            yield group
    for name, partition_epoch in work.leftovers.items():
        found = state.partitions.get(name)
        if found is None or found.leader_and_isr is None:  # Else it got a leader since the read.
            yield (PartitionRemoved(name, partition_epoch),)
    beyond = sorted({*work.moves, *work.additions, *work.removals})
    for number in beyond:
        if number >= len(topic.assignment):
            yield _operator_requests(work, TopicPartition(topic.name, number))


def _operator_requests(work: TopicWork, name: TopicPartition) -> tuple[Write, ...]:
    number = name.partition
    writes: list[Write] = []
    if number in work.moves:
        writes.append(ReassignmentDone(name, work.moves[number].version))
    if number in work.additions:
        writes.append(AdditionDone(name, work.additions[number].version))
    if number in work.removals:
        writes.append(RemovalDone(name, work.removals[number].version))
    return tuple(writes)


def tell_deleted(state: ClusterState, topic: Topic, partitions: list[Partition], cause: str) -> list[Effect]:
    """Stop the live brokers' replicas and answer the requests: the topic is gone from ZooKeeper and from
    memory."""
    stops: dict[int, list[ReplicaStop]] = {}
    for partition in partitions:
        for broker_id in partition.replicas:
            stop = ReplicaStop(topic.name, topic.topic_id, partition.name.partition, ANY_LEADER_EPOCH, None)
            stops.setdefault(broker_id, []).append(stop)
    effects = send_stops(state, stops, cause)
    receivers = tuple((broker.broker_id, broker.broker_epoch) for broker in state.live_brokers())
    if receivers:
        sequence = state.take_sequence()
        effects.append(
            SendUpdateMetadata(receivers, sequence, deleted_topic_ids=(topic.topic_id,), cause=cause)
        )
    for waiter in state.waiters.values():
        purpose = waiter.purpose
        if isinstance(purpose, DeletesTopic) and purpose.topic.topic_id == topic.topic_id:
            waiter.purpose = replace(purpose, absent_brokers=_absent_brokers(state, topic))
            waiter.is_unwritten = False
            wait_for_acknowledgement(waiter, effects)
    return effects


def _absent_brokers(state: ClusterState, topic: Topic) -> tuple[int, ...]:
    holders = {broker_id for replicas in topic.assignment for broker_id in replicas}
    return tuple(sorted(broker_id for broker_id in holders if not state.is_live(broker_id)))
