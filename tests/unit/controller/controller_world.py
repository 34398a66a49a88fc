"""A controller core with a ZooKeeper of dictionaries: every step checks the invariants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.cluster_state import ClusterState
from hightide_controller.core.invariants import check
from hightide_controller.core.machine import step
from hightide_controller.core.mends import ALL_MENDS, Mends
from hightide_controller.core.partition import LeaderAndIsr, TopicPartition
from hightide_controller.core.stores import BYTES_MAX, OPERATIONS_MAX

TOPIC_ID = "0" * 31 + "1"
FLIGHTS = TopicPartition("flights", 0)


def broker(broker_id: int, life: int = 1) -> ev.Broker:
    """Broker `broker_id` in its n-th life."""
    return ev.Broker(broker_id, broker_epoch=100 * life + broker_id)


def topic(*assignment: tuple[int, ...], name: str = "flights", **configs: str) -> ev.Topic:
    return ev.Topic(name, TOPIC_ID, assignment, {key.replace("_", "."): v for key, v in configs.items()})


def led(leader: int, *isr: int, epoch: int = 0, version: int = 0) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, isr, controller_epoch=1, partition_epoch=version)


@dataclass
class World:
    """The core under test, what ZooKeeper holds, and what brokers were told."""

    state: ClusterState = field(default_factory=lambda: ClusterState(controller_id=1))
    zookeeper: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    topics: dict[str, ev.Topic] = field(default_factory=dict)
    epoch_version: int = 7
    pending: list[ef.Effect] = field(default_factory=list)
    told: list[ef.SendLeaderAndIsr] = field(default_factory=list)
    metadata: list[ef.SendUpdateMetadata] = field(default_factory=list)
    stores: list[ef.StoreLeaderAndIsr] = field(default_factory=list)
    answers: list[ef.Effect] = field(default_factory=list)
    last_sequence: int = 0
    others: list[ef.Effect] = field(default_factory=list)

    @classmethod
    def elected(
        cls,
        *brokers: int,
        topics: tuple[ev.Topic, ...] = (),
        states: dict[TopicPartition, LeaderAndIsr] | None = None,
        mends: Mends = ALL_MENDS,
    ) -> World:
        """An active controller over these brokers, after everything it began with has been done."""
        world = cls(ClusterState(controller_id=1, mends=mends), dict(states or {}))
        world.topics = {each.name: each for each in topics}
        world.be_elected(*(broker(broker_id) for broker_id in brokers))
        world.settle()
        return world

    def be_elected(self, *brokers: ev.Broker, epoch: int = 1) -> None:
        self.send(ev.ControllerSeen(None))
        snapshot = ev.Snapshot(brokers, tuple(self.topics.values()), dict(self.zookeeper))
        self.send(ev.Elected(epoch, self.epoch_version, snapshot))

    def send(self, event: ev.Event) -> None:
        """One event in; its effects wait until `settle`."""
        self.state, effects = step(self.state, event)
        check(self.state)
        for effect in effects:
            match effect:
                case ef.StoreLeaderAndIsr():
                    self._check_limits(effect)
                    self.stores.append(effect)
                    self.pending.append(effect)
                case ef.ReadStates() | ef.StoreTopic():
                    self.pending.append(effect)
                case ef.SendLeaderAndIsr():
                    self._check_sequence(effect.sequence)
                    self._check_told(effect)
                    self.told.append(effect)
                case ef.SendUpdateMetadata():
                    self._check_sequence(effect.sequence)
                    self.metadata.append(effect)
                case ef.AnswerCreateTopic() | ef.AnswerControlledShutdown() | ef.RefuseRequest():
                    self.answers.append(effect)
                case _:
                    self.others.append(effect)

    def settle(self, rounds_max: int = 50) -> None:
        """Let ZooKeeper answer everything, and what follows from the answers."""
        for _ in range(rounds_max):
            if not self.pending:
                return
            self.perform(self.pending.pop(0))
        raise AssertionError("the controller does not come to rest")

    def perform(self, effect: ef.Effect) -> None:
        """ZooKeeper does one thing and answers."""
        match effect:
            case ef.StoreLeaderAndIsr():
                if effect.controller_epoch_version not in (None, self.epoch_version):
                    self.send(ev.Fenced())
                elif self.try_apply(effect):
                    self.send(ev.StoreCommitted(effect.store_id))
                else:
                    self.send(ev.StoreRefused(effect.store_id))
            case ef.ReadStates():
                self.send(ev.StatesRead({name: self.zookeeper.get(name) for name in effect.names}))
            case ef.StoreTopic():
                if effect.topic.name in self.topics:
                    self.send(ev.TopicStoreRefused(effect.request_id, exists=True))
                else:
                    self.topics[effect.topic.name] = effect.topic
                    self.send(ev.TopicStored(effect.request_id))
            case _:
                raise AssertionError(effect)

    def try_apply(self, effect: ef.StoreLeaderAndIsr) -> bool:
        """What ZooKeeper does with a multi: all of it, or nothing."""
        for change in effect.changes:
            held = self.zookeeper.get(change.name)
            if (None if held is None else held.partition_epoch) != change.expected_partition_epoch:
                return False
        for change in effect.changes:
            self.zookeeper[change.name] = change.decided
        return True

    def apply_without_answer(self, effect: ef.Effect) -> None:
        """ZooKeeper commits a multi, but the connection breaks before it says so."""
        assert isinstance(effect, ef.StoreLeaderAndIsr)
        assert self.try_apply(effect)
        self.send(ev.StoreUnknown(effect.store_id))

    def leader_writes_isr(self, name: TopicPartition, *isr: int) -> None:
        """A leader changes the ISR straight in ZooKeeper; the controller hears nothing of it."""
        held = self.zookeeper[name]
        self.zookeeper[name] = replace(held, isr=isr, partition_epoch=held.partition_epoch + 1)

    def registered(self, *brokers: ev.Broker) -> None:
        self.send(ev.BrokersChanged(brokers))

    def acknowledge_all(self) -> None:
        """Every live broker has everything that was sent so far."""
        for each in self.state.live_brokers():
            sequence = self.state.next_sequence - 1
            self.send(ev.BrokerAcknowledged(each.broker_id, each.broker_epoch, sequence))

    def decisions_told_to(self, broker_id: int) -> list[ef.Decision]:
        return [d for sent in self.told if sent.broker_id == broker_id for d in sent.decisions]

    def _check_limits(self, effect: ef.StoreLeaderAndIsr) -> None:
        operations = 1 + sum(1 if c.expected_partition_epoch is not None else 2 for c in effect.changes)
        assert effect.changes
        assert operations <= OPERATIONS_MAX
        assert sum(len(c.name.topic) + 200 for c in effect.changes) <= BYTES_MAX
        for change in effect.changes:
            if change.expected_partition_epoch is not None:
                assert change.decided.partition_epoch == change.expected_partition_epoch + 1

    def _check_sequence(self, sequence: int) -> None:
        assert sequence > self.last_sequence or sequence == 1, "send effects come in order"
        self.last_sequence = sequence

    def _check_told(self, effect: ef.SendLeaderAndIsr) -> None:
        """A broker never hears of what is not in ZooKeeper, or was not since the controller's last look."""
        assert self.state.is_live(effect.broker_id)
        for decision in effect.decisions:
            held = self.zookeeper[TopicPartition(decision.topic, decision.partition)]
            assert decision.partition_epoch <= held.partition_epoch
            assert decision.leader_epoch <= held.leader_epoch
