"""A topic's flush is changed, and changed again, before a machine goes down."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import pytest
from hightide_controller.core import effects as ef
from hightide_controller.core.values import requests as rq
from sim.topics.schedules import FIRST_ID, FLUSHED_AFTER_MS, TOPIC, begin, heal
from sim.topics.world import Cluster

KEY: Final = (bytes.fromhex(FIRST_ID), 0)


@pytest.mark.parametrize("is_down", [False, True], ids=["running", "down"])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_between_two_changes_of_flush_is_not_taken_to_be_on_disk(
    seed: int, is_down: bool
) -> None:
    """A machine goes down before any checkpoint says that what was acknowledged last is perhaps not on disk.
    The topic has flush=fsync again when its broker starts, or when it is told so."""
    with closing(Cluster()) as world:
        begin(world)
        flush(world, "fsync")
        assert world.produce_to(TOPIC) is not None
        world.settle()
        world.advance(FLUSHED_AFTER_MS)
        world.settle()
        flush(world, "replicated")
        for name in world.hosts[3].threads:
            if name.startswith("disk"):
                world.stop_threads(3, name)
        value = world.produce_to(TOPIC)
        world.settle()
        if not is_down:
            flush(world, "fsync")
        world.lose_power(3, seed)
        if is_down:
            flush(world, "fsync")
        for other in (1, 2):
            world.hold(other, 3)
        world.restart(3)
        world.settle()
        has_it = value in values_at(world, 3)
        state = world.state(TOPIC, 0)
        assert state is not None
        assert has_it or 3 not in state.isr
        heal(world)
        assert value in values_at(world, 3)


def flush(world: Cluster, how: str) -> None:
    """An operator sets the topic's flush."""
    world.ask(rq.AlterTopicConfigRequested(0, TOPIC, {"flush": how}), ef.AnswerTopic)
    world.settle()


def values_at(world: Cluster, broker_id: int) -> list[int]:
    """The values of the records in a broker's log."""
    return [value for _, value in world.hosts[broker_id].logs.log(KEY).log]
