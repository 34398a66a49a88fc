"""Admins that die in each step of what they do, and two at once: what comes of it is whole, and the next
admin gets on."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.writes import Delete
from hightide_runtime.znodes.paths import reassigned_path
from sim.leaders.broker import KEEP_IN_SYNC_TIME_MS
from sim.leaders.messages import Inquiry
from sim.leaders.world import LeadersWorld, heal
from sim.leaders.zookeeper import NAME
from sim.messages import Envelope
from sim.world import Settings

AR = (1, 2, 3)
SETTINGS = Settings()
STEPS = 40
"""The messages of a creation, or of a deletion, and a few more."""
LATER_ID = "e" * 32


def without_topic() -> LeadersWorld:
    """A cluster whose topic was deleted."""
    world = LeadersWorld()
    world.start()
    assert world.delete_topic(1) is Outcome.DONE
    assert all(world.broker(n).topic_id == "" for n in AR)
    return world


def deliver(world: LeadersWorld, count: int) -> None:
    """So many messages arrive, as far as there are any."""
    for _ in range(count):
        envelope = next((e for e in world.pending if world.is_open(e)), None)
        if envelope is None:
            return
        world.deliver(envelope)


def at_random(world: LeadersWorld, rng: Random) -> None:
    """Messages arrive in any order, until none is under way, or there were many."""
    for _ in range(300):
        ready = [e for e in world.pending if world.is_open(e)]
        if not ready:
            return
        world.deliver(world.first_in_line(rng.choice(ready)))


def die(world: LeadersWorld, admin: int) -> None:
    """The admin's process dies, and its session ends."""
    world.crash(admin)
    world.expire(admin)
    world.settle()


def let_time_pass(world: LeadersWorld) -> None:
    """Longer than KeepInSyncTime."""
    for _ in range(4):
        world.settle()
        world.advance(KEEP_IN_SYNC_TIME_MS // 2)
    world.settle()


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_creates_a_topic(step: int) -> None:
    world = without_topic()
    world.broker(3).hear(ev.AdditionRequested(-90, NAME.topic, LATER_ID, (AR,)))
    deliver(world, step)
    die(world, 3)
    world.forget_topic()
    outcome = world.create_topic(1, (1, 2))
    let_time_pass(world)
    known = world.zookeeper.topic_znode(NAME.topic)
    assert known is not None
    assert outcome is (Outcome.TOPIC_ALREADY_EXISTS if known[0].topic_id.hex() == LATER_ID else Outcome.DONE)
    heal(world)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_deletes_a_topic(step: int) -> None:
    world = LeadersWorld()
    world.start()
    world.forget_topic()
    world.broker(3).hear(ev.DeletionRequested(-90, NAME.topic))
    deliver(world, step)
    die(world, 3)
    assert world.delete_topic(1) in (Outcome.DONE, Outcome.UNKNOWN_TOPIC)
    let_time_pass(world)
    assert world.zookeeper.topic_znode(NAME.topic) is None
    assert world.create_topic(1, (2, 1)) is Outcome.DONE
    heal(world)
    assert world.assigned == (2, 1)


@pytest.mark.parametrize("seed", range(20))
def test_two_admins_create_one_topic(seed: int) -> None:
    """One of them wins; the other one is told, and undoes nothing."""
    world, rng = without_topic(), Random(seed)
    world.broker(1).hear(ev.AdditionRequested(-91, NAME.topic, "1" * 32, (AR,)))
    world.broker(2).hear(ev.AdditionRequested(-92, NAME.topic, "2" * 32, ((3, 2, 1),)))
    at_random(world, rng)
    let_time_pass(world)
    outcomes = {world.broker(1).answers[-91], world.broker(2).answers[-92]}
    assert Outcome.DONE in outcomes
    assert outcomes & {Outcome.TOPIC_ALREADY_EXISTS, Outcome.TOPIC_BEING_CREATED}
    heal(world)


@pytest.mark.parametrize("seed", range(20))
def test_two_admins_delete_one_topic(seed: int) -> None:
    world, rng = LeadersWorld(), Random(seed)
    world.start()
    world.forget_topic()
    for admin in (1, 2):
        world.broker(admin).hear(ev.DeletionRequested(-91, NAME.topic))
    at_random(world, rng)
    let_time_pass(world)
    for admin in (1, 2):
        assert world.broker(admin).answers[-91] in (Outcome.DONE, Outcome.UNKNOWN_TOPIC)
    assert world.zookeeper.topic_znode(NAME.topic) is None
    assert all(world.broker(n).topic_id == "" for n in AR)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_grows_a_topic(step: int) -> None:
    """The partition is there as a whole, or not at all, and the next admin adds it."""
    world = LeadersWorld()
    world.start()
    world.broker(3).hear(ev.AdditionRequested(-90, NAME.topic, "", (AR,), first=1))
    deliver(world, step)
    die(world, 3)
    outcome = world.grow_topic(1, (1, 2))
    let_time_pass(world)
    known = world.zookeeper.topic_znode(NAME.topic)
    assert known is not None
    assert (known[0].partition_count, known[0].attempt) == (2, None)
    assert outcome in (Outcome.DONE, Outcome.TOPIC_CHANGED)
    heal(world)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_that_grew_a_topic_dies_and_the_next_one_deletes_it(step: int) -> None:
    world = LeadersWorld()
    world.start()
    world.broker(3).hear(ev.AdditionRequested(-90, NAME.topic, "", (AR,), first=1))
    deliver(world, step)
    die(world, 3)
    assert world.delete_topic(1) is Outcome.DONE
    let_time_pass(world)
    assert world.zookeeper.topic_znode(NAME.topic) is None
    assert world.create_topic(1, (2, 1)) is Outcome.DONE
    heal(world)


@pytest.mark.parametrize("seed", range(20))
def test_two_admins_grow_one_topic(seed: int) -> None:
    world, rng = LeadersWorld(), Random(seed)
    world.start()
    world.broker(1).hear(ev.AdditionRequested(-91, NAME.topic, "", (AR,), first=1))
    world.broker(2).hear(ev.AdditionRequested(-92, NAME.topic, "", ((3, 2, 1),), first=1))
    at_random(world, rng)
    let_time_pass(world)
    outcomes = {world.broker(1).answers[-91], world.broker(2).answers[-92]}
    assert Outcome.DONE in outcomes
    assert outcomes & {Outcome.TOPIC_CHANGED, Outcome.TOPIC_BEING_CREATED}
    heal(world)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_takes_a_move_back(step: int) -> None:
    """The move is done or taken back, whatever of the two; the records are there."""
    world = LeadersWorld(replace(SETTINGS, replicas=(1, 2)))
    world.start()
    world.ask_to_move(2, (3, 2))
    deliver(world, step)
    world.broker(3).hear(ev.ReassignmentRequested(-90, NAME, None))
    deliver(world, STEPS - step)
    die(world, 3)
    heal(world)
    assert world.assigned in ((1, 2), (3, 2))


@pytest.mark.parametrize("step", range(2 * STEPS))
def test_a_move_that_is_taken_back_in_each_of_its_steps_leaves_the_partition_whole(step: int) -> None:
    world = LeadersWorld(replace(SETTINGS, replicas=(1, 2)))
    world.start()
    world.ask_to_move(2, (3, 2))
    deliver(world, step)
    outcome = world.cancel(2)
    assert outcome in (Outcome.DONE, Outcome.NO_REASSIGNMENT)
    heal(world)
    assert world.assigned in ((1, 2), (3, 2))


def is_end_of_move(envelope: Envelope) -> bool:
    """Whether a leader writes that the partition has moved."""
    body = envelope.body
    written = body.words if isinstance(body, Inquiry) and isinstance(body.words, tuple) else ()
    return any(isinstance(each, Delete) and each.path == reassigned_path(*NAME) for each in written)


def test_another_target_that_is_asked_for_while_a_move_ends_is_where_the_partition_goes() -> None:
    """The leader's write, by which the first move ends, comes to ZooKeeper after the admin's."""
    world = LeadersWorld(replace(SETTINGS, replicas=(1, 2)))
    world.start()
    world.ask_to_move(2, (1, 2, 3))
    for _ in range(10 * STEPS):
        if not any(map(is_end_of_move, world.pending)):
            deliver(world, 1)
    assert any(map(is_end_of_move, world.pending))
    world.broker(3).hear(ev.ReassignmentRequested(-90, NAME, (3, 1, 2)))
    while -90 not in world.broker(3).answers:
        world.deliver(next(e for e in world.pending if 3 in (e.source, e.target) and world.is_open(e)))
    assert world.broker(3).answers[-90] is Outcome.DONE
    heal(world)
    assert world.assigned == (3, 1, 2)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_elects_the_preferred_leader(step: int) -> None:
    world = LeadersWorld()
    world.start()
    world.broker(3).hear(ev.ElectionRequested(-90, NAME))
    deliver(world, step)
    die(world, 3)
    assert world.elect_preferred(2) is Outcome.DONE
    heal(world)
