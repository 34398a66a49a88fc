"""No word of a life that lost its tail lets the next one join: three schedules, red without the fence."""

from __future__ import annotations

import pytest
from sim.checkers import Violation
from sim.known_wrong import without
from sim.lost_power import (
    a_cut_comes_undone,
    a_cut_comes_undone_below_the_log_start,
    a_follower_loses_its_power_while_it_is_being_taken_in,
    a_follower_loses_its_power_while_it_waits_to_be_taken_in,
    committed_records_that_were_given_up_come_back,
    the_best_of_the_lost_ends_breaks_its_disk_before_it_is_written_that_it_leads,
    the_best_of_the_lost_ends_has_cut_what_it_told_of,
    the_last_fetch_of_a_life_arrives_after_the_next_has_begun,
    up_to_the_second_election_among_lost_ends,
)
from sim.schedules import Schedule
from sim.world import Settings, World

SCHEDULES = (
    a_follower_loses_its_power_while_it_is_being_taken_in,
    a_follower_loses_its_power_while_it_waits_to_be_taken_in,
    the_last_fetch_of_a_life_arrives_after_the_next_has_begun,
)
by_name = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)


def started(settings: Settings | None = None) -> World:
    world = World(settings)
    world.start()
    return world


@by_name
def test_an_earlier_life_lets_nobody_join_the_isr(schedule: Schedule) -> None:
    schedule(started())


@by_name
def test_without_the_fence_an_isr_member_lacks_what_was_acknowledged(schedule: Schedule) -> None:
    with without("fenced_joins"), pytest.raises(Violation) as found:
        schedule(started())
    assert found.value.invariant == "Acknowledged"


def test_a_follower_whose_cut_came_undone_cuts_again() -> None:
    a_cut_comes_undone(started())


def test_a_high_watermark_of_what_the_cut_took_would_set_it_against_its_leader() -> None:
    world = started()
    world.brokers[1].disk.compares_epochs = False
    with pytest.raises(Violation) as found:
        a_cut_comes_undone(world)
    assert found.value.invariant == "NoDivergence"


def test_a_replica_whose_cut_came_undone_below_its_log_start_cuts_again() -> None:
    a_cut_comes_undone_below_the_log_start(started())


def test_a_log_start_over_what_the_cut_took_would_set_it_against_its_leader() -> None:
    world = started()
    world.brokers[1].disk.syncs_cuts = False
    with pytest.raises(Violation) as found:
        a_cut_comes_undone_below_the_log_start(world)
    assert found.value.invariant == "NoDivergence"


def test_a_cut_of_committed_records_is_synced_before_the_replica_joins_an_isr() -> None:
    committed_records_that_were_given_up_come_back(started(Settings(flush_on_disk=True)))


def test_else_records_that_were_given_up_are_committed_again() -> None:
    world = started(Settings(flush_on_disk=True))
    world.brokers[2].disk.syncs_cuts = False
    with pytest.raises(Violation) as found:
        committed_records_that_were_given_up_come_back(world)
    assert found.value.invariant == "StrongIsr"


def test_what_every_disk_lost_is_given_up_also_by_one_that_has_cut_since_it_told() -> None:
    world = started(Settings(min_insync_replicas=2))
    the_best_of_the_lost_ends_has_cut_what_it_told_of(world)
    assert [record[1] for record in world.acked.values()] == [1, 6], "what 1 and 3 had all the time is kept"


def test_one_that_has_cut_since_it_told_gives_up_nothing_that_fewer_disks_lost_than_promised() -> None:
    world = started(Settings(min_insync_replicas=2))
    up_to_the_second_election_among_lost_ends(world)
    lost = world.acked[1]
    assert world.losses[lost] == {1, 2, 3}
    world.losses[lost] = set(range(1, world.promised_copies))  # As if one disk too few had.
    world.restart(2)
    with pytest.raises(Violation, match="is given up") as found:
        world.settle()
    assert found.value.invariant == "LostPower"


def test_one_that_lost_its_disk_since_it_was_chosen_gives_up_nothing() -> None:
    world = started(Settings(min_insync_replicas=2))
    the_best_of_the_lost_ends_breaks_its_disk_before_it_is_written_that_it_leads(world)
    assert [record[1] for record in world.acked.values()] == [1, 2]


def test_a_member_that_lost_its_power_leaves_before_it_registers() -> None:
    world = started()
    world.produce(1)
    world.settle()
    world.crash(1, lost_records=1)
    world.restart(1)
    world.settle_until(lambda: 1 not in world.isr)
    assert world.leader == -1, "nobody leads with a log that may lack what was acknowledged"
    assert world.brokers[1].broker_epoch == -1
    world.settle()
    world.heal()
    world.converge()
    assert world.leader in (2, 3)
    assert set(world.isr) == {1, 2, 3}
    assert [len(broker.disk.log) for broker in world.brokers.values()] == [1, 1, 1]
