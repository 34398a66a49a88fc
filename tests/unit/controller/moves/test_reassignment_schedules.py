"""Any order of moves, cancels, deaths, returns, ISR writes, lost answers and takeovers ends well."""

from __future__ import annotations

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.controller.controller_world import World, broker, topic
from unit.controller.moving_world import by_hand, hear, let_all_catch_up, replicas
from unit.controller.test_random_schedules import Schedule

BROKERS = (1, 2, 3, 4)
ASSIGNMENT = ((1, 2, 3), (2, 3), (4,))


class Moves(Schedule):
    """A die that also moves partitions."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lives = dict.fromkeys(BROKERS, 1)
        self.up = set(BROKERS)
        self.world = World.elected(*BROKERS, topics=(topic(*ASSIGNMENT),))
        self.request_id = 0

    def turn(self) -> None:
        also = (self.move, self.move, self.move_by_hand, self.cancel, self.elect, self.fail, self.catch_up)
        if self.dice.random() < 0.5:
            self.dice.choice(also)()
        else:
            super().turn()
        for name, held in self.world.zookeeper.items():
            assert set(held.isr) <= set(replicas(self.world, name)), "AR holds the ISR"
            assert held.isr

    def any_name(self) -> TopicPartition:
        return TopicPartition("flights", self.dice.randrange(len(ASSIGNMENT)))

    def any_target(self) -> tuple[int, ...]:
        return tuple(self.dice.sample(BROKERS, self.dice.randint(1, 3)))

    def take_request_id(self) -> int:
        self.request_id += 1
        return self.request_id

    def move(self) -> None:
        moves = (rq.Move(self.any_name(), self.any_target()),)
        throttle = self.dice.choice((None, None, 5))
        self.world.send(rq.ReassignmentsRequested(self.take_request_id(), moves, throttle))
        self.world.acknowledge_all()

    def move_by_hand(self) -> None:
        name = self.any_name()
        held = self.world.zk.moves.get(name)
        if held is not None and self.dice.random() < 0.5:
            self.world.write_admin(ev.AdminZnodes(reassignments={name: None}))
        else:
            version = 0 if held is None else held.version + 1
            self.world.write_admin(by_hand(*self.any_target(), name=name, version=version))

    def cancel(self) -> None:
        names = self.dice.choice(((), (self.any_name(),)))
        self.world.send(rq.CancelReassignmentsRequested(self.take_request_id(), names))

    def elect(self) -> None:
        kind = self.dice.choice((rq.ElectionKind.PREFERRED, rq.ElectionKind.UNCLEAN))
        self.world.send(rq.ElectLeadersRequested(self.take_request_id(), kind, (self.any_name(),)))
        if self.dice.random() < 0.2:
            self.world.send(ev.BalanceDue())

    def fail(self) -> None:
        if self.up and self.dice.random() < 0.3:
            broken = broker(self.dice.choice(sorted(self.up)))
            registered = self.world.state.brokers.get(broken.broker_id)
            if registered is not None:
                replica = (self.world.topics["flights"].topic_id, self.any_name().partition)
                epoch = registered.broker_epoch
                self.world.send(ev.ReplicasFailed(broken.broker_id, epoch, (replica,)))

    def catch_up(self) -> None:
        name = self.any_name()
        held = self.world.zookeeper[name]
        if held.leader in self.up:
            isr = [b for b in replicas(self.world, name) if b in self.up and self.dice.random() < 0.9]
            self.world.leader_writes_isr(name, *dict.fromkeys((held.leader, *isr)))
            if self.dice.random() < 0.8:
                hear(self.world, name)

    def write_isr(self) -> None:
        name = self.dice.choice(sorted(self.world.zookeeper))
        held = self.world.zookeeper[name]
        if held.leader in self.up:
            others = [b for b in replicas(self.world, name) if b in self.up and b != held.leader]
            self.world.leader_writes_isr(name, held.leader, *(b for b in others if self.dice.random() < 0.7))

    def answer(self) -> None:
        """Also multis about topics lose their answers."""
        if not self.world.pending:
            return
        effect = self.world.pending.pop(self.dice.randrange(len(self.world.pending)))
        is_store = isinstance(effect, ef.StoreLeaderAndIsr | ef.StoreWrites)
        if isinstance(effect, ef.StoreLeaderAndIsr | ef.StoreWrites) and self.dice.random() < 0.3:
            if self.dice.random() < 0.5:
                self.world.try_apply(effect)
            self.world.send(ev.StoreUnknown(effect.store_id))
        else:
            assert is_store or not isinstance(effect, ef.StoreWrites)
            self.world.perform(effect)

    def come_back(self) -> None:
        for broker_id in BROKERS:
            if broker_id not in self.up:
                self.lives[broker_id] += 1
                self.up.add(broker_id)
                break
        self.world.send(ev.BrokersChanged(self.registrations()))

    def heal(self) -> None:
        """Everybody comes back, whatever an operator has written that makes no sense is taken away."""
        self.world.settle(rounds_max=500)
        self.up = set(BROKERS)
        for broker_id in BROKERS:
            self.lives[broker_id] += 1
        self.world.send(ev.BrokersChanged(self.registrations()))
        self.world.send(ev.Ticked())
        let_all_catch_up(self.world)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 80))
def test_after_any_schedule_every_move_ends_when_all_is_well_again(seed: int, turns: int) -> None:
    schedule = Moves(seed)
    for _ in range(turns):
        schedule.turn()
    schedule.heal()
    world = schedule.world
    assert world.zk.moves == {}
    assert world.state.complaints == {}
    for name, held in world.zookeeper.items():
        assert set(held.isr) == set(replicas(world, name))
        assert held.leader in replicas(world, name)
    assert not world.state.elections


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_while_partitions_move_a_leader_epoch_never_names_two_leaders(seed: int, turns: int) -> None:
    schedule = Moves(seed)
    for _ in range(turns):
        schedule.turn()
    schedule.world.settle(rounds_max=500)
    named: dict[tuple[int, int], int] = {}
    for sent in schedule.world.told:
        for decision in sent.decisions:
            key, leader = (decision.name.partition, decision.state.leader_epoch), decision.state.leader
            assert named.setdefault(key, leader) == leader


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_every_request_is_answered_once_all_is_well_again(seed: int, turns: int) -> None:
    schedule = Moves(seed)
    for _ in range(turns):
        schedule.turn()
    first = schedule.request_id
    schedule.world.state = ClusterState(controller_id=1)
    schedule.world.answers.clear()
    schedule.world.pending.clear()
    schedule.epoch += 1
    schedule.world.epoch_version += 1
    schedule.world.be_elected(*schedule.registrations(), epoch=schedule.epoch)
    schedule.move()
    schedule.cancel()
    schedule.elect()
    schedule.heal()
    schedule.world.acknowledge_all()
    schedule.heal()
    schedule.world.acknowledge_all()
    answered = {getattr(answer, "request_id", None) for answer in schedule.world.answers}
    assert answered == set(range(first + 1, schedule.request_id + 1))
