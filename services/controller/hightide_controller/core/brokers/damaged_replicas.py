"""Replicas with damaged batches at rest: they serve the rest, and are being repaired.

Such a replica leaves the ISR if it has a whole member, and stops leading. If there is none it stays, because
it may be the last copy of everything else. It is repaired in place from other replicas, and reports that:
then it may join again as any other. The same holds for a replica that keeps committed records which its
leader lacks: its log may be the last copy, and an operator has to decide which of the two logs to keep. And
it holds for a replica whose clients wait for a call to its disk that does not return: the call may still
return, and the replica has all that it had then.

Meanwhile the controller complains. This is kept in memory only: brokers report damage to a new controller,
and report again while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hightide_controller.core.effects import Effect
from hightide_controller.core.elections.stores import read_again, reconsider
from hightide_controller.core.events import Divergence, ReplicasDamaged
from hightide_controller.core.state.cluster_state import ClusterState, damage_subject, difference_subject
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["forget_damage", "on_replicas_damaged"]

_HANGS: Final = (
    "waits for its disk, which does not answer: until it does, other brokers lead what they can. Look at "
    "the disk; if it does not answer again, the broker takes it offline (--disk-timeout-ms)"
)


def on_replicas_damaged(state: ClusterState, event: ReplicasDamaged) -> list[Effect]:
    """Handle a broker's report about damaged replicas, and those that are whole again. A report of an earlier
    life is ignored."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return []
    effects: list[Effect] = []
    changed: dict[TopicPartition, None] = {}
    unsure: list[TopicPartition] = []
    messages = [
        *((topic_id, number, _message(offset)) for topic_id, number, offset in event.damaged),
        *((topic_id, number, _divergence(each)) for topic_id, number, each in event.diverged),
        *((topic_id, number, _HANGS) for topic_id, number in event.hanging),
    ]
    topics = _names_of(state, (topic_id for topic_id, _, _ in messages))
    for topic_id, number, message in messages:
        name = TopicPartition(topics.get(topic_id, ""), number)
        partition = state.partitions.get(name)
        if partition is None or event.broker_id not in partition.replicas:
            continue
        if event.broker_id not in state.damaged_replicas.get(name, ()):
            changed[name] = None
            if name not in state.in_sync_on.get(event.broker_id, ()):
                unsure.append(name)  # Its leader may have let it in without the controller.
            state.damaged_replicas[name] = state.damaged_replicas.get(name, frozenset()) | {event.broker_id}
        effects += complain(state, damage_subject(name, event.broker_id), message)
    effects += _differences(state, event)
    topics = _names_of(state, (topic_id for topic_id, _ in event.whole))
    for topic_id, number in event.whole:
        name = TopicPartition(topics.get(topic_id, ""), number)
        if event.broker_id in state.damaged_replicas.get(name, ()):
            state.forget_damage(name, event.broker_id)
            changed[name] = None
    for name in changed:
        state.note_progress(name)
    return effects + reconsider(state, changed, event.cause) + read_again(unsure, event.cause)


def _differences(state: ClusterState, event: ReplicasDamaged) -> list[Effect]:
    """Handle replicas that are whole and have other batches than their leaders: nobody can say which is
    right."""
    effects: list[Effect] = []
    topics = _names_of(state, (topic_id for topic_id, _, _ in event.differing))
    for topic_id, number, where in event.differing:
        name = TopicPartition(topics.get(topic_id, ""), number)
        partition = state.partitions.get(name)
        if partition is None or event.broker_id not in partition.replicas:
            continue
        if where.offset < 0:
            withdraw(state, difference_subject(name, event.broker_id))
        else:
            effects += complain(state, difference_subject(name, event.broker_id), _difference(where))
    return effects


def forget_damage(state: ClusterState, broker_id: int) -> None:
    """Forget the damage of a broker's life that is over; the next life reports anew."""
    for name in state.replicas_on.get(broker_id, ()):
        withdraw(state, difference_subject(name, broker_id))
    for name in [name for name, ids in state.damaged_replicas.items() if broker_id in ids]:
        state.forget_damage(name, broker_id)


def _names_of(state: ClusterState, topic_ids: Iterable[str]) -> dict[str, str]:
    wanted = set(topic_ids)
    return {topic.topic_id: topic.name for topic in state.topics.values() if topic.topic_id in wanted}


def _message(offset: int) -> str:
    where = f" at offset {offset}" if offset >= 0 else ""
    return (
        f"is damaged{where}: it serves what is whole, and repairs itself from the other replicas; if it "
        "stays damaged, check that their brokers run and are reachable, and look at the broker's log and "
        "its disk"
    )


def _difference(where: Divergence) -> str:
    return (
        f"has other batches than its leader, broker {where.leader}, somewhere in the offsets {where.offset} "
        f"to {where.high_watermark - 1}, and both are whole: one of them has other records than were "
        'acknowledged; see docs/operating.md, "When two replicas differ"'
    )


def _divergence(divergence: Divergence) -> str:
    return (
        f"keeps records that its leader has lost: it knows all below {divergence.high_watermark} to be "
        f"committed, and leader {divergence.leader} in epoch {divergence.leader_epoch} has its log end at "
        f"{divergence.offset}, without an unclean election; it follows no leader until you decide which of "
        'the two logs to keep, see docs/operating.md, "When a follower keeps what its leader lacks"'
    )
