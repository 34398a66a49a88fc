"""Moves while a log may have lost its end: a replica that is in doubt ends no move, and no record is lost by
one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.leaders.test_admins import STEPS, deliver, let_time_pass
from sim.leaders.world import LeadersWorld, heal
from sim.world import Settings


def moving(step: int) -> LeadersWorld:
    """1 and 2 have a record, and the move of the partition to 3 and 2 has come so far."""
    world = LeadersWorld(replace(Settings(), replicas=(1, 2)))
    world.start()
    world.produce(1)
    world.settle()
    world.ask_to_move(1, (3, 2))
    deliver(world, step)
    return world


def test_a_move_waits_for_a_target_that_may_have_lost_its_end() -> None:
    """2 was in sync, and comes back without its last record; 3 has all, and 2 hears of nothing."""
    world = moving(8)
    world.cut(1, 2)
    world.crash(2, lost_records=1)
    world.expire(2)
    world.restart(2)
    let_time_pass(world)
    assert 2 not in world.isr
    assert world.assigned == (1, 2)
    world.mend_link(1, 2)
    heal(world)
    assert world.assigned == (3, 2)


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("step", range(8, 2 * STEPS, 2))
def test_a_replica_that_loses_its_end_in_each_step_of_a_move_costs_no_record(step: int, lost: int) -> None:
    world = moving(step)
    world.crash(lost, lost_records=1)
    world.expire(lost)
    world.restart(lost)
    let_time_pass(world)
    heal(world)
    assert world.assigned == (3, 2)


@pytest.mark.parametrize("step", range(8, 2 * STEPS, 2))
def test_if_all_lose_their_ends_in_each_step_of_a_move_the_longest_log_leads(step: int) -> None:
    world = moving(step)
    for broker_id, lost in ((1, 1), (2, 0), (3, 1)):
        world.crash(broker_id, lost_records=lost)
        world.expire(broker_id)
    for broker_id in (1, 3, 2):
        world.restart(broker_id)
        world.settle()
    let_time_pass(world)
    heal(world)
    assert world.assigned == (3, 2)
