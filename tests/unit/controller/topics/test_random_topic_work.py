"""Whatever is asked for, by request or by hand, and whoever dies or does not answer: topics end up right."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from unit.controller.controller_world import World, broker, topic

BROKERS = (1, 2, 3)
NAMES = ("flights", "trains")


@dataclass
class Watches:
    """What the shell has read of ZooKeeper before: each look brings what is new since the last one."""

    admin: ev.AdminZnodes = field(default_factory=ev.AdminZnodes)
    configs: dict[str, Any] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)

    def news(self, world: World) -> list[ev.Event]:
        admin = world.zk.admin()
        parts = ("reassignments", "additions", "removals", "deletions")
        changed: dict[str, Any] = {}
        for part in parts:
            before, now = getattr(self.admin, part), getattr(admin, part)
            changed[part] = {key: now.get(key) for key in {*before, *now} if before.get(key) != now.get(key)}
        configs = {
            name: world.zk.configs.get(name)
            for name in {*self.configs, *world.zk.configs}
            if self.configs.get(name) != world.zk.configs.get(name)
        }
        topics = {name: world.zk.created[name] for name in world.topics}
        # Topics that the controller knows of without having read their names: it created them.
        seen = {**dict.fromkeys(world.state.topics, -1), **self.topics}
        new = [name for name, czxid in topics.items() if seen.get(name) != czxid]
        read = [found for name in new if (found := world.zk.read_topic(name)) is not None]
        gone = tuple(name for name in seen if name not in topics)
        self.admin, self.configs, self.topics = admin, dict(world.zk.configs), topics
        events: list[ev.Event] = []
        if any(changed.values()):
            events.append(ev.AdminChanged(ev.AdminZnodes(**changed)))
        if configs:
            events.append(ev.ConfigsChanged(configs))
        if read or gone:
            events.append(ev.TopicsChanged(tuple(read), gone))
        return events


class Schedule:
    """A world in which a seeded die says what happens next."""

    def __init__(self, seed: int, *, controllers_die: bool) -> None:
        self.dice = random.Random(seed)
        self.lives = dict.fromkeys(BROKERS, 1)
        self.up = set(BROKERS)
        self.world = World.elected(*BROKERS)
        self.watches = Watches()
        self.requests = 0
        self.happenings = [
            *(self.create, self.delete, self.grow, self.shrink, self.alter),
            *(self.add_by_hand, self.remove_by_hand, self.intend, self.take_back, self.configure_by_hand),
            *(self.put_topic, self.take_topic_away, self.write_isr, self.kill, self.come_back),
            *[self.answer] * 15,
            *[self.watch] * 4,
            *([self.take_over] if controllers_die else []),
        ]

    def turn(self) -> None:
        self.dice.choice(self.happenings)()

    def request_id(self) -> int:
        self.requests += 1
        return self.requests

    def topic_id(self) -> str:
        return f"{self.dice.getrandbits(100):032x}"

    def name(self) -> str:
        return self.dice.choice(NAMES)

    def replicas(self) -> tuple[int, ...]:
        return tuple(self.dice.sample((*BROKERS, 9) if self.dice.random() < 0.1 else BROKERS, 2))

    def partition(self) -> TopicPartition:
        return TopicPartition(self.name(), self.dice.randrange(6))

    # ---- requests

    def create(self) -> None:
        event = ev.CreateTopicRequested(self.request_id(), self.name(), self.topic_id(), 3, 1)
        self.world.send(event)

    def delete(self) -> None:
        self.world.send(rq.DeleteTopicRequested(self.request_id(), self.name()))

    def grow(self) -> None:
        self.world.send(rq.AddPartitionsRequested(self.request_id(), self.name(), self.dice.randrange(2, 8)))

    def shrink(self) -> None:
        self.world.send(rq.RemovePartitionsRequested(self.request_id(), self.name(), self.dice.randrange(4)))

    def alter(self) -> None:
        to_set = {"retention.ms": str(self.dice.randrange(3))}
        self.world.send(rq.AlterTopicConfigRequested(self.request_id(), self.name(), to_set))

    # ---- by hand

    def add_by_hand(self) -> None:
        self.world.zk.additions[self.partition()] = ev.StoredAddition(
            self.replicas(), self.dice.getrandbits(40)
        )

    def remove_by_hand(self) -> None:
        self.world.zk.removals[self.partition()] = ev.StoredRemoval(self.dice.getrandbits(40))

    def intend(self) -> None:
        self.world.zk.deletions.setdefault(self.name(), ev.StoredDeletion("", self.dice.getrandbits(40)))

    def take_back(self) -> None:
        """An operator thinks again about everything that it asked for."""
        self.world.zk.additions.clear()
        self.world.zk.removals.clear()
        self.world.zk.deletions.clear()

    def configure_by_hand(self) -> None:
        value = self.dice.choice(("5", "nonsense"))
        self.world.zk.configs[self.name()] = ({"segment.ms": value}, self.dice.getrandbits(40))

    def put_topic(self) -> None:
        name = self.name()
        if name not in self.world.topics:
            assignment = [self.replicas() for _ in range(self.dice.randrange(1, 4))]
            self.world.zk.put(replace(topic(*assignment, name=name), topic_id=""))

    def take_topic_away(self) -> None:
        name = self.name()
        if name in self.world.topics and self.dice.random() < 0.4:
            self.world.zk.remove_by_hand(name)

    def write_isr(self) -> None:
        """A live leader changes its ISR, under the marker of its topic."""
        if not self.world.zookeeper:
            return
        name = self.dice.choice(sorted(self.world.zookeeper))
        held = self.world.zookeeper[name]
        assignment = self.world.topics[name.topic].assignment
        if held.leader in self.up and name.partition < len(assignment):
            others = [b for b in assignment[name.partition] if b in self.up and b != held.leader]
            chosen = [b for b in others if self.dice.random() < 0.7]
            self.world.leader_writes_isr(name, held.leader, *chosen)

    # ---- deaths

    def registrations(self) -> tuple[ev.Broker, ...]:
        return tuple(broker(broker_id, self.lives[broker_id]) for broker_id in sorted(self.up))

    def kill(self) -> None:
        if self.up and self.dice.random() < 0.5:
            self.up.discard(self.dice.choice(sorted(self.up)))
            self.world.send(ev.BrokersChanged(self.registrations()))

    def come_back(self) -> None:
        for broker_id in BROKERS:
            if broker_id not in self.up:
                self.lives[broker_id] += 1
                self.up.add(broker_id)
                break
        self.world.send(ev.BrokersChanged(self.registrations()))

    def take_over(self) -> None:
        if self.dice.random() < 0.5:
            if self.world.pending and self.dice.random() < 0.5:
                self.apply(self.world.pending[0])
            self.world.take_over()
            self.watches = Watches()

    # ---- ZooKeeper answers

    def apply(self, effect: ef.Effect) -> bool:
        return isinstance(effect, ef.StoreWrites | ef.StoreLeaderAndIsr) and self.world.try_apply(effect)

    def answer(self) -> None:
        if not self.world.pending:
            return
        effect = self.world.pending.pop(self.dice.randrange(len(self.world.pending)))
        if isinstance(effect, ef.StoreWrites | ef.StoreLeaderAndIsr) and self.dice.random() < 0.2:
            if self.dice.random() < 0.5:
                self.apply(effect)
            self.world.send(ev.StoreUnknown(effect.store_id))
        else:
            self.world.perform(effect)

    def watch(self) -> None:
        for event in self.watches.news(self.world):
            self.world.send(event)

    def rest(self) -> None:
        """Nobody does anything any more, until there is nothing to be done."""
        for _ in range(4):
            for _ in range(200):
                self.watch()
                if not self.world.pending:
                    break
                self.world.perform(self.world.pending.pop(0))
            assert not self.world.pending, "the controller does not come to rest"
            self.world.send(ev.Ticked())
        self.world.settle()


def settled(seed: int, turns: int, *, controllers_die: bool) -> Schedule:
    schedule = Schedule(seed, controllers_die=controllers_die)
    for _ in range(turns):
        schedule.turn()
    schedule.rest()
    return schedule


def check_agreement(world: World) -> None:
    """The controller knows what ZooKeeper holds, and nothing that should be done is left."""
    state = world.state
    assert isinstance(state, ClusterState)
    assert set(state.topics) == set(world.topics)
    for topic_name in world.topics:
        read = world.zk.read_topic(topic_name)
        assert read is not None
        assert not read.is_bare
        assert read.has_marker
        known = state.topics[topic_name]
        assert (known.topic_id, known.assignment) == (read.topic_id, read.assignment)
        assert (known.version, known.config_version) == (read.version, read.config_version)
        assert known.first_leader_epochs == read.first_leader_epochs
    ids = {held.topic_id for held in world.topics.values()}
    assert ids <= set(world.zk.markers)
    # An operator that takes a topic away the moment it is created may leave its marker to the next takeover.
    assert ids == set(world.zk.markers) or world.zk.taken_away
    for name, held in world.zookeeper.items():
        if name not in state.partitions:
            # What was being created below a topic when an operator put another, smaller one in its place.
            assert world.zk.taken_away, name
            continue
        found = state.partitions[name].leader_and_isr
        assert found is not None
        assert (found.leader, found.leader_epoch) == (held.leader, held.leader_epoch), (
            "leaders write the rest"
        )
    for topic_name, intent in world.zk.deletions.items():
        if topic_name in world.topics:
            assert intent.topic_id not in ("", world.topics[topic_name].topic_id)
        assert f"/admin/delete_topics/{topic_name}" in state.complaints
    for name in world.zk.additions:
        assert f"/admin/partitions_add/{name.topic}/{name.partition}" in state.complaints
    for name in world.zk.removals:
        assert f"/admin/partitions_remove/{name.topic}/{name.partition}" in state.complaints
    assert not [waiter for waiter in state.waiters.values() if waiter.is_unwritten]


def check_led(schedule: Schedule) -> None:
    for name, partition in schedule.world.state.partitions.items():
        held = schedule.world.zookeeper.get(name)
        if held is None:
            assert not set(partition.replicas) & schedule.up
        else:
            # An operator that puts another topic where one was may leave an ISR of strangers: nobody leads
            # then.
            in_sync = set(held.isr) & set(partition.replicas)
            assert (held.leader in schedule.up) == bool(in_sync & schedule.up), (name, held)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_after_any_schedule_the_controller_and_zookeeper_agree(seed: int, turns: int) -> None:
    schedule = settled(seed, turns, controllers_die=True)
    check_agreement(schedule.world)
    check_led(schedule)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_brokers_that_never_died_hold_just_what_is_assigned_to_them(seed: int, turns: int) -> None:
    schedule = settled(seed, turns, controllers_die=False)
    world = schedule.world
    for broker_id in schedule.up:
        epoch = broker(broker_id, schedule.lives[broker_id]).broker_epoch
        sends: list[ef.SendLeaderAndIsr | ef.SendStopReplica] = [*world.told]
        sends += world.stops
        holds: dict[tuple[str, int], ef.Decision] = {}
        for sent in sorted(sends, key=lambda each: each.sequence):
            if (sent.broker_id, sent.broker_epoch) != (broker_id, epoch):
                continue
            if isinstance(sent, ef.SendLeaderAndIsr):
                holds.update({(d.topic_id, d.name.partition): d for d in sent.decisions})
            else:
                for stop in sent.stops:
                    holds.pop((stop.topic_id, stop.partition), None)
        assigned = {
            (held.topic_id, number)
            for held in world.topics.values()
            for number, replicas in enumerate(held.assignment)
            if broker_id in replicas and TopicPartition(held.name, number) in world.zookeeper
        }
        assert set(holds) == assigned
        for (topic_id, number), decision in holds.items():
            held_state = world.zookeeper[TopicPartition(world.zk.markers[topic_id], number)]
            assert decision.state.leader_epoch == held_state.leader_epoch


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_a_leader_epoch_of_a_partition_of_a_topic_never_names_two_leaders(seed: int, turns: int) -> None:
    schedule = settled(seed, turns, controllers_die=True)
    named: dict[tuple[str, int, int], int] = {}
    for sent in schedule.world.told:
        for decision in sent.decisions:
            decided = decision.state
            key = (decision.topic_id, decision.name.partition, decided.leader_epoch)
            assert named.setdefault(key, decided.leader) == decided.leader
