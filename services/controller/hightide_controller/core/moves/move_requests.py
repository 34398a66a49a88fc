"""ReassignPartitions and CancelReassignments: checked against what is known, then passed to reassignment.py.

Each partition is accepted or refused on its own. The request is answered when all accepted moves have begun,
which is when ZooKeeper holds them (KIP-455).
"""

from __future__ import annotations

from hightide_controller.core.effects import (
    AnswerPartitions,
    Effect,
    PartitionOutcome,
    Refusal,
    RefuseRequest,
)
from hightide_controller.core.elections.waiting_requests import overloaded
from hightide_controller.core.moves.reassignment import cancel_fault, move_fault, surroundings_of
from hightide_controller.core.moves.throttle import request_throttle
from hightide_controller.core.state.cluster_state import ClusterState, WaitingRequest
from hightide_controller.core.state.request_purposes import MovesPartitions
from hightide_controller.core.state.topic_rules import Fault
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requested_changes import RequestedMoves
from hightide_controller.core.values.requests import (
    CancelReassignmentsRequested,
    Move,
    ReassignmentsRequested,
)

__all__ = ["on_cancel_requested", "on_reassignments_requested", "release_held_moves"]

_Targets = dict[TopicPartition, tuple[int, ...] | None]


def on_reassignments_requested(state: ClusterState, event: ReassignmentsRequested) -> list[Effect]:
    """Begin moves, or change the target of moves that are under way."""
    targets: _Targets = {move.name: move.target for move in event.moves}
    if len(targets) < len(event.moves):
        message = (
            "a partition is named twice; name each once, with the replicas that it shall have in the end"
        )
        return [RefuseRequest(event.request_id, Refusal.INVALID_REQUEST, message)]
    outcomes = _refused(state, targets)
    if event.validate_only:
        return [_answer(event.request_id, targets, outcomes)]
    if refused := overloaded(state, event.request_id):
        return refused
    waiter = _wait(state, event.request_id, event.cause, targets, outcomes)
    accepted = tuple(move for move in event.moves if move.name not in outcomes)
    if event.throttle_bytes_per_s is None:
        _request_moves(state, waiter, {move.name: move.target for move in accepted})
    else:
        assert isinstance(waiter.purpose, MovesPartitions)
        waiter.purpose.held = accepted
        request_throttle(state, waiter, event.throttle_bytes_per_s)
    return []


def on_cancel_requested(state: ClusterState, event: CancelReassignmentsRequested) -> list[Effect]:
    """Cancel moves; all of them if none is named."""
    names = event.names or sorted(
        TopicPartition(topic_name, number) for topic_name, work in state.work.items() for number in work.moves
    )
    targets: _Targets = dict.fromkeys(names)
    if len(targets) < len(names):
        message = "a partition is named twice; name each once"
        return [RefuseRequest(event.request_id, Refusal.INVALID_REQUEST, message)]
    outcomes = _refused(state, targets)
    if event.validate_only:
        return [_answer(event.request_id, targets, outcomes)]
    if refused := overloaded(state, event.request_id):
        return refused
    waiter = _wait(state, event.request_id, event.cause, targets, outcomes)
    _request_moves(state, waiter, {name: None for name in targets if name not in outcomes})
    return []


def release_held_moves(state: ClusterState) -> None:
    """Begin moves that waited for a new speed limit: brokers have acknowledged it."""
    for waiter in state.waiters.values():
        purpose = waiter.purpose
        if not isinstance(purpose, MovesPartitions) or not purpose.held or waiter.is_unwritten:
            continue
        if any(state.is_waited_for(broker_id) for broker_id in waiter.unacknowledged):
            continue
        held: tuple[Move, ...]
        held, purpose.held = purpose.held, ()
        _request_moves(state, waiter, {move.name: move.target for move in held})


def _refused(state: ClusterState, targets: _Targets) -> dict[TopicPartition, PartitionOutcome]:
    around = surroundings_of(state)
    outcomes: dict[TopicPartition, PartitionOutcome] = {}
    for name, target in targets.items():
        fault: Fault | None
        if target is None:
            fault = cancel_fault(state, name, around)
        else:
            fault = move_fault(state, name, target, around)
        if fault is not None:
            outcomes[name] = PartitionOutcome(name, *fault)
    return outcomes


def _answer(
    request_id: int, targets: _Targets, outcomes: dict[TopicPartition, PartitionOutcome]
) -> AnswerPartitions:
    return AnswerPartitions(
        request_id, tuple(outcomes.get(name) or PartitionOutcome(name) for name in targets)
    )


def _wait(
    state: ClusterState,
    request_id: int,
    cause: str,
    targets: _Targets,
    outcomes: dict[TopicPartition, PartitionOutcome],
) -> WaitingRequest:
    waiter = WaitingRequest(request_id, cause, MovesPartitions(tuple(targets), outcomes))
    state.waiters[request_id] = waiter
    return waiter


def _request_moves(state: ClusterState, waiter: WaitingRequest, targets: _Targets) -> None:
    """Pass the moves on to their topics."""
    by_topic: dict[str, dict[int, tuple[int, ...] | None]] = {}
    for name, target in targets.items():
        by_topic.setdefault(name.topic, {})[name.partition] = target
    for topic_name, numbers in by_topic.items():
        state.work_of(topic_name).requested_changes.append(RequestedMoves(waiter.request_id, numbers))
        state.mark_due(topic_name, waiter.cause)
    waiter.is_unwritten = bool(targets)
