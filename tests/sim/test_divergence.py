"""A loss that nobody noticed: followers keep what their leader lacks, until it is said whose log goes on."""

from __future__ import annotations

import pytest
from hightide_broker.core.replica import Role
from sim.checkers.healed import Healed
from sim.world import BROKERS, CONTROLLERS, Settings, World


@pytest.fixture
def lost() -> World:
    """All processes die; 3 comes back first, without the record that all had, and takes its log for whole."""
    world = World(Settings(min_insync_replicas=2))
    world.start()
    world.produce(1)
    world.settle()
    world.advance(1)
    world.settle()
    assert [broker.state.high_watermark for broker in world.brokers.values()] == [1, 1, 1]
    world.checkers.clear()  # What they see is what this is about.
    for node in (*CONTROLLERS, *BROKERS):
        for broker in world.brokers.values():
            broker.checkpoint_high_watermark()
        world.crash(node)
        world.expire(node)
    world.brokers[3].disk.replace()
    for node in (3, *CONTROLLERS):
        world.restart(node)
        world.settle()
    assert world.leader == 3
    for node in (1, 2):
        world.restart(node)
        world.settle()
    return world


def logs(world: World) -> list[int]:
    return [len(broker.disk.log) for broker in world.brokers.values()]


def converge(world: World) -> None:
    world.heal()
    world.converge()
    healed = Healed(world)
    healed.check()
    healed.check_progress()


def test_those_that_have_the_record_keep_it_and_join_no_isr(lost: World) -> None:
    lost.converge()
    assert [lost.brokers[each].state.role for each in BROKERS] == [Role.DIVERGED, Role.DIVERGED, Role.LEADER]
    assert (logs(lost), lost.isr) == ([1, 1, 0], (3,))
    assert set(lost.divergences) == {(1, 0), (2, 0)}


def test_where_the_leader_is_stopped_one_that_has_the_record_leads_and_the_others_follow_it(
    lost: World,
) -> None:
    lost.crash(3)
    lost.expire(3)
    lost.settle()
    assert lost.leader in (1, 2)
    converge(lost)
    assert logs(lost) == [2, 2, 2]


def test_where_their_logs_are_put_aside_the_leaders_goes_on_without_the_record(lost: World) -> None:
    lost.acked.clear()  # The operator gives it up.
    for node in (1, 2):
        lost.crash(node, loses_disk=True)
        lost.expire(node)
        lost.restart(node)
        lost.settle()
    converge(lost)
    assert (lost.leader, logs(lost)) == (3, [1, 1, 1])
