"""Brokers that are registered and alive, and do not acknowledge what they are told (V3, discussion 6).

Their port takes connections, and nobody works behind it, or what they are told cannot be done. The controller
goes on telling them; nobody declares them dead. But a partition that such a broker was told to lead has no
leader that acts: another in-sync replica leads it, and it is elected for nothing that another one can lead.
It stays in the ISR: whether it follows is for its leader to say. So the last in-sync replica goes on to lead.
What it has acknowledged it goes on to lead as well, and what it lost it does not take back by itself, so that
one that is slow now and then does not make leaders go to and fro. Kept in memory alone.
"""

from __future__ import annotations

from hightide_controller.core.effects import Effect
from hightide_controller.core.elections.stores import reconsider
from hightide_controller.core.events import BrokerAnswers, BrokerSilent
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw

__all__ = ["forget_silence", "on_broker_answers", "on_broker_silent"]


def on_broker_silent(state: ClusterState, event: BrokerSilent) -> list[Effect]:
    """A live broker has owed acknowledgements for too long, or owes those of other partitions now."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch or not state.is_live(event.broker_id):
        return []
    state.silent[event.broker_id] = {
        name: leader_epoch for name, leader_epoch in event.leads if name in state.partitions
    }
    message = (
        f"it is alive, and does not acknowledge what the controller tells it at {broker.host}:{broker.port}; "
        "others lead what they can until it does. Look at its log and its disks, restart it if it hangs"
    )
    complaint = complain(state, _subject(event.broker_id), message)
    return complaint + reconsider(state, state.silent[event.broker_id].keys(), event.cause)


def on_broker_answers(state: ClusterState, event: BrokerAnswers) -> list[Effect]:
    """It has acknowledged all that it was told."""
    broker = state.brokers.get(event.broker_id)
    if broker is not None and broker.broker_epoch == event.broker_epoch:
        forget_silence(state, event.broker_id)
    return []


def forget_silence(state: ClusterState, broker_id: int) -> None:
    """It answers, or that life of it is over."""
    if state.silent.pop(broker_id, None) is not None:
        withdraw(state, _subject(broker_id))


def _subject(broker_id: int) -> str:
    return f"broker {broker_id}, orders"
