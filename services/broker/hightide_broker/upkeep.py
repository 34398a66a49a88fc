"""What a broker does now and then: checkpoint high watermarks, apply retention, empty the quarantine.

All of it runs on the disk's thread. A broker on which nothing moves writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from hightide_runtime.clock import Clock

from hightide_broker.core.events import LogStartMoved
from hightide_broker.decisions import PartitionKey
from hightide_broker.hosted import HostedReplicas
from hightide_broker.shell import ReplicaShell
from hightide_broker.storage import DataDirectory, LogClosed, StorageError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """How often."""

    checkpoint_interval_ms: int
    retention_interval_ms: int


class Upkeep:
    """The periodic work of one broker: two tasks, whatever the number of partitions."""

    def __init__(
        self,
        clock: Clock,
        replicas: HostedReplicas,
        shell: ReplicaShell,
        data: DataDirectory,
        disk: Executor,
        settings: UpkeepSettings,
    ) -> None:
        self._clock = clock
        self._replicas = replicas
        self._shell = shell
        self._data = data
        self._disk = disk
        self._written: dict[PartitionKey, int] = {}
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._every(settings.checkpoint_interval_ms, self.checkpoint)),
            loop.create_task(self._every(settings.retention_interval_ms, self.apply_retention)),
        ]

    async def close(self) -> None:
        """Stop; the caller checkpoints once more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def checkpoint(self) -> None:
        """Write down the high watermarks that moved since the last time. Raises StorageError."""
        moved = {
            replica.key: replica.state.high_watermark
            for replica in self._replicas
            if self._written.get(replica.key, 0) != replica.state.high_watermark
        }
        if not moved:
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._disk, self._data.checkpoint_high_watermarks, moved)
        self._written.update(moved)

    async def apply_retention(self) -> None:
        """Delete what is older or more than the topics keep. Raises StorageError."""
        loop = asyncio.get_running_loop()
        now_us = self._clock.wall_us()
        for replica in self._replicas:
            if replica.log.size_bytes == 0:
                continue
            try:
                start = await loop.run_in_executor(
                    self._disk, replica.log.apply_retention, now_us, replica.state.high_watermark
                )
            except LogClosed:
                continue
            if start > replica.state.log_start_offset:
                log.info("%s: retention deleted the records below %d", replica, start)
                self._shell.feed(replica, LogStartMoved(start))
        deleted = await loop.run_in_executor(self._disk, self._data.delete_expired_quarantine, now_us)
        for name in deleted:
            log.info("quarantined %s is deleted: its grace period is over", name)

    async def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await work()
            except StorageError as error:
                log.error("%s is repeated later: %s", work.__name__, error)
