"""A simulated controller: the shell around one real controller core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hightide_broker.core.refusals import Refusal
from hightide_controller.core import effects as fx
from hightide_controller.core import events as ev
from hightide_controller.core import invariants
from hightide_controller.core.brokers.outbox import BrokerDelivery, Outbox
from hightide_controller.core.machine import step
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_runtime.topics.topic_configs import MIN_INSYNC_REPLICAS
from hightide_runtime.znodes.recovered_log import RecoveredLog
from sim.messages import (
    ZOOKEEPER,
    Body,
    CallFailed,
    Command,
    CommandAnswer,
    Envelope,
    Look,
    Noticed,
    ProcessDied,
    SessionEnded,
    View,
    Write,
    WriteAnswer,
)
from sim.zookeeper import CONTROLLER, CONTROLLER_EPOCH, STATE, Check, Create, Delete, Operation, Put, Stored

NAME = TopicPartition("tide", 0)


class Surroundings(Protocol):
    """What a controller may do to the rest of the world."""

    def call(self, source: int, target: int, body: Body, then: Callable[[Body], None]) -> int: ...

    def open_session(self) -> int: ...


class SimController:
    """One controller process; two of them stand by for each other."""

    def __init__(
        self,
        world: Surroundings,
        controller_id: int,
        replicas: tuple[int, ...],
        min_insync_replicas: int,
    ) -> None:
        self.world = world
        self.controller_id = controller_id
        configs = {MIN_INSYNC_REPLICAS: str(min_insync_replicas)}
        self.topic = ev.Topic("tide", "0" * 32, (replicas,), configs)
        self.alive = False
        self.paused = False

    def start(self) -> None:
        """A new process: nothing survives but ZooKeeper."""
        assert not self.alive
        self.alive = True
        self.state = ClusterState(self.controller_id)
        self.outboxes: dict[int, Outbox] = {}
        self.busy: set[int] = set()
        self.retries: list[Callable[[], None]] = []
        self.session = self.world.open_session()
        self._look_at_controller()

    def crash(self) -> None:
        """The process dies."""
        self.alive = False
        self.paused = False

    @property
    def is_active(self) -> bool:
        """Whether this process believes to be the active controller."""
        return self.alive and self.state.role is Role.ACTIVE

    def feed(self, event: ev.Event) -> None:
        """One step of the core, its effects performed in order."""
        self.state, effects = step(self.state, event)
        invariants.check(self.state)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Campaign(stale):
                self._look(lambda view: self._campaign(view, stale))
            case fx.StoreLeaderAndIsr():
                self._store(effect)
            case fx.ReadStates():
                self._read_states(effect.cause)
            case fx.SendLeaderAndIsr(broker_id, broker_epoch, _, _, _):
                self._outbox(broker_id).put(effect)
                self._send(broker_id, broker_epoch)
            case fx.Resign():
                self.outboxes.clear()
                self._look_at_controller()
            case _:
                pass  # Metadata and answers to clients: nobody here listens.

    # --- ZooKeeper -------------------------------------------------------------------------------

    def _look(self, then: Callable[[View], None], watch: tuple[str, ...] = ()) -> None:
        def looked(body: Body) -> None:
            if isinstance(body, View):
                then(body)
            else:
                self.retries.append(lambda: self._look(then, watch))

        self.world.call(self.controller_id, ZOOKEEPER, Look(watch), looked)

    def _look_at_controller(self) -> None:
        self._look(self._controller_seen, (CONTROLLER,))

    def _controller_seen(self, view: View) -> None:
        if view.controller is None:
            self.feed(ev.ControllerSeen(None))
        else:
            self.feed(ev.ControllerSeen(*view.controller))
        if self.state.role is Role.STANDBY and view.controller_session == self.session:
            # Won an election whose answer was lost, and then stood back: make room for the next one.
            self._abdicate()

    def _abdicate(self) -> None:
        def deleted(body: Body) -> None:
            if isinstance(body, CallFailed):
                self.retries.append(self._look_at_controller)

        self.world.call(self.controller_id, ZOOKEEPER, Write((Delete(CONTROLLER),)), deleted)

    def _campaign(self, view: View, stale_controller_epoch: int | None) -> None:
        """Election and epoch in one multi (docs/protocol.md, "Controller writes are fenced")."""
        if view.controller is not None and stale_controller_epoch is None:
            self._lost()
            return
        epoch = view.controller_epoch + 1
        operations: tuple[Operation, ...] = (
            Put(CONTROLLER_EPOCH, epoch, view.controller_epoch_version),
            Create(CONTROLLER, (self.controller_id, epoch), self.session),
        )
        if view.controller is not None:
            operations = (Delete(CONTROLLER), *operations)

        def elected(body: Body) -> None:
            if isinstance(body, WriteAnswer) and body.refused is None:
                self._look(lambda seen: self._take_over(seen, epoch), ("/brokers/ids", CONTROLLER))
            else:
                self._lost()

        self.world.call(self.controller_id, ZOOKEEPER, Write(operations), elected)

    def _lost(self) -> None:
        self.feed(ev.CampaignLost())
        self._look_at_controller()

    def _take_over(self, view: View, epoch: int) -> None:
        if view.controller != (self.controller_id, epoch):
            self._lost()
            return
        states = {NAME: leader_and_isr(view.state)} if view.state is not None else {}
        snapshot = ev.ClusterSnapshot(tuple(ev.Broker(*b) for b in view.brokers), (self.topic,), states)
        self.feed(ev.Elected(epoch, view.controller_epoch_version, snapshot))

    def _store(self, effect: fx.StoreLeaderAndIsr) -> None:
        operations: list[Operation] = [Check(CONTROLLER_EPOCH, effect.controller_epoch_version)]
        for change in effect.changes:
            decided = change.decided
            data = Stored(
                decided.leader,
                decided.leader_epoch,
                decided.isr,
                decided.controller_epoch,
                decided.eligible,
                decided.recovered,
                decided.unclean_epoch,
            )
            if change.expected_partition_epoch is None:
                operations.append(Create(STATE, data))
            else:
                operations.append(Put(STATE, data, change.expected_partition_epoch))

        def stored(body: Body) -> None:
            if isinstance(body, CallFailed):
                self.feed(ev.StoreUnknown(effect.store_id))
                return
            assert isinstance(body, WriteAnswer)
            if body.refused is None:
                self.feed(ev.StoreCommitted(effect.store_id))
            elif isinstance(body.refused, Check):
                self.feed(ev.Fenced())
            else:
                self.feed(ev.StoreRefused(effect.store_id))

        self.world.call(self.controller_id, ZOOKEEPER, Write(tuple(operations)), stored)

    def _read_states(self, cause: str) -> None:
        def read(view: View) -> None:
            found = None if view.state is None else leader_and_isr(view.state)
            self.feed(ev.StatesRead({NAME: found}, cause))

        self._look(read)

    def _brokers_seen(self, view: View) -> None:
        self.feed(ev.BrokersChanged(tuple(ev.Broker(*b) for b in view.brokers)))

    # --- brokers ---------------------------------------------------------------------------------

    def _outbox(self, broker_id: int) -> Outbox:
        return self.outboxes.setdefault(broker_id, Outbox())

    def _send(self, broker_id: int, broker_epoch: int) -> None:
        """At most one command to a broker is under way; what it carried is put back where it failed."""
        outbox = self._outbox(broker_id)
        if broker_id in self.busy or not outbox.decisions:
            return
        delivery = outbox.take()
        command = Command(
            self.state.controller_epoch,
            broker_epoch,
            tuple(delivery.decisions.values()),
            delivery.sequence,
        )
        self.busy.add(broker_id)

        def obeyed(body: Body) -> None:
            self.busy.discard(broker_id)
            self._obeyed(broker_id, broker_epoch, outbox, delivery, body)

        self.world.call(self.controller_id, broker_id, command, obeyed)

    def _obeyed(
        self, broker_id: int, broker_epoch: int, outbox: Outbox, delivery: BrokerDelivery, body: Body
    ) -> None:
        if self.outboxes.get(broker_id) is not outbox:
            self._send_on(broker_id)  # Resigned meanwhile, and perhaps elected again.
            return
        if isinstance(body, CommandAnswer):
            if body.refusal is Refusal.STALE_CONTROLLER_EPOCH:
                self.feed(ev.Fenced())
                return
            for decision in delivery.decisions.values():
                decided = decision.state
                if body.refusal is Refusal.FENCED_LEADER_EPOCH and decided.leader == broker_id:
                    self.feed(ev.LeadershipDeclined(NAME, broker_id, broker_epoch, decided.leader_epoch))
            self.feed(ev.BrokerAcknowledged(broker_id, broker_epoch, delivery.sequence))
            self._send_on(broker_id)
            return
        outbox.put_back(delivery)
        self.retries.append(lambda: self._send_on(broker_id))

    def _send_on(self, broker_id: int) -> None:
        known = self.state.brokers.get(broker_id)
        if known is not None and self.state.is_live(broker_id):
            self._send(broker_id, known.broker_epoch)
        elif broker_id in self.outboxes:
            del self.outboxes[broker_id]  # That life is over; the next one is told everything.

    # --- what comes in ---------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A watch, a notice of ZooKeeper or of the failure detector."""
        match envelope.body:
            case Noticed("/brokers/ids"):
                if self.state.role is Role.ACTIVE:
                    self._look(self._brokers_seen, ("/brokers/ids",))
            case Noticed():
                self._look_at_controller()
            case SessionEnded(session) if session == self.session:
                self.session = self.world.open_session()
                self.feed(ev.SessionLost())
                self._look_at_controller()
            case SessionEnded():
                pass
            case ProcessDied(broker_id, broker_epoch):
                self.feed(ev.BrokerProcessDied(broker_id, broker_epoch))
            case _:
                raise AssertionError(envelope)

    def tick(self) -> None:
        """Time passed: refresh, and try again what failed."""
        retries, self.retries = self.retries, []
        for retry in retries:
            retry()
        self.feed(ev.Ticked())


def leader_and_isr(state: tuple[Stored, int, int] | None) -> LeaderAndIsr:
    """The controller's words for what the znode holds."""
    assert state is not None
    stored, version, _ = state
    return LeaderAndIsr(
        stored.leader,
        stored.leader_epoch,
        stored.isr,
        stored.controller_epoch,
        version,
        stored.eligible,
        tuple(RecoveredLog(*each) for each in stored.recovered),
        stored.unclean_epoch,
    )
