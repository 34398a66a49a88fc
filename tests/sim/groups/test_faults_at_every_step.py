"""One story of a group, with a fault at each of its steps in turn: wherever it strikes, all is well after it.

The story: three consumers come, the topic grows, one of them leaves, and users read and commit all the while.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hightide_coordinator.core.values.registration import Registration
from sim.groups.orders import GroupOrders
from sim.groups.schedules import TOPIC, heal

STRIDE = 2
"""Every other step; the random schedules take care of those between."""


class StruckWorld(GroupOrders):
    """Counts what arrives, and lets the fault strike before the message with this number does."""

    def __init__(self, at: int, fault: Callable[[GroupOrders], None] | None) -> None:
        super().__init__(Random(at))
        self.at = at
        self.fault = fault
        self.delivered = 0

    def deliver(self, at: int) -> bool:
        self.delivered += 1
        if self.delivered == self.at and self.fault is not None:
            self.fault(self)
        return super().deliver(at)


def coordinator_dies(world: GroupOrders) -> None:
    world.crash(1)
    world.expire(1)
    world.elect(2)


def coordinator_is_usurped(world: GroupOrders) -> None:
    world.elect(2)


def coordinator_stands_still(world: GroupOrders) -> None:
    world.pause(world.coordinators[1])
    world.elect(2)


def session_expires(world: GroupOrders) -> None:
    world.expire(1)
    world.elect(2)


def outcomes_are_lost(world: GroupOrders) -> None:
    world.lose_outcomes(1)


def hand_touches_the_group(world: GroupOrders) -> None:
    world.by_hand("g")


def all_streams_break(world: GroupOrders) -> None:
    for one in world.consumers:
        world.break_stream(one)


def first_goes_silent(world: GroupOrders) -> None:
    if world.consumers:
        world.silence(world.consumers[0])


def last_is_killed(world: GroupOrders) -> None:
    if world.consumers:
        world.kill(world.consumers[-1])


def last_leaves(world: GroupOrders) -> None:
    if world.consumers:
        world.leave(world.consumers[-1])


def topic_is_created_anew(world: GroupOrders) -> None:
    world.delete(TOPIC)
    world.create(TOPIC, 3)


FAULTS = (
    coordinator_dies,
    coordinator_is_usurped,
    coordinator_stands_still,
    session_expires,
    outcomes_are_lost,
    hand_touches_the_group,
    all_streams_break,
    first_goes_silent,
    last_is_killed,
    last_leaves,
    topic_is_created_anew,
)


def tell_story(world: StruckWorld) -> None:
    world.elect(1)
    world.create(TOPIC, 4)
    for name in ("a", "b", "c"):
        requested = Registration(group="g", consumer_id=name, topics={TOPIC: 1}, session_timeout_ms=600)
        world.consume(requested)
        world.run(150)
    for log in world.topics.logs():
        world.produce(log, 5)
    world.grow(TOPIC, 2)
    world.run(250)
    world.leave(world.consumers[0])
    world.run(250)


STEPS = 90
"""A little less than the story has."""


def test_the_story_has_so_many_steps() -> None:
    world = StruckWorld(-1, None)
    tell_story(world)
    assert STEPS <= world.delivered < STEPS + 30
    heal(world)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_wherever_a_fault_strikes_all_is_well_afterwards(fault: Callable[[GroupOrders], None]) -> None:
    for at in range(1 + FAULTS.index(fault) % STRIDE, STEPS, STRIDE):
        world = StruckWorld(at, fault)
        try:
            tell_story(world)
            heal(world)
        except Exception as error:
            error.add_note(f"{fault.__name__} at step {at}")
            raise
