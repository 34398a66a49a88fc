"""Partitions that are removed, and added again with the same number: what is left of the earlier one, on a
disk, in a queue or on its way, does nothing to the later one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_runtime.znodes.paths import leader_path
from sim.leaders.schedules import writes_of
from sim.leaders.test_admins import STEPS, at_random, deliver, die, let_time_pass
from sim.leaders.world import LeadersWorld, heal
from sim.leaders.zookeeper import NAME, SECOND
from sim.messages import ZOOKEEPER, Envelope
from sim.world import Settings

AR = (1, 2, 3)
SHRINK = ev.DeletionRequested(-90, NAME.topic, keep=1)


def grown() -> LeadersWorld:
    """A topic of two partitions; the second one was led in epoch 1."""
    world = LeadersWorld()
    world.start()
    assert world.grow_topic(1, AR) is Outcome.DONE
    let_time_pass(world)
    assert world.zookeeper.spent_epoch == 1
    return world


def elections_of(world: LeadersWorld, broker_id: int) -> list[Envelope]:
    """The writes under way by which a broker would lead the second partition."""
    path = leader_path(*SECOND)
    writes = writes_of(world, broker_id)
    return [each for each in writes if path in str(each.body.words)]  # type: ignore[union-attr]


def partition_count(world: LeadersWorld) -> int:
    known = world.zookeeper.topic_znode(NAME.topic)
    assert known is not None
    return known[0].partition_count


def test_what_is_removed_is_gone_everywhere_and_its_number_begins_with_the_next_epoch() -> None:
    world = grown()
    assert world.shrink_topic(2) is Outcome.DONE
    assert partition_count(world) == 1
    assert world.zookeeper.partition(SECOND) is None
    assert all(world.broker(n).second is None for n in AR)
    assert world.grow_topic(3, AR) is Outcome.DONE
    let_time_pass(world)
    assert world.zookeeper.begun == [1, 2]
    heal(world)


def test_a_topic_that_has_so_many_partitions_is_left_as_it_is() -> None:
    world = grown()
    assert world.shrink_topic(2) is Outcome.DONE
    assert world.shrink_topic(3) is Outcome.DONE
    assert world.zookeeper.partition(NAME) is not None
    heal(world)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_removes_a_partition_and_the_next_one_removes_it(step: int) -> None:
    world = grown()
    world.broker(3).hear(SHRINK)
    deliver(world, step)
    die(world, 3)
    assert world.shrink_topic(1) is Outcome.DONE
    let_time_pass(world)
    assert partition_count(world) == 1
    assert world.zookeeper.partition(SECOND) is None
    heal(world)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_removes_a_partition_and_the_next_one_grows_the_topic(step: int) -> None:
    """The partition of before is there still, or another one, whose epochs are above."""
    world = grown()
    world.broker(3).hear(SHRINK)
    deliver(world, step)
    die(world, 3)
    outcome = world.grow_topic(1, (1, 2))
    let_time_pass(world)
    assert outcome in (Outcome.DONE, Outcome.TOPIC_CHANGED)
    assert partition_count(world) == 2
    assert world.zookeeper.begun == ([1, 2] if outcome is Outcome.DONE else [1])
    heal(world)


@pytest.mark.parametrize("step", range(STEPS))
def test_an_admin_dies_while_it_removes_a_partition_and_the_next_one_deletes_the_topic(step: int) -> None:
    world = grown()
    world.broker(3).hear(SHRINK)
    deliver(world, step)
    die(world, 3)
    assert world.delete_topic(1) is Outcome.DONE
    let_time_pass(world)
    assert world.zookeeper.topic_znode(NAME.topic) is None


@pytest.mark.parametrize("seed", range(20))
def test_two_admins_remove_one_partition(seed: int) -> None:
    world, rng = grown(), Random(seed)
    for admin in (1, 2):
        world.broker(admin).hear(SHRINK)
    at_random(world, rng)
    let_time_pass(world)
    assert [world.broker(admin).answers[-90] for admin in (1, 2)] == [Outcome.DONE] * 2
    assert partition_count(world) == 1
    heal(world)


@pytest.mark.parametrize("seed", range(20))
def test_one_admin_removes_a_partition_while_another_one_adds_one(seed: int) -> None:
    """Whoever adds is told that there is another number; or adds after the removal, and that stays."""
    world, rng = grown(), Random(seed)
    world.broker(1).hear(SHRINK)
    world.broker(2).hear(ev.AdditionRequested(-91, NAME.topic, "", ((3, 2),), first=1))
    at_random(world, rng)
    let_time_pass(world)
    removed, added = world.broker(1).answers[-90], world.broker(2).answers[-91]
    assert removed in (Outcome.DONE, Outcome.TOPIC_BEING_CREATED)
    assert added in (Outcome.DONE, Outcome.TOPIC_CHANGED)
    assert partition_count(world) == (2 if added is Outcome.DONE else 1)
    heal(world)


def test_a_replica_that_was_down_from_before_the_removal_until_after_the_growth_begins_anew() -> None:
    world = grown()
    world.crash(3)
    world.expire(3)
    world.settle()
    assert world.shrink_topic(1) is Outcome.DONE
    assert world.broker(3).second is not None, "its log is there still"
    assert world.grow_topic(1, (1, 2)) is Outcome.DONE
    world.restart(3)
    let_time_pass(world)
    assert world.broker(3).second is None, "nobody has assigned the later partition to it"
    heal(world)


def test_a_late_close_of_the_earlier_partition_leaves_the_replica_of_the_later_one_alone() -> None:
    """3 hears of nothing, while the partition is removed and added: its queue has both."""
    world = grown()
    world.hold(ZOOKEEPER, 3)
    world.broker(1).hear(SHRINK)
    let_time_pass(world)
    assert world.broker(1).answers[-90] is Outcome.DONE, "it waits no longer than KeepInSyncTime"
    world.broker(1).hear(ev.AdditionRequested(-91, NAME.topic, "", ((3, 1),), first=1))
    world.settle()
    assert len(world.zookeeper.queue(3)) == 2
    world.release(ZOOKEEPER, 3)
    let_time_pass(world)
    assert world.broker(1).answers[-91] is Outcome.DONE
    assert world.broker(3).second == world.zookeeper.partition(SECOND).life  # type: ignore[union-attr]
    heal(world)


def test_an_election_in_the_earlier_partition_does_nothing_to_the_later_one() -> None:
    """Its write is on its way while the partition is removed and added, and led as often: the znodes have the
    same versions again, and nobody leads."""
    world = grown()
    world.expire(1)
    world.settle_until(lambda: bool(elections_of(world, 1)))
    (election,) = elections_of(world, 1)
    world.delay(election, give_up=False)
    world.settle()
    world.broker(2).hear(SHRINK)
    let_time_pass(world)
    world.broker(2).hear(ev.AdditionRequested(-91, NAME.topic, "", ((3,),), first=1))
    let_time_pass(world)
    assert world.zookeeper.begun == [1, 2]
    die(world, 3)
    world.let_arrive(election)
    world.settle()
    heal(world)


def test_a_partition_that_is_being_moved_is_not_removed() -> None:
    world = LeadersWorld(replace(Settings(), replicas=(1, 2)))
    world.start()
    assert world.grow_topic(1, (1, 2)) is Outcome.DONE
    world.crash(3)
    world.broker(1).hear(ev.ReassignmentRequested(-91, SECOND, (3, 2)))
    world.settle()
    assert world.broker(1).answers[-91] is Outcome.DONE
    assert world.shrink_topic(2) is Outcome.REASSIGNMENT_IN_PROGRESS
    assert partition_count(world) == 2


def test_a_partition_without_a_leader_is_removed() -> None:
    world = LeadersWorld()
    world.start()
    assert world.grow_topic(1, (3,)) is Outcome.DONE
    let_time_pass(world)
    die(world, 3)
    assert world.shrink_topic(1) is Outcome.DONE
    assert world.grow_topic(1, (2,)) is Outcome.DONE
    let_time_pass(world)
    assert world.zookeeper.begun == [1, 2]
    heal(world)


@pytest.mark.parametrize("admin", [1, 2])
@pytest.mark.parametrize("step", range(STEPS))
def test_a_growth_in_each_step_of_a_removal_leaves_nothing_of_the_earlier_partition(
    step: int, admin: int
) -> None:
    """RAR is no child of the partition: what removes the one must know of the other."""
    world = grown()
    world.broker(2).hear(SHRINK)
    deliver(world, step)
    world.broker(admin).hear(ev.AdditionRequested(-91, NAME.topic, "", ((2, 1),), first=1))
    let_time_pass(world)
    assert world.broker(2).answers[-90] in (Outcome.DONE, Outcome.TOPIC_BEING_CREATED)
    assert world.broker(admin).answers[-91] in (Outcome.DONE, Outcome.TOPIC_CHANGED)
    heal(world)
    assert world.delete_topic(1) is Outcome.DONE
