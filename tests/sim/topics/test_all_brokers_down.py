"""Clients ask again and again while no broker runs, and the cluster is well once the brokers are back."""

from __future__ import annotations

from contextlib import closing

from sim.topics.schedules import TOPIC, begin
from sim.topics.world import BROKERS, PRODUCERS, Cluster


def test_a_record_sent_while_no_broker_runs_is_acknowledged_when_they_are_back() -> None:
    with closing(Cluster()) as world:
        begin(world)
        world.send(PRODUCERS[0], TOPIC, 0)  # Which makes the topic known to it.
        world.settle()
        for broker_id in BROKERS:
            world.crash(broker_id)
        value = world.next_value
        world.send(PRODUCERS[0], TOPIC, 0)
        world.until_healed()
        world.converge()
        assert any(f"acknowledges ({value},)" in line for line in world.story)
