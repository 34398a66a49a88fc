"""A leader hears of an ISR that another broker has written: the tree of topics is watched."""

from __future__ import annotations

from sim.leaders.world import LeadersWorld, heal


def test_a_leader_hears_that_a_follower_has_left_the_isr_which_it_cannot_reach() -> None:
    world = LeadersWorld()
    world.start()
    world.produce(1)
    world.settle()
    world.crash(3, loses_power=True)
    world.cut(1, 3)
    world.restart(3)
    world.settle()
    assert world.isr == (1, 2)
    leading = world.broker(1).state.leading
    assert leading is not None
    assert leading.isr.isr == (1, 2)
    heal(world)
