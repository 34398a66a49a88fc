"""The answers of members on their streams, in turn or not (consumer coordinator §11; C1)."""

from __future__ import annotations

from hightide_coordinator.core.commits.positions import take_positions
from hightide_coordinator.core.effects import CloseConnection
from hightide_coordinator.core.events import ConsumerLeft, FetchersStarted, FetchersStopped, PingAnswered
from hightide_coordinator.core.membership.departures import break_stream, on_left
from hightide_coordinator.core.membership.orders import on_answered
from hightide_coordinator.core.registration_checks import check_positions
from hightide_coordinator.core.state.member import Member, OrderKind
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.refusals import Refusal

__all__ = ["on_answer"]


def on_answer(
    state: ShardState, event: PingAnswered | FetchersStopped | FetchersStarted | ConsumerLeft
) -> None:
    """Handle an answer. Every answer in turn is a sign of life, even if it is too late."""
    member = state.connections.get(event.connection_id)
    if member is None:
        message = "an answer on a stream without a registration; register first"
        state.do(CloseConnection(event.connection_id, Refusal.ANSWER_OUT_OF_TURN, message))
        return
    if isinstance(event, ConsumerLeft):
        on_left(state, event)
        return
    is_in_turn = event.coordinator_epoch == state.coordinator_epoch and 0 < event.sequence <= member.sequence
    if not is_in_turn or _is_other_kind(member, event):
        message = (
            f"consumer {member.consumer_id} of group {member.group} answered order {event.sequence} of "
            f"coordinator epoch {event.coordinator_epoch}; this is epoch {state.coordinator_epoch}, which "
            f"gave {member.sequence} orders on this stream"
        )
        break_stream(state, member, Refusal.ANSWER_OUT_OF_TURN, message)
        return
    member.heard_ms = state.now_ms
    group = state.groups[member.group]
    if not isinstance(event, FetchersStarted) and event.positions:
        wrong = check_positions(event.positions)
        if wrong:
            break_stream(state, member, Refusal.INVALID_REQUEST, wrong)
            return
        if isinstance(event, PingAnswered) or _is_open(state, member, event):
            take_positions(state, group, member, event.positions, event.sequence)
    if not isinstance(event, PingAnswered):
        on_answered(state, group, member, event)


def _is_other_kind(member: Member, event: PingAnswered | FetchersStopped | FetchersStarted) -> bool:
    """Whether this is the wrong kind of answer to the open order."""
    order = member.order
    if order is None or order.sequence != event.sequence:
        return False
    wanted = FetchersStopped if order.kind is OrderKind.STOP else FetchersStarted
    return not isinstance(event, wanted)


def _is_open(state: ShardState, member: Member, event: FetchersStopped) -> bool:
    """Whether the order is still open; a late answer changes nothing."""
    order = member.order
    return order is not None and order.sequence == event.sequence
