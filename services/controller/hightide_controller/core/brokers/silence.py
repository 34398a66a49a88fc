"""Brokers that are registered and alive, and do not acknowledge messages (V3, discussion 6).

Their port takes connections, but no process works behind it, or the orders cannot be carried out. The
controller keeps sending, and does not declare them dead. But a partition that such a broker was told to lead
has no leader that acts. So another in-sync replica leads it, and the broker is elected only if no other
replica can lead. It stays in the ISR, because its leader decides whether it follows. So the last in-sync
replica remains the leader.

The broker also keeps the leaderships that it has acknowledged. Those that it lost do not return
automatically, so that a broker that is slow now and then does not make leaders change back and forth. This is
kept in memory only.
"""

from __future__ import annotations

from hightide_controller.core.effects import Effect
from hightide_controller.core.elections.stores import reconsider
from hightide_controller.core.events import BrokerAnswers, BrokerSilent
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw

__all__ = ["forget_silence", "on_broker_answers", "on_broker_silent"]


def on_broker_silent(state: ClusterState, event: BrokerSilent) -> list[Effect]:
    """Handle a live broker that has not acknowledged for too long, or that owes other partitions now."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch or not state.is_live(event.broker_id):
        return []
    state.silent[event.broker_id] = {
        name: leader_epoch for name, leader_epoch in event.leads if name in state.partitions
    }
    message = (
        f"it is alive, and does not acknowledge what the controller sends to {broker.host}:{broker.port}; "
        "until it does, other brokers lead what they can. Look at its log and its disks, and restart it if "
        "it hangs"
    )
    complaint = complain(state, _subject(event.broker_id), message)
    return complaint + reconsider(state, state.silent[event.broker_id].keys(), event.cause)


def on_broker_answers(state: ClusterState, event: BrokerAnswers) -> list[Effect]:
    """Handle a broker that has acknowledged everything."""
    broker = state.brokers.get(event.broker_id)
    if broker is not None and broker.broker_epoch == event.broker_epoch:
        forget_silence(state, event.broker_id)
    return []


def forget_silence(state: ClusterState, broker_id: int) -> None:
    """Forget the silence of a broker: it answers, or that life of it is over."""
    if state.silent.pop(broker_id, None) is not None:
        withdraw(state, _subject(broker_id))


def _subject(broker_id: int) -> str:
    return f"broker {broker_id}, orders"
