"""A controller may die before anything that it does: the next one ends every move as if nothing had been."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from unit.controller.controller_world import FLIGHTS, World, broker
from unit.controller.moving_world import (
    Act,
    by_hand,
    hear,
    let_all_catch_up,
    live_through,
    move,
    replicas,
    world_of,
)

SECOND = TopicPartition("flights", 1)


def leader_lets_in(*isr: int, name: TopicPartition = FLIGHTS) -> Act:
    def act(world: World) -> None:
        held = world.zookeeper[name]
        wanted = tuple(broker_id for broker_id in isr if broker_id in replicas(world, name))
        if held.leader in wanted:
            world.leader_writes_isr(name, *wanted)
            hear(world, name)

    return act


def ask(event: ev.Event) -> Act:
    """A client repeats its request until somebody answers it."""

    def act(world: World) -> None:
        world.send(event)

    return act


def registered(*broker_ids: int) -> Act:
    def act(world: World) -> None:
        lives = {each.broker_id: each for each in world.state.brokers.values()}
        world.registered(*(lives.get(broker_id, broker(broker_id)) for broker_id in broker_ids))

    return act


def is_moved_to(*target: int) -> Callable[[World], None]:
    def check(world: World) -> None:
        assert replicas(world) == target
        assert set(world.zookeeper[FLIGHTS].isr) == set(target)
        assert world.zookeeper[FLIGHTS].leader in target
        assert world.zk.moves == {}

    return check


BEGIN = move(3, 4)
CANCEL = rq.CancelReassignmentsRequested(2, (FLIGHTS,))
SCRIPTS: dict[str, tuple[tuple[Act, ...], tuple[ev.Event, ...], Callable[[World], None]]] = {
    "a whole move": (
        (ask(BEGIN), leader_lets_in(1, 2, 3), leader_lets_in(1, 2, 3, 4)),
        (BEGIN,),
        is_moved_to(3, 4),
    ),
    "a move that keeps the leader": (
        (ask(move(4, 1)), leader_lets_in(1, 2, 4)),
        (move(4, 1),),
        is_moved_to(4, 1),
    ),
    "more replicas": (
        (ask(move(1, 2, 3)), leader_lets_in(1, 2, 3)),
        (move(1, 2, 3),),
        is_moved_to(1, 2, 3),
    ),
    "fewer replicas": (
        (leader_lets_in(1), ask(move(2)), leader_lets_in(1, 2)),
        (move(2),),
        is_moved_to(2),
    ),
    "a move by hand": (
        (lambda world: world.write_admin(by_hand(3, 4)), leader_lets_in(1, 2, 3, 4)),
        (),
        is_moved_to(3, 4),
    ),
    "a move that is taken back": (
        (ask(BEGIN), leader_lets_in(1, 2, 3), ask(CANCEL)),
        (CANCEL,),
        is_moved_to(1, 2),
    ),
    "a move that is given another goal": (
        (ask(BEGIN), leader_lets_in(1, 2, 3), ask(move(5, 2)), leader_lets_in(1, 2, 5)),
        (move(5, 2),),
        is_moved_to(5, 2),
    ),
    "a move whose leader dies": (
        (ask(BEGIN), leader_lets_in(1, 2, 3), registered(2, 3, 4, 5), leader_lets_in(2, 3, 4)),
        (BEGIN,),
        is_moved_to(3, 4),
    ),
    "a move from a dead broker": (
        (ask(BEGIN), registered(1, 3, 4, 5), leader_lets_in(1, 3, 4)),
        (BEGIN,),
        is_moved_to(3, 4),
    ),
}


@pytest.mark.parametrize("commits_unheard", [False, True], ids=["lost", "unheard"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_wherever_the_controller_dies_all_ends_in_the_same_way(script: str, commits_unheard: bool) -> None:
    acts, repeated, ends_well = SCRIPTS[script]
    steps = live_through(world_of((1, 2)), acts, crash_at=-1, commits_unheard=False)
    assert steps > len(acts), "something is to be done"
    for crash_at in range(steps):
        world = world_of((1, 2))
        live_through(world, acts, crash_at, commits_unheard=commits_unheard)
        for event in repeated:
            world.send(event)
            world.settle()
        let_all_catch_up(world)
        ends_well(world)


@pytest.mark.parametrize("commits_unheard", [False, True], ids=["lost", "unheard"])
def test_wherever_the_controller_dies_who_has_left_is_stopped_or_was_to_be(commits_unheard: bool) -> None:
    """A broker that is told by no controller any more finds out by itself; nobody else is ever stopped."""
    acts = SCRIPTS["a whole move"][0]
    steps = live_through(world_of((1, 2)), acts, crash_at=-1, commits_unheard=False)
    for crash_at in range(steps):
        world = world_of((1, 2))
        live_through(world, acts, crash_at, commits_unheard=commits_unheard)
        world.send(BEGIN)
        let_all_catch_up(world)
        stopped = {effect.broker_id for effect in world.stops}
        assert stopped <= {1, 2}
        told = [decision for decision in world.decisions_told_to(3) if decision.replicas == (3, 4)]
        assert told, "who stays hears of the end"


def test_many_moves_at_once_survive_a_crash_after_every_step() -> None:
    """Of several partitions, of which some wait for the multi of the others."""
    names = [TopicPartition("flights", number) for number in range(4)]
    requests = [
        rq.ReassignmentsRequested(number, (rq.Move(name, (3, 4)),)) for number, name in enumerate(names)
    ]

    def ask_all(world: World) -> None:
        for request in requests:
            world.send(request)

    acts = (ask_all, *(leader_lets_in(1, 2, 3, 4, name=name) for name in names))
    begin = world_of((1, 2), (1, 2), (2, 1), (1, 2))
    for crash_at in range(live_through(begin, acts, crash_at=-1, commits_unheard=False)):
        world = world_of((1, 2), (1, 2), (2, 1), (1, 2))
        live_through(world, acts, crash_at, commits_unheard=True)
        for request in requests:
            world.send(request)
        world.settle()
        let_all_catch_up(world)
        assert world.topics["flights"].assignment == ((3, 4),) * 4
        assert world.zk.moves == {}


def test_what_a_deposed_controller_still_writes_about_a_move_is_fenced() -> None:
    world = world_of((1, 2))
    world.send(BEGIN)
    world.epoch_version += 1
    world.settle()
    assert world.zk.moves == {}
    assert any(isinstance(each, ef.Resign) for each in world.others)
