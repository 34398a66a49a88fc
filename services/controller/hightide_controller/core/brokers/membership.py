"""Brokers that register, leave, die and come back (V3 A, with broker epochs)."""

from __future__ import annotations

from hightide_controller.core.brokers.damaged_replicas import forget_damage
from hightide_controller.core.brokers.failed_replicas import forget_failures
from hightide_controller.core.brokers.silence import forget_silence
from hightide_controller.core.effects import Effect, SendUpdateMetadata
from hightide_controller.core.elections.stores import read_again, reconsider, send_decisions
from hightide_controller.core.events import (
    Broker,
    BrokerProcessAlive,
    BrokerProcessDied,
    BrokersChanged,
    LeadershipDeclined,
)
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values.partition import TopicPartition

__all__ = [
    "on_broker_process_alive",
    "on_broker_process_died",
    "on_brokers_changed",
    "on_leadership_declined",
    "tell_everything",
]


def on_broker_process_died(state: ClusterState, event: BrokerProcessDied) -> list[Effect]:
    """V3 A.1 to A.4 without waiting for ZooKeeper: that life of the broker is over, although its znode
    exists."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch or not state.is_live(event.broker_id):
        return []
    state.dead[event.broker_id] = event.broker_epoch
    forget_silence(state, event.broker_id)
    return _lost(state, [event.broker_id], event.cause)


def on_broker_process_alive(state: ClusterState, event: BrokerProcessAlive) -> list[Effect]:
    """Handle a life that was declared dead and answers: it counts as one that arrives. Partitions that it led
    have a leader in a later epoch by now. Partitions that waited for it as the last in-sync replica get it as
    leader again, in another epoch."""
    broker = state.brokers.get(event.broker_id)
    if broker is None or broker.broker_epoch != event.broker_epoch or state.is_live(event.broker_id):
        return []
    del state.dead[event.broker_id]
    return _arrived(state, broker, event.cause) + _tell_brokers_list(state, event.cause)


def on_brokers_changed(state: ClusterState, event: BrokersChanged) -> list[Effect]:
    """Compare the registrations with those known; another broker epoch is another life (KIP-380)."""
    registered = {broker.broker_id: broker for broker in event.brokers}
    lost: list[int] = []
    bounced: list[int] = []
    arrived: list[Broker] = []
    for broker_id, known in sorted(state.brokers.items()):
        now = registered.get(broker_id)
        if now is not None and now.broker_epoch == known.broker_epoch:
            continue
        if state.is_live(broker_id):
            (lost if now is None else bounced).append(broker_id)
        forget_failures(state, broker_id)
        forget_damage(state, broker_id)
        forget_silence(state, broker_id)
        state.dead.pop(broker_id, None)
        state.shutting_down.pop(broker_id, None)
    for broker_id, now in sorted(registered.items()):
        known_before = state.brokers.get(broker_id)
        if known_before is None or known_before.broker_epoch != now.broker_epoch:
            arrived.append(now)
    moved = [broker for broker in event.brokers if state.brokers.get(broker.broker_id) != broker]
    state.brokers = registered
    effects = _lost(state, lost, event.cause)
    for broker_id in bounced:
        touched = _touched_by(state, broker_id)
        effects += reconsider(state, touched, event.cause, bounced=frozenset({broker_id}))
    for broker in arrived:
        effects += _arrived(state, broker, event.cause)
    if moved and not lost:
        effects += _tell_brokers_list(state, event.cause)
    return effects


def on_leadership_declined(state: ClusterState, event: LeadershipDeclined) -> list[Effect]:
    """Handle a leader that cannot lead in its epoch: decide anew, as if that broker had bounced.

    A takeover does not see a bounce that happened before it, so the leader that bounced reports it. A report
    about another life, or about an epoch that is not the newest known here, is ignored.
    """
    broker = state.brokers.get(event.broker_id)
    partition = state.partitions.get(event.name)
    known = None if partition is None else partition.leader_and_isr
    if broker is None or broker.broker_epoch != event.broker_epoch or known is None:
        return []
    if (known.leader, known.leader_epoch) != (event.broker_id, event.leader_epoch):
        return []
    return reconsider(state, {event.name}, event.cause, bounced=frozenset({event.broker_id}))


def _lost(state: ClusterState, broker_ids: list[int], cause: str) -> list[Effect]:
    """Elect and shrink as the cache says; if the cache may be stale, read first.

    A leader lets followers into the ISR without the controller. So ZooKeeper is read for the other partitions
    of which the broker holds a replica. Otherwise their leader would wait replica.lag.time.max.ms for it.
    """
    if not broker_ids:
        return []
    touched: set[TopicPartition] = set()
    unsure: set[TopicPartition] = set()
    for broker_id in broker_ids:
        touched |= _touched_by(state, broker_id)
        unsure |= state.replicas_on.get(broker_id, set())
    unsure -= touched
    effects = reconsider(state, touched, cause)
    effects += read_again(sorted(name for name in unsure if name not in state.unled), cause)
    return effects + _tell_brokers_list(state, cause)


def _touched_by(state: ClusterState, broker_id: int) -> set[TopicPartition]:
    """The partitions that a broker leads or is in sync for, and those about which a decision is being
    written."""
    held = state.replicas_on.get(broker_id, set())
    touched = state.led_by.get(broker_id, set()) | state.in_sync_on.get(broker_id, set())
    return touched | (held & state.storing) | (held & state.rereading)


def _arrived(state: ClusterState, broker: Broker, cause: str) -> list[Effect]:
    """Handle a broker that registered: it gets everything, and partitions that waited for it get a leader."""
    held = state.replicas_on.get(broker.broker_id, set())
    decided = sorted(name for name in held if state.partitions[name].leader_and_isr is not None)
    effects = send_decisions(state, decided, cause, only_to=broker.broker_id)
    effects += tell_everything(state, [broker], cause)
    # A write under way may say that no replica is alive; it is decided again when it is stored.
    return effects + reconsider(state, held & (state.unled | state.storing | state.rereading), cause)


def tell_everything(state: ClusterState, brokers: list[Broker], cause: str) -> list[Effect]:
    """A full UpdateMetadata for these brokers."""
    receivers = tuple((broker.broker_id, broker.broker_epoch) for broker in brokers)
    if not receivers:
        return []
    return [SendUpdateMetadata(receivers, state.take_sequence(), full=True, cause=cause)]


def _tell_brokers_list(state: ClusterState, cause: str) -> list[Effect]:
    """Send the list of live brokers. Every UpdateMetadata has it, so one without partitions is enough."""
    receivers = tuple((broker.broker_id, broker.broker_epoch) for broker in state.live_brokers())
    if not receivers:
        return []
    return [SendUpdateMetadata(receivers, state.take_sequence(), cause=cause)]
