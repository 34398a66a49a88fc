"""Requested elections, and leadership that is moved back to preferred replicas automatically.

Both put elections into `ClusterState.elections`, and stores.py decides them (requested_election.py).
"""

from __future__ import annotations

from hightide_controller.core.effects import (
    AnswerElections,
    Effect,
    ElectionOutcome,
    PartitionOutcome,
    Refusal,
    RefuseRequest,
)
from hightide_controller.core.elections.requested_election import elect
from hightide_controller.core.elections.stores import candidates_for, candidates_of, read_again, reconsider
from hightide_controller.core.elections.waiting_requests import overloaded
from hightide_controller.core.events import BalanceDue
from hightide_controller.core.state.cluster_state import ClusterState, RequestedElection, WaitingRequest
from hightide_controller.core.state.request_purposes import ElectsLeaders
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, TopicPartition
from hightide_controller.core.values.requests import ElectionKind, ElectLeadersRequested

__all__ = ["on_balance_due", "on_elect_leaders"]


def on_elect_leaders(state: ClusterState, event: ElectLeadersRequested) -> list[Effect]:
    """ElectLeaders: elect for each partition separately. If none is named, for all partitions that another
    replica leads."""
    if not event.names and event.kind is ElectionKind.UNCLEAN:
        message = "an unclean election loses records: name the partitions, one by one"
        return [RefuseRequest(event.request_id, Refusal.INVALID_REQUEST, message)]
    names = tuple(dict.fromkeys(event.names)) or tuple(sorted(_led_by_others(state)))
    outcomes = {name: found for name in names if (found := _fault(state, name, event.kind)) is not None}
    if event.validate_only:
        return [_would_be(state, event, names, outcomes)]
    if refused := overloaded(state, event.request_id):
        return refused
    asked = [name for name in names if name not in outcomes]
    purpose = ElectsLeaders(names, outcomes)
    state.waiters[event.request_id] = WaitingRequest(
        event.request_id, event.cause, purpose, set(asked), is_unwritten=bool(asked)
    )
    doubted: list[TopicPartition] = []
    for name in asked:
        state.elections.setdefault(name, RequestedElection(event.kind)).request_ids.append(event.request_id)
        if _may_be_in_sync_by_now(state, name, event.kind):
            state.rereading.add(name)
            state.again.setdefault(name, frozenset())
            doubted.append(name)
    return read_again(doubted, event.cause) + reconsider(state, asked, event.cause)


def on_balance_due(state: ClusterState, event: BalanceDue) -> list[Effect]:
    """Move leadership back to brokers that lead too few of the partitions that prefer them.

    Not while a broker shuts down, because that would move leaders twice, and not for partitions that move.
    """
    if state.shutting_down:
        return []
    astray: list[TopicPartition] = []
    for broker in state.live_brokers():
        broker_id = broker.broker_id
        held = state.replicas_on.get(broker_id, set())
        preferring = [name for name in held if state.partitions[name].replicas[0] == broker_id]
        elsewhere = [name for name in preferring if _can_be_given_back(state, name, broker_id)]
        if 100 * len(elsewhere) > state.leader_imbalance_percent * len(preferring):
            astray += elsewhere
    for name in astray:
        state.elections.setdefault(name, RequestedElection(ElectionKind.PREFERRED))
    return reconsider(state, astray, event.cause)


def _can_be_given_back(state: ClusterState, name: TopicPartition, broker_id: int) -> bool:
    known = state.partitions[name].leader_and_isr
    if known is None or known.leader in (NO_LEADER, broker_id) or broker_id not in known.isr:
        return False
    if broker_id in state.silent:
        return False
    if broker_id in state.failed_replicas.get(name, ()) or broker_id in state.damaged_replicas.get(name, ()):
        return False
    if name in state.storing or name in state.rereading or state.is_being_deleted(name.topic):
        return False
    work = state.work.get(name.topic)
    return work is None or name.partition not in work.moves


def _led_by_others(state: ClusterState) -> list[TopicPartition]:
    return [
        name
        for name, partition in state.partitions.items()
        if partition.leader_and_isr is None or partition.leader_and_isr.leader != partition.replicas[0]
    ]


def _fault(state: ClusterState, name: TopicPartition, kind: ElectionKind) -> ElectionOutcome | None:
    """The reason why no election of this partition can begin."""
    topic = state.topics.get(name.topic)
    other = state.elections.get(name)
    if topic is None:
        outcome = PartitionOutcome(name, Refusal.UNKNOWN_TOPIC, f"topic {name.topic[:260]!r} does not exist")
    elif state.is_being_deleted(name.topic):
        outcome = PartitionOutcome(
            name, Refusal.TOPIC_BEING_DELETED, f"topic {name.topic!r} is being deleted"
        )
    elif name not in state.partitions:
        message = (
            f"topic {name.topic!r} has {len(topic.assignment)} partitions and no partition {name.partition}"
        )
        outcome = PartitionOutcome(name, Refusal.UNKNOWN_PARTITION, message)
    elif other is not None and other.kind is not kind:
        message = f"another election of {name.topic}-{name.partition} is under way; try again"
        outcome = PartitionOutcome(name, Refusal.INVALID_REQUEST, message)
    else:
        return None
    return ElectionOutcome(outcome, NO_LEADER, 0, NO_LEADER)


def _may_be_in_sync_by_now(state: ClusterState, name: TopicPartition, kind: ElectionKind) -> bool:
    """Leaders let followers into the ISR without the controller, so ZooKeeper is read before the preferred
    one is refused."""
    partition = state.partitions[name]
    known = partition.leader_and_isr
    if (
        kind is not ElectionKind.PREFERRED
        or known is None
        or name in state.storing
        or name in state.rereading
    ):
        return False
    return partition.replicas[0] not in known.isr and state.is_live(partition.replicas[0])


def _would_be(
    state: ClusterState,
    event: ElectLeadersRequested,
    names: tuple[TopicPartition, ...],
    outcomes: dict[TopicPartition, ElectionOutcome],
) -> AnswerElections:
    """The outcome that the request would have, by what is known now."""
    candidates = candidates_of(state)
    elections: list[ElectionOutcome] = []
    for name in names:
        if name in outcomes:
            elections.append(outcomes[name])
            continue
        partition = state.partitions[name]
        known = partition.leader_and_isr
        found = elect(event.kind, partition, candidates_for(state, name, candidates), state.controller_epoch)
        if isinstance(found, LeaderAndIsr):
            assert known is not None
            outcome = PartitionOutcome(name)
            elections.append(
                ElectionOutcome(outcome, found.leader, found.leader_epoch, known.leader, known.isr)
            )
        else:
            leader, epoch = (NO_LEADER, 0) if known is None else (known.leader, known.leader_epoch)
            elections.append(ElectionOutcome(found, leader, epoch, NO_LEADER))
    return AnswerElections(event.request_id, tuple(elections))
