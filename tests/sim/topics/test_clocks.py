"""Walls that are wrong, on machines whose brokers are killed."""

from __future__ import annotations

from contextlib import closing

import pytest
from sim.topics.schedules import FIRST_ID, TOPIC, begin
from sim.topics.world import Cluster

YEAR_MS = 365 * 24 * 60 * 60 * 1000
REPLICAS = (1, 2, 3)
UNTIL_RETENTION_MS = 400_000
KEY = (bytes.fromhex(FIRST_ID), 0)


@pytest.mark.parametrize("by_ms", [-YEAR_MS, YEAR_MS])
def test_what_a_kill_left_unsynced_is_not_old_since_the_wall_was_wrong(by_ms: int) -> None:
    with closing(Cluster()) as world:
        begin(world)
        for broker_id in REPLICAS:
            world.set_clock(broker_id, by_ms)
        assert world.produce_to(TOPIC) is not None
        world.settle()
        for broker_id in REPLICAS:
            world.crash(broker_id)
            world.expire(broker_id)
        world.heal()
        world.until_healed()  # Nothing is appended again.
        for _ in range(UNTIL_RETENTION_MS // 1000):
            world.advance(1000)
            world.settle()
        log = world.hosts[1].logs.log(KEY)
        assert (log.log_start, len(log.log)) == (0, 2)
