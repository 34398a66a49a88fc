"""What moves nothing: failovers, blips and restarts that end in time leave a stable group as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hightide_coordinator.core.values.registration import Registration
from sim.groups.consumer import SimConsumer
from sim.groups.orders import GroupOrders
from sim.groups.schedules import TOPIC, begin, consumer, heal, topic, wait_until


def stable_group(count: int = 3, instances: bool = False) -> GroupOrders:
    """Six partitions, shared by so many consumers, and nothing under way."""
    world = begin()
    topic(world, 6)
    for number in range(count):
        if instances:
            requested = Registration(
                group="g", instance_id=f"i{number}", topics={TOPIC: 1}, session_timeout_ms=600
            )
            world.consume(requested)
        else:
            consumer(world, f"c{number}")
    wait_until(world, lambda: sum(len(each.readings) for each in world.consumers) == 6)
    world.run(300)
    world.checkers.stopped.clear()
    world.checkers.started.clear()
    return world


def generation(world: GroupOrders) -> int:
    return world.zookeeper.groups["g"].generation


def fail_over(world: GroupOrders) -> None:
    world.crash(1)
    world.expire(1)
    world.elect(2)


def hand_over_to_a_usurper(world: GroupOrders) -> None:
    world.elect(2)


def break_all_streams(world: GroupOrders) -> None:
    for each in world.consumers:
        world.break_stream(each)


def stand_still_for_a_moment(world: GroupOrders) -> None:
    world.pause(world.coordinators[1])
    world.run(150)
    world.resume(world.coordinators[1])


def lose_sight_of_zookeeper(world: GroupOrders) -> None:
    world.lose_outcomes(1)


@pytest.mark.parametrize(
    "blip",
    [
        fail_over,
        hand_over_to_a_usurper,
        break_all_streams,
        stand_still_for_a_moment,
        lose_sight_of_zookeeper,
    ],
    ids=lambda blip: blip.__name__,
)
def test_nothing_stops_starts_or_moves(blip: Callable[[GroupOrders], None]) -> None:
    world = stable_group()
    before = generation(world)
    blip(world)
    for _ in range(12):
        world.run(50)
        assert all(each.readings for each in world.consumers)
    heal(world)
    assert generation(world) == before
    assert (world.checkers.stopped, world.checkers.started) == ([], [])


def test_the_next_process_of_an_instance_takes_its_partitions_and_nobody_else_hears_of_it() -> None:
    world = stable_group(instances=True)
    old = world.consumers[0]
    owned = sorted(old.readings)
    world.kill(old)
    world.run(200)
    new = world.consume(old.requested)
    wait_until(world, lambda: len(new.readings) == len(owned))
    heal(world)
    assert sorted(new.readings) == sorted(world.checkers.started) == owned
    assert world.checkers.stopped == []


@pytest.mark.parametrize("ends", [GroupOrders.leave, GroupOrders.kill], ids=["leaves", "is killed"])
def test_what_a_consumer_leaves_behind_moves_and_nothing_else(
    ends: Callable[[GroupOrders, SimConsumer], None],
) -> None:
    world = stable_group()
    gone = world.consumers[0]
    owned = sorted(gone.readings)
    before = generation(world)
    ends(world, gone)
    heal(world)
    assert sorted(world.checkers.started) == owned
    assert world.checkers.stopped == []
    assert generation(world) == before + 1


def test_consumers_that_leave_together_are_one_rebalance() -> None:
    world = stable_group(6)
    before = generation(world)
    for gone in world.consumers[:4]:
        world.leave(gone)
    heal(world)
    assert generation(world) == before + 1
