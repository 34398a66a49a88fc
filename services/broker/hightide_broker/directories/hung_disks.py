"""Replicas whose clients wait for a disk that does not answer. Other brokers lead them until it does.

A call that does not return may still return, so nothing is taken out of service. The broker reports to the
controller, as with damage. Such a replica leaves the ISR if another one is well, and stops leading. It
fetches nothing, so that its leader does not count it as in sync. When the disk answers again the controller
gets a report of that, too.

Which replicas wait? For a sync, only those that acknowledge records after they are on disk (flush=fsync).
With flush=replicated syncs run beside everything else, and a slow sync does not harm a leader. For any other
call, all replicas on the disk wait.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.replica import Role
from hightide_broker.directories.fetch_pauses import FetchPausePort
from hightide_broker.directories.log_directories import LogDirectory
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas

__all__ = ["HungDisks"]

log = logging.getLogger(__name__)

SYNCS: Final = frozenset(("sync", "sync_directory"))
TELL_AGAIN_S: Final = 5.0
"""The controller may have forgotten the report: this broker may have registered anew."""
TOLD_S: Final = 5.0
"""How long to wait until the controller knows that a disk answers again; then the replica fetches without
that."""


class HangReportPort(Protocol):
    """Reports to the controller (`failed_replicas.FailedReplicas`)."""

    def report_hang(self, key: PartitionKey) -> None:
        """Report that a replica waits for its disk."""
        ...

    def hangs_no_more(self, key: PartitionKey) -> None:
        """Report that it does not wait any more."""
        ...

    async def told(self, patience_s: float) -> None:
        """Wait until the controller has acknowledged all reports, for at most `patience_s`."""
        ...


class HungDisks:
    """All replicas of a broker that wait for a disk. Belongs to the event loop's thread; `DiskWatch` calls
    it."""

    def __init__(self, replicas: HostedReplicas, copying: FetchPausePort, reports: HangReportPort) -> None:
        self._replicas = replicas
        self._copying = copying
        self._reports = reports
        self._waiting: dict[LogDirectory, dict[PartitionKey, HostedReplica]] = {}
        self._told_s: dict[LogDirectory, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting_count(self) -> int:
        """How many replicas wait for a disk."""
        return sum(map(len, self._waiting.values()))

    def does_not_answer(self, disk: LogDirectory, calls: frozenset[str]) -> None:
        """Take note that calls of these names to a disk do not return. Called repeatedly while that lasts."""
        if disk.failure is not None:
            return
        waiting = self._waiting.setdefault(disk, {})
        new = [each for each in self._on(disk) if waiting.get(each.key) is not each and _waits(each, calls)]
        for replica in new:
            waiting[replica.key] = replica
            replica.waits_for_disk = True
            self._copying.hold(replica)
            self._reports.report_hang(replica.key)
        if new:
            log.error("%d replicas wait for the disk of %s: others lead what they can", len(new), disk)
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s.setdefault(disk, now_s) > TELL_AGAIN_S:
            self._told_s[disk] = now_s
            self._tell_again(waiting)

    def answers(self, disk: LogDirectory) -> None:
        """Take note that the calls returned, and the disk has answered for some time."""
        released = list(self.forget(disk).values())
        for replica in released:
            if not replica.is_damaged:  # Else it is reported when it is repaired.
                self._reports.hangs_no_more(replica.key)
        task = asyncio.get_running_loop().create_task(self._go_on(released), name=f"answers-{disk.number}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, disk: LogDirectory) -> dict[PartitionKey, HostedReplica]:
        """Drop a disk that is offline, or answers. Returns the replicas that waited for it."""
        self._told_s.pop(disk, None)
        released = self._waiting.pop(disk, {})
        for replica in released.values():
            replica.waits_for_disk = False
        return released

    def tell_again(self) -> None:
        """Report again: a new controller was elected, which knows of no replica that waits."""
        for waiting in self._waiting.values():
            self._tell_again(waiting)

    async def close(self) -> None:
        """Stop."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _tell_again(self, waiting: dict[PartitionKey, HostedReplica]) -> None:
        for key, replica in waiting.items():
            if self._replicas.get(key) is replica:
                self._reports.report_hang(key)

    async def _go_on(self, released: list[HostedReplica]) -> None:
        # It would join the ISR, and a controller that does not know yet would remove it.
        await self._reports.told(TOLD_S)
        for replica in released:
            if self._replicas.get(replica.key) is replica and not replica.is_held:
                self._copying.resume(replica)

    def _on(self, disk: LogDirectory) -> list[HostedReplica]:
        return [each for each in self._replicas if each.log.data_directory == disk.path]


def _waits(replica: HostedReplica, calls: frozenset[str]) -> bool:
    if replica.state.role in (Role.FAILED, Role.STOPPED):
        return False
    return replica.state.settings.flush_on_disk or not calls <= SYNCS
