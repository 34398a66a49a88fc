"""A coordinator whose process was paused, and whose session has not ended: it asks before it goes on."""

from __future__ import annotations

import asyncio

from hightide_coordinator.core.events import Ticked
from hightide_coordinator.core.state.shard_state import Role
from hightide_coordinator.settings import CoordinatorSettings
from hightide_coordinator.shell import CoordinatorShell
from hightide_coordinator.zookeeper.shard_count import fix_shard_count
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry
from integration.controller.controller_harness import until
from integration.coordinator.coordinator_rig import connected, me


class JumpingClock(SystemClock):
    """What a process that did not run for a while sees of it."""

    def __init__(self) -> None:
        self.paused_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.paused_ms


def test_a_coordinator_that_was_paused_resigns_at_once_and_resumes_if_it_still_holds_the_znode(
    zookeeper_hosts: str,
) -> None:
    async def run() -> None:
        settings = CoordinatorSettings.from_command_line(
            ["--coordinator-id", "1", "--zookeeper", zookeeper_hosts]
        )
        async with connected(zookeeper_hosts) as session:
            shard_count = await fix_shard_count(session, 1)
            clock = JumpingClock()
            telemetry = Telemetry.set_up("coordinator", "1")
            shell = CoordinatorShell(
                settings, shard_count, "cluster", me(), session, telemetry, clock, open_channel
            )
            (shard,) = shell.shards

            async def is_active() -> bool:
                return shard.state.role is Role.ACTIVE

            shell.start()
            try:
                await until(is_active, "it is elected")
                epoch = shard.state.coordinator_epoch
                clock.paused_ms += session.granted_timeout_ms
                shard.take(Ticked())
                assert shard.state.role is Role.STANDBY, "whatever comes first is not answered any more"
                await until(is_active, "ZooKeeper has said that it still is")
                assert shard.state.coordinator_epoch == epoch
            finally:
                await shell.close()

    asyncio.run(run())
