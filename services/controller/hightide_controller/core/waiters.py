"""Requests that wait until partitions are decided, stored and acknowledged; and controlled shutdown."""

from __future__ import annotations

from hightide_controller.core.cluster_state import ClusterState, Waiter
from hightide_controller.core.effects import (
    AnswerControlledShutdown,
    AnswerCreateTopic,
    Effect,
    Refusal,
    RefuseRequest,
)
from hightide_controller.core.events import BrokerAcknowledged, ControlledShutdownRequested, WaitExpired
from hightide_controller.core.stores import reconsider
from hightide_controller.core.topics import REQUESTS_MAX

__all__ = ["answer_settled", "on_broker_acknowledged", "on_controlled_shutdown", "on_wait_expired"]


def on_controlled_shutdown(state: ClusterState, event: ControlledShutdownRequested) -> list[Effect]:
    """Move leadership away from a broker that is about to stop, and take it out of the ISRs.

    It is not assigned or elected anything from here on, until it registers again.
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
    if len(state.waiters) >= REQUESTS_MAX:
        message = f"{REQUESTS_MAX} requests are waiting already; try again after a pause"
        return [RefuseRequest(event.request_id, Refusal.OVERLOADED, message)]
    state.shutting_down[event.broker_id] = event.broker_epoch
    touched = state.led_by.get(event.broker_id, set()) | state.in_sync_on.get(event.broker_id, set())
    touched |= state.replicas_on.get(event.broker_id, set()) & (state.storing | state.rereading)
    waiter = Waiter(event.request_id, event.cause, None, event.broker_id, set(touched))
    state.waiters[event.request_id] = waiter
    return reconsider(state, touched, event.cause)


def on_broker_acknowledged(state: ClusterState, event: BrokerAcknowledged) -> list[Effect]:
    """A broker has everything up to a sequence; whoever waited for that waits no longer."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch:
        return []
    for waiter in state.waiters.values():
        if waiter.unacknowledged.get(event.broker_id, event.sequence + 1) <= event.sequence:
            del waiter.unacknowledged[event.broker_id]
    return []


def on_wait_expired(state: ClusterState, event: WaitExpired) -> list[Effect]:
    """The shell's patience is at its end: answer with what there is."""
    waiter = state.waiters.get(event.request_id)
    if waiter is None:
        return []
    _drop_settled(state, waiter)
    del state.waiters[event.request_id]
    if waiter.topic is None or not waiter.undecided:
        # A broker that does not acknowledge is retried; the decisions themselves stand.
        return [_answer(state, waiter)]
    message = (
        f"topic {waiter.topic.name!r}: {len(waiter.undecided)} of {len(waiter.topic.assignment)} partitions "
        "have no leader yet; it may still be created, describe it to see"
    )
    return [RefuseRequest(event.request_id, Refusal.TIMED_OUT, message)]


def answer_settled(state: ClusterState) -> list[Effect]:
    """Answer every request that waits for nothing any more. Runs after each event; the waiters are few."""
    answered: list[Waiter] = []
    for waiter in state.waiters.values():
        _drop_settled(state, waiter)
        if not waiter.undecided and not waiter.unacknowledged:
            answered.append(waiter)
    for waiter in answered:
        del state.waiters[waiter.request_id]
    return [_answer(state, waiter) for waiter in answered]


def _drop_settled(state: ClusterState, waiter: Waiter) -> None:
    # A partition that is not known is settled for a shutdown (its topic is gone), but not for a creation.
    creating = waiter.topic is not None
    waiter.undecided = {
        name
        for name in waiter.undecided
        if name in state.storing or name in state.rereading or (creating and name not in state.partitions)
    }
    waiter.unacknowledged = {
        broker_id: sequence
        for broker_id, sequence in waiter.unacknowledged.items()
        if state.is_live(broker_id)
    }


def _answer(state: ClusterState, waiter: Waiter) -> Effect:
    if waiter.topic is not None:
        return AnswerCreateTopic(waiter.request_id, waiter.topic)
    assert waiter.broker_id is not None
    remaining = len(state.led_by.get(waiter.broker_id, ()))
    return AnswerControlledShutdown(waiter.request_id, remaining)
