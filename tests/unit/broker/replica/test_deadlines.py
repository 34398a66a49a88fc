"""The one timer behind all ISRs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.events import LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.machine import step
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.replica.deadlines import Deadlines
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.storage import DataDirectory
from hightide_runtime.system_clock import SystemClock

RUNG_S = 60.0


def lagged_by(data: DataDirectory, partition: int) -> HostedReplica:
    """A leader whose follower has been lagging since the clock began."""
    state = Replica.opened(ReplicaSettings(1))
    for event in (
        LeaderAndIsrDecided.dummy(1, 1, (1, 2), replicas=(1, 2), now_ms=-60_000),
        ProduceArrived.dummy(acks_all=False, now_ms=-60_000),
    ):
        state, _ = step(state, event)
    topic_id, topic = bytes(range(16)), TopicSettings()
    log = data.log(topic_id, partition, True, "flights", topic.log)
    return HostedReplica((topic_id, partition), "flights", topic, state, log)


def test_a_replica_that_fails_at_its_deadline_takes_no_other_ones_timer_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = DataDirectory.open(tmp_path, "the-cluster", 1)

    async def scenario() -> None:
        replicas = [lagged_by(data, partition) for partition in (0, 1)]
        rung = asyncio.Event()

        def due(replica: HostedReplica) -> None:
            assert replica is replicas[1]
            rung.set()

        deadlines = Deadlines(SystemClock(), due)
        for replica in replicas:
            deadlines.note(replica)
        await asyncio.wait_for(rung.wait(), RUNG_S)
        deadlines.close()

    asyncio.run(scenario())
    assert "flights-0: at its deadline" in caplog.text
    data.close()
