"""A controller core with a ZooKeeper of dictionaries: every step checks the invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.invariants import check
from hightide_controller.core.machine import step
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.multi_limits import BYTES_MAX, OPERATIONS_MAX, cost_of
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from msgspec.structs import replace
from unit.controller.zookeeper_of_dictionaries import ZooKeeper

TOPIC_ID = "0" * 31 + "1"
FLIGHTS = TopicPartition("flights", 0)
ANY_VERSION = -1
"""ZooKeeper takes it for whatever version a znode has."""


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
    writes: list[ef.StoreWrites] = field(default_factory=list)
    stops: list[ef.SendStopReplica] = field(default_factory=list)
    told: list[ef.SendLeaderAndIsr] = field(default_factory=list)
    metadata: list[ef.SendUpdateMetadata] = field(default_factory=list)
    stores: list[ef.StoreLeaderAndIsr] = field(default_factory=list)
    answers: list[ef.Effect] = field(default_factory=list)
    last_sequence: int = 0
    others: list[ef.Effect] = field(default_factory=list)
    zk: ZooKeeper = field(init=False)
    lives: dict[int, int] = field(default_factory=dict)
    take: Callable[[ClusterState, ev.Event], tuple[ClusterState, tuple[ef.Effect, ...]]] = step
    """How the core takes an event; with traces, `ControllerTraces.record`."""

    def __post_init__(self) -> None:
        self.zk = ZooKeeper(self.zookeeper, self.topics)

    @classmethod
    def elected(
        cls,
        *brokers: int,
        topics: tuple[ev.Topic, ...] = (),
        states: dict[TopicPartition, LeaderAndIsr] | None = None,
    ) -> World:
        """An active controller over these brokers, after everything it began with has been done."""
        world = cls(ClusterState(controller_id=1), dict(states or {}))
        for each in topics:
            world.zk.put(each)
        world.be_elected(*(broker(broker_id) for broker_id in brokers))
        world.settle()
        return world

    def be_elected(self, *brokers: ev.Broker, epoch: int = 1) -> None:
        self.send(ev.ControllerSeen(None))
        self.send(ev.Elected(epoch, self.epoch_version, self.zk.snapshot(*brokers)))

    def take_over(self) -> None:
        """The controller dies, with all that it had not done, and another one is elected."""
        self.take_over_from(*self.state.live_brokers())

    def take_over_from(self, *live: ev.Broker) -> None:
        """Another one is elected, over these brokers."""
        epoch = self.state.controller_epoch + 1
        self.epoch_version += 1
        self.pending.clear()
        self.state = ClusterState(controller_id=1)
        self.last_sequence = 0
        self.be_elected(*live, epoch=epoch)

    def send(self, event: ev.Event) -> None:
        """One event in; its effects wait until `settle`."""
        self.state, effects = self.take(self.state, event)
        check(self.state)
        for effect in effects:
            match effect:
                case ef.StoreLeaderAndIsr():
                    self._check_limits(effect)
                    self.stores.append(effect)
                    self.pending.append(effect)
                case ef.StoreWrites():
                    self._check_topic_limits(effect)
                    self.writes.append(effect)
                    self.pending.append(effect)
                case ef.SendStopReplica():
                    self._check_sequence(effect.sequence)
                    self._check_stopped(effect)
                    self.stops.append(effect)
                case ef.ReadStates() | ef.ReadTopics() | ef.StoreTopic():
                    self.pending.append(effect)
                case ef.SendLeaderAndIsr():
                    self._check_sequence(effect.sequence)
                    self._check_told(effect)
                    self.told.append(effect)
                case ef.SendUpdateMetadata():
                    self._check_sequence(effect.sequence)
                    self.metadata.append(effect)
                case (
                    ef.AnswerCreateTopic()
                    | ef.AnswerControlledShutdown()
                    | ef.AnswerTopic()
                    | ef.AnswerPartitions()
                    | ef.AnswerElections()
                    | ef.AnswerDone()
                    | ef.RefuseRequest()
                ):
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
            case ef.StoreLeaderAndIsr() | ef.StoreWrites():
                if effect.controller_epoch_version not in (ANY_VERSION, self.epoch_version):
                    self.send(ev.Fenced())
                elif self.try_apply(effect):
                    self.send(ev.StoreCommitted(effect.store_id))
                else:
                    self.send(ev.StoreRefused(effect.store_id))
            case ef.ReadTopics():
                self.send(self.zk.read(effect.names, effect.cause))
            case ef.ReadStates():
                self.send(ev.StatesRead({name: self.zookeeper.get(name) for name in effect.names}))
            case ef.StoreTopic():
                if effect.topic.name in self.topics:
                    self.send(ev.TopicStoreRefused(effect.request_id, exists=True))
                else:
                    self.zk.configs.pop(effect.topic.name, None)
                    self.zk.put(effect.topic)
                    self.send(ev.TopicStored(effect.request_id))
            case _:
                raise AssertionError(effect)

    def try_apply(self, effect: ef.StoreLeaderAndIsr | ef.StoreWrites) -> bool:
        """What ZooKeeper does with a multi: all of it, or nothing."""
        return self.zk.multi(effect.writes if isinstance(effect, ef.StoreWrites) else effect.changes)

    def apply_without_answer(self, effect: ef.Effect) -> None:
        """ZooKeeper commits a multi, but the connection breaks before it says so."""
        assert isinstance(effect, ef.StoreLeaderAndIsr | ef.StoreWrites)
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

    def stops_told_to(self, broker_id: int) -> list[ef.ReplicaStop]:
        return [stop for sent in self.stops if sent.broker_id == broker_id for stop in sent.stops]

    def put_topic(self, by_hand: ev.Topic) -> None:
        """An operator creates a topic znode, and the watch tells."""
        self.zk.put(by_hand)
        found = self.zk.read_topic(by_hand.name)
        assert found is not None
        self.send(ev.TopicsChanged(added=(found,)))

    def write_admin(self, admin: ev.AdminZnodes, cause: str = "") -> None:
        """An operator creates or deletes znodes below /admin, and the watch tells."""
        for held, written in (
            (self.zk.moves, admin.reassignments),
            (self.zk.additions, admin.additions),
            (self.zk.removals, admin.removals),
            (self.zk.deletions, admin.deletions),
        ):
            _write_all(held, written)
        self.send(ev.AdminChanged(admin, cause))

    def refusal(self) -> ef.RefuseRequest:
        """The only answer so far."""
        (answer,) = self.answers
        assert isinstance(answer, ef.RefuseRequest)
        return answer

    def _check_topic_limits(self, effect: ef.StoreWrites) -> None:
        costs = [cost_of(write) for write in effect.writes]
        assert effect.writes
        assert 1 + sum(operations for operations, _ in costs) <= OPERATIONS_MAX
        assert sum(size_bytes for _, size_bytes in costs) <= BYTES_MAX + 100_000

    def _check_stopped(self, effect: ef.SendStopReplica) -> None:
        """A broker never stops a replica that ZooKeeper assigns to it."""
        assert self.state.is_live(effect.broker_id)
        for stop in effect.stops:
            held = self.topics.get(stop.topic)
            if held is not None and held.topic_id == stop.topic_id and stop.partition < len(held.assignment):
                assert effect.broker_id not in held.assignment[stop.partition]

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
            name, decided = decision.name, decision.state
            if decision.topic_id in self.zk.taken_away or name in self.state.storing | self.state.rereading:
                continue
            held = self.zookeeper[name]
            assert self.topics[name.topic].topic_id == decision.topic_id
            assert decided.partition_epoch <= held.partition_epoch
            assert decided.leader_epoch <= held.leader_epoch


def _write_all(held: dict[Any, Any], written: Mapping[Any, Any]) -> None:
    for key, znode in written.items():
        if znode is None:
            del held[key]
        else:
            held[key] = znode


def crashes(begin: Callable[[], World]) -> Iterator[World]:
    """The worlds in which the controller dies after each thing that ZooKeeper does, answered or not.

    `begin` makes a world in which something has just been asked for. Each world is handed out when the next
    controller has done whatever it does.
    """
    for world in _after_each_step(begin):
        for commits_unheard in (False, True):
            interrupted = world()
            if commits_unheard and isinstance(interrupted.pending[0], ef.StoreWrites | ef.StoreLeaderAndIsr):
                interrupted.try_apply(interrupted.pending[0])
            interrupted.take_over()
            interrupted.settle()
            yield interrupted


def lost_answers(begin: Callable[[], World]) -> Iterator[World]:
    """The worlds in which the outcome of one multi is unknown, whether it has happened or not."""
    for world in _after_each_step(begin):
        for commits in (False, True):
            interrupted = world()
            effect = interrupted.pending[0]
            if isinstance(effect, ef.StoreWrites | ef.StoreLeaderAndIsr):
                interrupted.pending.pop(0)
                if commits:
                    interrupted.try_apply(effect)
                interrupted.send(ev.StoreUnknown(effect.store_id))
                interrupted.settle()
                yield interrupted


def _after_each_step(begin: Callable[[], World]) -> Iterator[Callable[[], World]]:
    steps = 0
    while True:
        world = begin()
        for _ in range(steps):
            if world.pending:
                world.perform(world.pending.pop(0))
        if not world.pending:
            assert steps > 0, "nothing was asked for"
            return

        def again(steps: int = steps) -> World:
            world = begin()
            for _ in range(steps):
                world.perform(world.pending.pop(0))
            return world

        yield again
        steps += 1
