"""The periodic work in a data directory: flush, checkpoint, retention, emptying the quarantine.

All of it runs on the directory's thread, and ends when the directory goes offline. If nothing has changed,
nothing is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from hightide_runtime.clock import Clock

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.events import RecordsExpired
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.replica import Role
from hightide_broker.directories.retention_report import RetentionReport
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import ReplicaShell
from hightide_broker.storage import (
    DamagedLog,
    DataDirectory,
    DiskFull,
    ExpiredRecords,
    LogClosed,
    StorageError,
)

log = logging.getLogger(__name__)

RETENTION_AT_ONCE: Final = 50
"""Logs that one turn of the thread applies retention to; some 25 us each if there is nothing to delete."""


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """How often each kind of work is done."""

    checkpoint_interval_ms: int
    flush_interval_ms: int
    retention_interval_ms: int


class Maintenance:
    """The periodic work of one data directory: three tasks, whatever the number of partitions."""

    def __init__(
        self,
        clock: Clock,
        replicas: HostedReplicas,
        shell: ReplicaShell,
        data: DataDirectory,
        disk: Executor,
        settings: MaintenanceSettings,
        on_failed: Callable[[Exception], None],
    ) -> None:
        """`disk` is the directory's thread; `on_failed` gets each error, which may be the last."""
        self._clock = clock
        self._replicas = replicas
        self._shell = shell
        self._data = data
        self._disk = disk
        self._on_failed = on_failed
        # As last written, for each partition: high watermark, durable end, whether its acknowledgements are
        # synced, its latest epoch, and whether it is damaged.
        self._written: dict[PartitionKey, tuple[int, int, bool, int, bool]] = {}
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._every(settings.checkpoint_interval_ms, self.checkpoint)),
            loop.create_task(self._every(settings.flush_interval_ms, self.flush)),
            loop.create_task(self._every(settings.retention_interval_ms, self.apply_retention)),
        ]

    async def close(self) -> None:
        """Stop; the caller checkpoints once more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def _replicas_here(self) -> list[HostedReplica]:
        return [replica for replica in self._replicas if replica.log.data_directory == self._data.path]

    async def checkpoint(self) -> None:
        """Store the high watermarks and recovery points that moved since the last time.

        Raises StorageError.
        """
        now = {
            replica.key: (
                replica.state.high_watermark,
                replica.log.durable_end_offset,
                replica.log.promises.acks_are_synced,
                replica.log.epochs.latest,
                replica.is_damaged,
            )
            for replica in self._replicas_here()
        }
        nothing = (0, 0, False, NO_EPOCH, False)
        moved = {
            key: each
            for key, each in now.items()
            if each[:2] != (0, 0) and self._written.get(key, nothing) != each
        }
        if moved:
            high_watermarks = {key: high_watermark for key, (high_watermark, *_) in moved.items()}
            latest_epochs = {key: latest for key, (*_, latest, _is_damaged) in moved.items()}
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(
                self._disk, self._data.checkpoint_high_watermarks, high_watermarks, latest_epochs
            )
            self._written = now
        for replica in self._replicas_here():
            is_strict = replica.state.settings.flush_on_disk and not replica.settings.flush_on_disk
            if is_strict and not self._data.acks_were_synced(*replica.key):
                self._shell.wait_for_no_disk(replica)

    async def checkpoint_last(self) -> None:
        """Checkpoint once more before the directory is closed. A failure costs recovery time, and nothing
        else."""
        if self._data.failed:
            return
        try:
            await self.checkpoint()
        except StorageError as error:
            log.error("the last checkpoint of %s is not written: %s", self._data.path, error)

    async def flush(self) -> None:
        """Sync what was appended since the last time, so that recovery after a crash has little to read.
        Where a log takes nothing yet, look first whether there is room now.

        It syncs one log at a time, so that a request with flush=fsync waits for one more log, not for all.
        Raises StorageError.
        """
        for replica in self._replicas_here():
            if replica.log.takes_nothing_yet:
                await self._keep_aside(replica)
            if not replica.log.is_closed and replica.log.durable_end_offset < replica.log.log_end_offset:
                try:
                    await asyncio.shield(self._shell.ports.group_commit.cover((replica,)))
                except DamagedLog as damage:
                    log.error("%s: it is flushed when it is mended: %s", replica, damage)

    async def _keep_aside(self, replica: HostedReplica) -> None:
        """Let a log go on whose end could not be kept aside when it was recovered. Raises StorageFailed."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._disk, replica.log.keep_aside)
        except (DiskFull, LogClosed) as error:
            log.warning("%s: %s", replica, error)

    async def apply_retention(self) -> None:
        """Delete what is older or larger than the topics keep, and forget producers. Raises StorageError."""
        loop = asyncio.get_running_loop()
        now_us = self._data.now_us()
        now_ms = self._clock.monotonic_ms()
        cuts = RetentionReport()
        replicas = self._replicas_here()
        for done in range(0, len(replicas), RETENTION_AT_ONCE):
            # Most logs have nothing to let go. A turn of the thread for each cost five times as much.
            some = replicas[done : done + RETENTION_AT_ONCE]
            found = await loop.run_in_executor(self._disk, _find_expired, some, now_us, now_ms)
            for replica, each in zip(some, found, strict=True):
                if isinstance(each, StorageError):
                    self._not_applied(replica, each)
                elif each is not None and self._may_begin(replica, each):
                    # In a turn of its own: it may take long, and whoever waits for a sync on this thread
                    # waits for one of these, not for all.
                    try:
                        await loop.run_in_executor(self._disk, replica.log.delete_before_start, each.reasons)
                    except StorageError as error:
                        self._not_applied(replica, error)
                    cuts.note(replica)
        if told := cuts.sentence():
            log.info("retention in %s: %s", self._data.path, told)
        deleted = await loop.run_in_executor(self._disk, self._data.delete_expired_quarantine, now_us)
        for name in deleted:
            log.info("quarantined %s is deleted: its grace period is over", name)
        await loop.run_in_executor(self._disk, self._data.write_time)

    def _may_begin(self, replica: HostedReplica, expired: ExpiredRecords) -> bool:
        """Let a log begin where retention has found that it may, unless it was cut since, or is not committed
        as far any more. The start moves here and nowhere else: whoever truncates the log knows where it
        begins."""
        if replica.log.truncations != expired.truncations:
            return False
        self._shell.feed(replica, RecordsExpired(expired.start_offset))
        if replica.state.log_start_offset < expired.start_offset:
            return False
        replica.log.move_start(expired.start_offset)
        return True

    def _not_applied(self, replica: HostedReplica, error: StorageError) -> None:
        """Take note that retention failed at a log. Raises StorageError if the directory failed."""
        if isinstance(error, LogClosed):
            return
        if self._data.failed:
            raise error
        # On a full disk one log may need room before it can free some; the others free theirs now.
        log.error("%s: retention is repeated later: %s", replica, error)

    async def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while not self._data.failed:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await work()
            except StorageError as error:
                log.error("%s failed: %s", work.__name__, error)
                self._on_failed(error)
            except Exception:
                # The top of a task: without this, nothing would be checkpointed or deleted ever again.
                log.exception("%s is repeated later", work.__name__)


def _find_expired(
    some: Sequence[HostedReplica], now_us: int, now_ms: int
) -> list[ExpiredRecords | StorageError | None]:
    """What may go from each log, or the error of one that failed. Called on the disk's thread."""
    found: list[ExpiredRecords | StorageError | None] = []
    for each in some:
        each.log.expire_producers(now_ms)
        state = each.state
        # Records that its leader has lost are kept until an operator has decided.
        if each.log.size_bytes == 0 or state.role is Role.DIVERGED:
            found.append(None)
            continue
        leaders_start = each.leaders_log_start if state.is_follower else 0
        try:
            found.append(each.log.find_expired(now_us, state.high_watermark, leaders_start))
        except StorageError as error:
            found.append(error)
    return found
