"""A broker's shell with leaders of two partitions, on real logs, and what upkeep does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adversary.batches import good_batch
from effect_ports import perform_with
from faulty_files import FaultyFiles
from hightide.batch.header import iterate
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.events import LeaderAndIsrDecided, ProduceArrived
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.directories.maintenance import Maintenance, MaintenanceSettings
from hightide_broker.replica.group_commit import GroupCommit
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.storage import DataDirectory, LogSettings
from hightide_runtime.clock import Clock
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.tracing import Telemetry

TOPIC_ID: Final = bytes(range(16))
NEVER_MS: Final = 3_600_000


@dataclass
class Running:
    """A broker's shell with leaders of partitions 0 and 1, which nobody but this broker replicates."""

    data: DataDirectory
    shell: ReplicaShell
    replicas: list[HostedReplica]
    hosted: HostedReplicas
    upkeep: Maintenance
    failures: list[Exception]
    disk: ThreadPoolExecutor

    def produce(self, replica: HostedReplica) -> None:
        batch = good_batch(TOPIC_ID, replica.key[1])
        headers = [header for _, header in iterate(batch)]
        self.shell.feed(replica, ProduceArrived.dummy(acks_all=False), Payload(batch, headers))

    def produce_again(self, replica: HostedReplica, offset: int) -> None:
        """Append to the log alone, of which the end was cut off."""
        assert replica.log.log_end_offset == offset
        batch = good_batch(TOPIC_ID, replica.key[1])
        replica.log.append_as_leader(batch, [header for _, header in iterate(batch)], 1)

    async def round_ends(self) -> None:
        """The flushes that were asked for until now are over."""
        await self.shell.ports.group_commit.cover(())


def run(
    path: Path,
    scenario: Callable[[Running], Awaitable[None]],
    *,
    settings: LogSettings | None = None,
    files: FaultyFiles | None = None,
    clock: Clock | None = None,
) -> None:
    """Run it on a data directory, and end as a process does that is killed."""

    async def main() -> None:
        data = DataDirectory.open(path, "the-cluster", 1, files=files)
        failures: list[Exception] = []
        shell = ReplicaShell(SystemClock(), LeaderSessions(1), Telemetry.off(), failures.append)
        hosted = HostedReplicas()
        topic = TopicSettings(log=settings or LogSettings())
        for partition in (0, 1):
            key = (TOPIC_ID, partition)
            log = data.log(*key, True, "flights", topic.log)
            replica = HostedReplica(key, "flights", topic, Replica.opened(ReplicaSettings(1)), log)
            hosted.add(replica)
            shell.feed(replica, LeaderAndIsrDecided.dummy(1, 1, (1,), replicas=(1,)))
        with ThreadPoolExecutor(1) as disk:
            perform_with(shell, group_commit=GroupCommit(disk, shell.flushed, failures.append))
            upkeep = Maintenance(
                clock or SystemClock(), hosted, shell, data, disk,
                MaintenanceSettings(NEVER_MS, NEVER_MS, NEVER_MS), failures.append,
            )  # fmt: skip
            try:
                await scenario(Running(data, shell, list(hosted), hosted, upkeep, failures, disk))
            finally:
                await upkeep.close()
                shell.close()
                data.close(clean=False)

    asyncio.run(main())
