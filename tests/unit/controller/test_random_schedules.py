"""Any order of deaths, returns, ISR writes, lost answers and takeovers ends well: who can lead, leads."""

from __future__ import annotations

import random

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.invariants import check
from hightide_controller.core.state.cluster_state import ClusterState, damage_subject
from hightide_controller.core.values.partition import NO_LEADER
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.controller.controller_world import TOPIC_ID, World, broker, topic

BROKERS = (1, 2, 3)
ASSIGNMENT = ((1, 2, 3), (2, 3, 1), (3, 1), (2,))


class Schedule:
    """A world in which a seeded die says what happens next."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lives = dict.fromkeys(BROKERS, 1)
        self.up = set(BROKERS)
        self.epoch = 1
        self.world = World.elected(*BROKERS, topics=(topic(*ASSIGNMENT),))

    def registrations(self) -> tuple[ev.Broker, ...]:
        return tuple(broker(broker_id, self.lives[broker_id]) for broker_id in sorted(self.up))

    def turn(self) -> None:
        happens = self.dice.choice(
            (
                self.kill, self.come_back, self.bounce, self.write_isr, self.damage, self.answer, self.answer,
                self.take_over, self.refuse, self.fall_silent,
            )
        )  # fmt: skip
        happens()
        check(self.world.state)

    def kill(self) -> None:
        if not self.up:
            return
        victim = self.dice.choice(sorted(self.up))
        if self.dice.random() < 0.5:
            self.world.send(ev.BrokerProcessDied(victim, broker(victim, self.lives[victim]).broker_epoch))
        self.up.discard(victim)
        self.world.send(ev.BrokersChanged(self.registrations()))

    def come_back(self) -> None:
        for broker_id in BROKERS:
            if broker_id not in self.up:
                self.lives[broker_id] += 1
                self.up.add(broker_id)
                break
        self.world.send(ev.BrokersChanged(self.registrations()))

    def bounce(self) -> None:
        if self.up:
            self.lives[self.dice.choice(sorted(self.up))] += 1
            self.world.send(ev.BrokersChanged(self.registrations()))

    def refuse(self) -> None:
        """The port of a live broker refuses for a while: it is declared dead, and answers again."""
        if not self.up:
            return
        victim = self.dice.choice(sorted(self.up))
        epoch = broker(victim, self.lives[victim]).broker_epoch
        self.world.send(ev.BrokerProcessDied(victim, epoch))
        for _ in range(self.dice.randrange(4)):
            self.answer()
        self.world.send(ev.BrokerProcessAlive(victim, epoch))

    def fall_silent(self) -> None:
        """A live broker acknowledges nothing, or acknowledges all again."""
        if not self.up:
            return
        victim = self.dice.choice(sorted(self.up))
        epoch = broker(victim, self.lives[victim]).broker_epoch
        if self.dice.random() < 0.4:
            self.world.send(ev.BrokerAnswers(victim, epoch))
            return
        held = sorted(self.world.zookeeper.items())
        leads = tuple((name, each.leader_epoch) for name, each in held if each.leader == victim)
        self.world.send(ev.BrokerSilent(victim, epoch, leads[: self.dice.randrange(len(leads) + 1)]))

    def write_isr(self) -> None:
        """A live leader changes its ISR: itself, and some of the live replicas."""
        name = self.dice.choice(sorted(self.world.zookeeper))
        held = self.world.zookeeper[name]
        if held.leader in self.up:
            others = [b for b in ASSIGNMENT[name.partition] if b in self.up and b != held.leader]
            chosen = [b for b in others if self.dice.random() < 0.7]
            self.world.leader_writes_isr(name, held.leader, *chosen)

    def damage(self) -> None:
        """A live broker tells that one of its replicas is damaged, or whole (again)."""
        if not self.up:
            return
        broker_id = self.dice.choice(sorted(self.up))
        held = [at for at, replicas in enumerate(ASSIGNMENT) if broker_id in replicas]
        if not held:
            return
        number = self.dice.choice(held)
        epoch = broker(broker_id, self.lives[broker_id]).broker_epoch
        if self.dice.random() < 0.6:
            self.world.send(ev.ReplicasDamaged(broker_id, epoch, ((TOPIC_ID, number, 7),)))
        else:
            self.world.send(ev.ReplicasDamaged(broker_id, epoch, (), ((TOPIC_ID, number),)))

    def answer(self) -> None:
        """ZooKeeper answers one of the things that are under way, in any order, or the answer is lost."""
        if not self.world.pending:
            return
        effect = self.world.pending.pop(self.dice.randrange(len(self.world.pending)))
        if isinstance(effect, ef.StoreLeaderAndIsr) and self.dice.random() < 0.3:
            if self.dice.random() < 0.5:
                self.world.try_apply(effect)
            self.world.send(ev.StoreUnknown(effect.store_id))
        else:
            self.world.perform(effect)

    def take_over(self) -> None:
        if self.dice.random() < 0.7:
            return
        self.epoch += 1
        self.world.epoch_version += 1
        self.world.pending.clear()
        self.world.state = ClusterState(controller_id=1)
        self.world.be_elected(*self.registrations(), epoch=self.epoch)

    def heal(self) -> None:
        self.world.settle()
        self.up = set(BROKERS)
        for broker_id in BROKERS:
            self.lives[broker_id] += 1
        self.world.send(ev.BrokersChanged(self.registrations()))
        self.world.settle()


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_after_any_schedule_every_partition_that_can_be_led_is_led(seed: int, turns: int) -> None:
    schedule = Schedule(seed)
    for _ in range(turns):
        schedule.turn()
    schedule.world.settle()
    for name, held in schedule.world.zookeeper.items():
        live_in_sync = [b for b in held.isr if b in schedule.up]
        assert (held.leader in schedule.up) == bool(live_in_sync), (name, held)
        if held.leader != NO_LEADER:
            assert held.leader in held.isr
        assert held.isr, "the last ISR is remembered"


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_when_everybody_is_back_everything_is_led_and_brokers_know_it(seed: int) -> None:
    schedule = Schedule(seed)
    for _ in range(40):
        schedule.turn()
    schedule.heal()
    world = schedule.world
    for name, held in world.zookeeper.items():
        assert held.leader in schedule.up
        told = [d for d in world.decisions_told_to(held.leader) if d.name.partition == name.partition]
        assert told[-1].state.leader_epoch == held.leader_epoch


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_leader_epoch_never_names_two_leaders(seed: int, turns: int) -> None:
    schedule = Schedule(seed)
    for _ in range(turns):
        schedule.turn()
    schedule.world.settle()
    named: dict[tuple[int, int], int] = {}
    for sent in schedule.world.told:
        for decision in sent.decisions:
            key, leader = (decision.name.partition, decision.state.leader_epoch), decision.state.leader
            assert named.setdefault(key, leader) == leader


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_damaged_replica_is_in_the_isr_only_where_no_live_one_is_whole(seed: int, turns: int) -> None:
    schedule = Schedule(seed)
    for _ in range(turns):
        schedule.turn()
    world = schedule.world
    world.send(ev.StatesRead(dict(world.zookeeper)))
    world.settle()
    for name, damaged in world.state.damaged_replicas.items():
        live = set(world.zookeeper[name].isr) & schedule.up
        assert not (live & damaged and live - damaged), (name, world.zookeeper[name], damaged)
    about = {damage_subject(name, each) for name, ids in world.state.damaged_replicas.items() for each in ids}
    assert {subject for subject in world.state.complaints if subject.startswith("replica of")} == about
