"""A high watermark that was written down is one of the records that lay there then, and of no others."""

from __future__ import annotations

import pytest
from sim.checkers.healed import heal
from sim.lost_power import the_only_member_of_the_isr_loses_its_disk_and_leads
from sim.world import World


def refilled_after_an_unclean_election(deleted_before: int, *, compares_epochs: bool = True) -> World:
    """All have three committed records, and 3 has written that down. Then 1, alone in the ISR, gets another
    disk and leads. 3 cuts all, and has two records again, of which one is committed; it is killed before
    it writes its high watermark down again."""
    world = World()
    world.start()
    third = world.brokers[3]
    third.disk.compares_epochs = compares_epochs
    for _ in range(3):
        world.produce(1)
    world.converge(1)
    if deleted_before:
        assert world.delete(1, deleted_before) == deleted_before
        world.settle()
    third.checkpoint_high_watermark()
    third.write_log_start()
    the_only_member_of_the_isr_loses_its_disk_and_leads(world)
    world.restart(3)
    world.settle()
    assert not third.disk.log
    assert 3 in world.isr
    world.produce(1)
    world.converge(1)
    world.hold(3, 1)
    world.produce(1)
    world.settle()
    assert (third.state.log_end_offset, third.state.high_watermark) == (2, 1)
    world.crash(3)
    world.expire(3)
    world.restart(3)
    return world


@pytest.mark.parametrize("deleted_before", [0, 2])
def test_a_high_watermark_of_records_that_were_cut_does_not_speak_for_those_that_came_instead(
    deleted_before: int,
) -> None:
    world = refilled_after_an_unclean_election(deleted_before)
    assert world.brokers[3].state.high_watermark <= world.brokers[1].state.high_watermark == 1
    heal(world)


def test_without_the_epochs_it_covers_records_that_are_not_committed() -> None:
    world = refilled_after_an_unclean_election(0, compares_epochs=False)
    assert world.brokers[3].state.high_watermark == 2
