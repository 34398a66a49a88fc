"""What a broker remembers of idempotent producers is of the records that it has, whatever a fault brings
back."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from hightide_controller.core.values.partition import TopicPartition
from sim.topics.schedules import FIRST_ID, TOPIC, begin, heal
from sim.topics.world import PRODUCERS, Cluster

KEY: Final = (bytes.fromhex(FIRST_ID), 0)
PRODUCER: Final = PRODUCERS[0]
SEEDS: Final = range(8)
"""Of power cuts: some of them undo what was not synced."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_brings_no_record_back_into_the_memory_that_it_is_not_in(seed: int) -> None:
    """A leader stops with a record that no other broker has, and cuts it off when it is back. Its memory of
    producers, as of that stop, comes back with a power cut; the retry would be taken for a duplicate."""
    with closing(Cluster()) as world:
        begin(world)
        world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"flush": "fsync"}), ef.AnswerTopic)
        send(world)
        world.settle()
        for follower in (2, 3):
            world.hold(1, follower)
        value = send(world)
        assert value in values_at(world, 1)
        world.pause(PRODUCER)
        world.stop(1)
        world.settle_until(lambda: not world.hosts[1].alive)
        world.hosts[1].disk.settle()  # It is down for a while.
        for follower in (2, 3):
            world.release(1, follower)
        world.settle()
        assert world.produce_to(TOPIC) is not None, "it takes the offset"
        world.restart(1)
        world.converge(2)
        assert value not in values_at(world, 1)
        world.lose_power(1, seed)
        world.expire(1)
        world.restart(1)
        world.converge(2)
        preferred = rq.ElectLeadersRequested(0, rq.ElectionKind.PREFERRED, (TopicPartition(TOPIC, 0),))
        world.ask(preferred, ef.AnswerElections)
        world.settle()
        state = world.state(TOPIC, 0)
        assert state is not None
        assert state.leader == 1
        world.resume(PRODUCER)
        heal(world)
        assert values_at(world, 1).count(value) == 1


def send(world: Cluster) -> int:
    """A program sends a record, again until its producer knows the topic and the leader has it; its value."""
    for _ in range(10):
        world.send(PRODUCER, TOPIC, 0)
        value = world.next_value - 1
        for _ in range(20):
            if value in values_at(world, 1):
                return value
            if (envelope := world.next_message()) is not None:
                world.deliver(envelope)
    raise AssertionError("nothing arrives")


def values_at(world: Cluster, broker_id: int) -> list[int]:
    """The values of the records in a broker's log."""
    return [value for _, value in world.hosts[broker_id].logs.log(KEY).log]
