"""Moves in a World: requests for them, and leaders that let new replicas into the ISR."""

from __future__ import annotations

from collections.abc import Callable

from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from unit.controller.controller_world import FLIGHTS, World, topic

BROKERS = (1, 2, 3, 4, 5)


def world_of(*assignment: tuple[int, ...], brokers: tuple[int, ...] = BROKERS, **configs: str) -> World:
    return World.elected(*brokers, topics=(topic(*assignment, **configs),))


def move(*target: int, name: TopicPartition = FLIGHTS, request_id: int = 1) -> rq.ReassignmentsRequested:
    return rq.ReassignmentsRequested(request_id, (rq.Move(name, target),))


def by_hand(*target: int, name: TopicPartition = FLIGHTS, version: int = 0) -> ev.AdminZnodes:
    return ev.AdminZnodes(reassignments={name: ev.StoredReassignment(target, (), version)})


def begun(world: World, *target: int, name: TopicPartition = FLIGHTS) -> World:
    """The world after a move has begun and everybody knows it."""
    world.send(move(*target, name=name, request_id=99))
    world.settle()
    assert world.zk.moves[name].target == target
    world.answers.clear()
    return world


def catch_up(world: World, *isr: int, name: TopicPartition = FLIGHTS) -> None:
    """The leader changes the ISR, the watch tells, and what follows is done."""
    world.leader_writes_isr(name, *isr)
    hear(world, name)
    world.settle()


def hear(world: World, name: TopicPartition = FLIGHTS) -> None:
    """The watch of a leaderAndISR that is under reassignment has spoken."""
    world.send(ev.StatesRead({name: world.zookeeper[name]}))


def replicas(world: World, name: TopicPartition = FLIGHTS) -> tuple[int, ...]:
    return world.topics[name.topic].assignment[name.partition]


def outcomes(world: World) -> tuple[ef.PartitionOutcome, ...]:
    """Of the only answer."""
    (answer,) = world.answers
    assert isinstance(answer, ef.AnswerPartitions)
    return answer.outcomes


def let_all_catch_up(world: World) -> None:
    """Everybody who is alive and assigned gets into the ISR, until nothing changes any more."""
    for _ in range(20):
        world.settle(rounds_max=500)
        changed = False
        for name in sorted(world.zookeeper):
            held = world.zookeeper[name]
            assigned = replicas(world, name)
            if world.state.is_live(held.leader) and set(held.isr) != set(assigned):
                in_sync = [broker_id for broker_id in assigned if world.state.is_live(broker_id)]
                if set(in_sync) != set(held.isr):
                    world.leader_writes_isr(name, *in_sync)
                    changed = True
            hear(world, name)
        if not changed and not world.pending:
            return
    raise AssertionError("it never comes to an end")


Act = Callable[[World], None]


def live_through(world: World, acts: tuple[Act, ...], crash_at: int, *, commits_unheard: bool) -> int:
    """Let the acts of others and what ZooKeeper does happen in turn; the controller dies before one of them.

    Gives back how many there are. Negative: it does not die.
    """
    count = 0

    def next_one() -> None:
        nonlocal count
        if count == crash_at:
            if commits_unheard and world.pending:
                effect = world.pending[0]
                if isinstance(effect, ef.StoreWrites | ef.StoreLeaderAndIsr):
                    world.try_apply(effect)
            world.take_over()
        count += 1

    for act in acts:
        next_one()
        act(world)
        while world.pending:
            next_one()
            if world.pending:
                world.perform(world.pending.pop(0))
    next_one()
    return count
