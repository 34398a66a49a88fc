"""Requests that wait until partitions are decided, stored and acknowledged; and controlled shutdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from hightide_controller.core.effects import (
    AnswerControlledShutdown,
    AnswerCreateTopic,
    AnswerDone,
    AnswerElections,
    AnswerPartitions,
    AnswerTopic,
    Effect,
    ElectionOutcome,
    PartitionOutcome,
    Refusal,
    RefuseRequest,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from hightide_controller.core.elections.stores import reconsider
from hightide_controller.core.events import BrokerAcknowledged, ControlledShutdownRequested, WaitExpired
from hightide_controller.core.state.cluster_state import ClusterState, WaitingRequest
from hightide_controller.core.state.request_purposes import (
    AltersTopic,
    CreatesTopic,
    DeletesTopic,
    ElectsLeaders,
    MovesPartitions,
    SetsThrottle,
    ShutsDown,
)
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition
from hightide_controller.core.values.requested_changes import RequestedChange, RequestedMoves

__all__ = [
    "REQUESTS_MAX",
    "answer_settled",
    "on_broker_acknowledged",
    "on_controlled_shutdown",
    "on_wait_expired",
    "overloaded",
    "refuse",
    "satisfy",
    "settle_move",
    "turn_away",
    "wait_for_acknowledgement",
]

REQUESTS_MAX: Final = 100
"""Requests that may wait at the same time; more are refused as OVERLOADED."""


def overloaded(state: ClusterState, request_id: int) -> list[Effect]:
    """The refusal of one request too many; nothing where there is room for it."""
    if len(state.waiters) < REQUESTS_MAX:
        return []
    message = f"{REQUESTS_MAX} requests are waiting already; try again after a pause"
    return [RefuseRequest(request_id, Refusal.OVERLOADED, message)]


def refuse(state: ClusterState, request_id: int, refusal: Refusal, message: str) -> list[Effect]:
    """Refuse a request that waits; nothing if its time is up already."""
    if state.waiters.pop(request_id, None) is None:
        return []
    return [RefuseRequest(request_id, refusal, message)]


def satisfy(state: ClusterState, request_id: int) -> None:
    """Take note that ZooKeeper holds what a request asks for; only acknowledgements of brokers are
    missing."""
    waiter = state.waiters.get(request_id)
    if waiter is not None:
        waiter.is_unwritten = False


def settle_move(
    waiter: WaitingRequest | None, name: TopicPartition, refusal: Refusal | None = None, message: str = ""
) -> None:
    """Set the outcome of one partition of a request that moves many, or cancels moves."""
    if waiter is not None and isinstance(waiter.purpose, MovesPartitions):
        purpose = waiter.purpose
        purpose.outcomes[name] = PartitionOutcome(name, refusal, message)
        waiter.is_unwritten = len(purpose.outcomes) < len(purpose.names)


def turn_away(
    state: ClusterState, requested: RequestedChange, topic_name: str, refusal: Refusal, message: str
) -> list[Effect]:
    """Refuse a request that cannot be carried out any more."""
    if not isinstance(requested, RequestedMoves):
        return refuse(state, requested.request_id, refusal, message)
    for number in requested.targets:
        name = TopicPartition(topic_name, number)
        settle_move(state.waiters.get(requested.request_id), name, refusal, message)
    return []


def wait_for_acknowledgement(waiter: WaitingRequest, effects: Sequence[Effect]) -> None:
    """Answer the request when the brokers that get these effects have acknowledged them.

    Brokers that only get metadata are not waited for.
    """
    for effect in effects:
        if isinstance(effect, SendLeaderAndIsr | SendStopReplica):
            waiter.unacknowledged[effect.broker_id] = effect.sequence
    for effect in effects:
        if isinstance(effect, SendUpdateMetadata):
            for broker_id, _ in effect.brokers:
                if broker_id in waiter.unacknowledged:
                    sequence = max(waiter.unacknowledged[broker_id], effect.sequence)
                    waiter.unacknowledged[broker_id] = sequence


def on_controlled_shutdown(state: ClusterState, event: ControlledShutdownRequested) -> list[Effect]:
    """Move leadership away from a broker that is about to stop, and take it out of the ISRs.

    It gets no replica or leadership until it registers again.
    """
    broker = state.brokers.get(event.broker_id)
    if broker is None:
        message = f"broker {event.broker_id} is not registered"
        return [RefuseRequest(event.request_id, Refusal.UNKNOWN_BROKER, message)]
    if broker.broker_epoch != event.broker_epoch:
        message = (
            f"broker {event.broker_id} is registered with broker epoch {broker.broker_epoch}, "
            f"not {event.broker_epoch}"
        )
        return [RefuseRequest(event.request_id, Refusal.STALE_BROKER_EPOCH, message)]
    if refused := overloaded(state, event.request_id):
        return refused
    state.shutting_down[event.broker_id] = event.broker_epoch
    touched = state.led_by.get(event.broker_id, set()) | state.in_sync_on.get(event.broker_id, set())
    touched |= state.replicas_on.get(event.broker_id, set()) & (state.storing | state.rereading)
    waiter = WaitingRequest(event.request_id, event.cause, ShutsDown(event.broker_id), set(touched))
    state.waiters[event.request_id] = waiter
    return reconsider(state, touched, event.cause)


def on_broker_acknowledged(state: ClusterState, event: BrokerAcknowledged) -> list[Effect]:
    """Take note that a broker has everything up to a sequence, and end the waits for that."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return []
    for waiter in state.waiters.values():
        if waiter.unacknowledged.get(event.broker_id, event.sequence + 1) <= event.sequence:
            del waiter.unacknowledged[event.broker_id]
    return []


def on_wait_expired(state: ClusterState, event: WaitExpired) -> list[Effect]:
    """Answer a request whose time is up with the current state."""
    waiter = state.waiters.get(event.request_id)
    if waiter is None:
        return []
    _drop_settled(state, waiter)
    del state.waiters[event.request_id]
    purpose = waiter.purpose
    if isinstance(purpose, ElectsLeaders):
        _give_up_elections(state, purpose, event.request_id)
    if isinstance(purpose, ShutsDown | MovesPartitions | ElectsLeaders) or not (
        waiter.undecided or waiter.is_unwritten
    ):
        # Sending to a broker that does not acknowledge is repeated; the decisions themselves hold.
        return [_answer(state, waiter)]
    if isinstance(purpose, CreatesTopic):
        message = (
            f"topic {purpose.topic.name!r}: {len(waiter.undecided)} of {len(purpose.topic.assignment)} "
            "partitions have no leader yet; it may still be created, describe it to see"
        )
    elif isinstance(purpose, SetsThrottle):
        message = "the speed limit is not written yet, and may still be; list the moves to see it"
    else:
        message = (
            f"topic {purpose.topic.name!r}: the request is not carried out yet, and may still be; describe "
            "the topic to see"
        )
    return [RefuseRequest(event.request_id, Refusal.TIMED_OUT, message)]


def answer_settled(state: ClusterState) -> list[Effect]:
    """Answer every request that has nothing to wait for any more. Runs after each event; waiting requests are
    few."""
    answered: list[WaitingRequest] = []
    for waiter in state.waiters.values():
        if isinstance(waiter.purpose, ElectsLeaders) and waiter.is_unwritten:
            _drop_forgotten(state, waiter, waiter.purpose)
        _drop_settled(state, waiter)
        if not (waiter.undecided or waiter.unacknowledged or waiter.is_unwritten):
            answered.append(waiter)
    for waiter in answered:
        del state.waiters[waiter.request_id]
    return [_answer(state, waiter) for waiter in answered]


def _drop_settled(state: ClusterState, waiter: WaitingRequest) -> None:
    # A partition that is not known is settled for a shutdown (its topic is gone), but not for a creation.
    creating = isinstance(waiter.purpose, CreatesTopic)
    waiter.undecided = {
        name
        for name in waiter.undecided
        if name in state.storing or name in state.rereading or (creating and name not in state.partitions)
    }
    waiter.unacknowledged = {
        broker_id: sequence
        for broker_id, sequence in waiter.unacknowledged.items()
        if state.is_waited_for(broker_id)
    }


def _drop_forgotten(state: ClusterState, waiter: WaitingRequest, purpose: ElectsLeaders) -> None:
    """Drop partitions that are gone from the elections of a request."""
    for name in purpose.names:
        if name not in purpose.outcomes and name not in state.elections:
            message = f"{name.topic}-{name.partition} is gone"
            outcome = PartitionOutcome(name, Refusal.UNKNOWN_PARTITION, message)
            purpose.outcomes[name] = ElectionOutcome(outcome, NO_LEADER, 0, NO_LEADER)
    waiter.is_unwritten = len(purpose.outcomes) < len(purpose.names)


def _give_up_elections(state: ClusterState, purpose: ElectsLeaders, request_id: int) -> None:
    """Give up the elections of a request that is over; those that are not written yet are not made."""
    for name in purpose.names:
        election = state.elections.get(name)
        if election is None or request_id not in election.request_ids:
            continue
        election.request_ids.remove(request_id)
        if not election.request_ids and election.before is None:
            del state.elections[name]


def _elections(purpose: ElectsLeaders) -> tuple[ElectionOutcome, ...]:
    message = "the election is not stored yet, and may still be; describe the topic to see its leader"
    return tuple(
        purpose.outcomes.get(name)
        or ElectionOutcome(
            PartitionOutcome(name, Refusal.TIMED_OUT, message), NO_LEADER, 0, previous_leader=NO_LEADER
        )
        for name in purpose.names
    )


def _moves(purpose: MovesPartitions) -> tuple[PartitionOutcome, ...]:
    message = "the move has not begun yet, and may still begin; list the moves to see it"
    return tuple(
        purpose.outcomes.get(name) or PartitionOutcome(name, Refusal.TIMED_OUT, message)
        for name in purpose.names
    )


def _answer(state: ClusterState, waiter: WaitingRequest) -> Effect:
    match waiter.purpose:
        case CreatesTopic(topic):
            return AnswerCreateTopic(waiter.request_id, topic)
        case AltersTopic(topic):
            return AnswerTopic(waiter.request_id, state.topics.get(topic.name, topic))
        case DeletesTopic(topic, absent_brokers):
            return AnswerTopic(waiter.request_id, topic, absent_brokers)
        case MovesPartitions() as purpose:
            return AnswerPartitions(waiter.request_id, _moves(purpose))
        case ElectsLeaders() as purpose:
            return AnswerElections(waiter.request_id, _elections(purpose))
        case SetsThrottle():
            return AnswerDone(waiter.request_id)
        case ShutsDown(broker_id):
            return AnswerControlledShutdown(waiter.request_id, len(state.led_by.get(broker_id, ())))
        case _:
            assert_never(waiter.purpose)
