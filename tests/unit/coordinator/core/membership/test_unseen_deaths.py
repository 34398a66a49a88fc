"""Who was not on standby does not know since when there was no coordinator, and does not say that it does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.machine import new_state
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.tracing.shard_traces import ShardTraces
from hightide_coordinator.zookeeper.candidacy import ShardTakeover
from hightide_coordinator.zookeeper.peers import PeerWatch
from hightide_local.processes.ports import free_port
from hightide_local.traces.span_files import read_spans
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.span_kinds import COORDINATOR_DETECTION, COORDINATOR_FAILOVER
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.mark.parametrize(("broke_at_us", "root_at_us"), [(100, 100), (None, 200)])
def test_a_takeover_tells_of_detection_where_the_break_was_seen(
    tmp_path: Path, broke_at_us: int | None, root_at_us: int
) -> None:
    telemetry = Telemetry.set_up("coordinator", "1", directory=tmp_path)
    traces = ShardTraces("cluster", 0, telemetry, SystemClock())
    shard = new_state(GroupLimits())
    shard.coordinator_epoch = 7
    before = Endpoint(6, "127.0.0.1", 9100)
    traces.taken_over(ShardTakeover("process_died", before, broke_at_us, 200, 300, 400), shard)
    telemetry.shut_down()
    spans = {span.name: span for span in read_spans(tmp_path)}
    assert spans[COORDINATOR_FAILOVER].start_us == root_at_us
    assert (COORDINATOR_DETECTION in spans) is (broke_at_us is not None)


def test_of_a_process_that_was_dead_from_the_start_nobody_says_when_it_died() -> None:
    async def scenario() -> int | None:
        told: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        PeerWatch(SystemClock(), open_channel).watch(0, HostPort("127.0.0.1", free_port()), told.set_result)
        return await asyncio.wait_for(told, 60)

    assert asyncio.run(scenario()) is None
