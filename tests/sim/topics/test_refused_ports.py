"""A broker whose port refuses connections for a while, though it lives and calls others."""

from __future__ import annotations

from contextlib import closing

from sim.topics.schedules import TOPIC, begin
from sim.topics.world import Cluster


def test_a_leader_whose_port_refuses_is_replaced_and_is_believed_again_when_it_answers() -> None:
    with closing(Cluster()) as world:
        begin(world)
        world.refuse(1)
        world.detect_death(1, world.hosts[1].broker_epoch)
        world.settle()
        state = world.state(TOPIC, 0)
        assert state is not None
        assert state.leader in (2, 3)
        assert world.produce_to(TOPIC) is not None
        world.let_in(1)
        world.until_healed()
        assert world.hosts[1].lives == 1, "the same life of it"


def test_one_that_is_declared_dead_by_mistake_is_believed_again() -> None:
    with closing(Cluster()) as world:
        begin(world)
        world.detect_death(1, world.hosts[1].broker_epoch)
        world.until_healed()
        assert world.hosts[1].lives == 1
