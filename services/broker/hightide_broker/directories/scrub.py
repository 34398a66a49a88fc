"""Reading all data at rest from time to time, so that damage is found before the damaged records are needed.

Theory of operation. Disks change bytes without an error. Records that no client reads may be damaged on all
replicas by the time they are read. So each batch is read and checked regularly, at a bounded rate, in a
thread of its own: produce and fetch wait for nothing but the disk. Damage is handled as everywhere
(`healing`). What is whole on a follower is compared with its leader (`comparison`). If a pass does not end in
time, the next one follows at once.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, Protocol

from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import BatchPlace, DamagedLog, StorageError

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 256 * 1024
LOG_BYTES_MIN: Final = 4 * 1024 * 1024
"""A smaller log counts as so many bytes: a check costs turns of a thread and perhaps a call to the leader.
That is 3 ms of CPU time in both brokers. At the default speed a pass over ten thousand small logs takes three
hours of the day."""
FIRST_PASS_S: Final = 60.0
"""The longest time before the first pass after a start."""


@dataclass(frozen=True, slots=True)
class ScrubSettings:
    """How fast, and how often."""

    bytes_per_s: int
    """0 switches it off."""
    interval_ms: int
    """The least time from the beginning of one pass to that of the next."""


class ComparisonPort(Protocol):
    """Compares with leaders (`comparison.LeaderComparison`)."""

    async def compare(
        self, replica: HostedReplica, base_offset: int, end_offset: int, size_bytes: int
    ) -> None:
        """Compare batches that are whole here."""
        ...

    async def rest(self) -> None:
        """End a pass."""
        ...


class ReplicaScrub:
    """Checks all replicas of a broker in one task. Belongs to the event loop's thread."""

    def __init__(
        self,
        replicas: HostedReplicas,
        disk: Executor,
        settings: ScrubSettings,
        comparison: ComparisonPort | None = None,
    ) -> None:
        """`disk` runs the reads."""
        self._comparison = comparison
        self._replicas = replicas
        self._disk = disk
        self._settings = settings
        self.checked_bytes = 0
        self._task: asyncio.Task[None] | None = None
        if settings.bytes_per_s:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="scrub")

    async def close(self) -> None:
        """Stop; the next start begins a pass anew."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        loop, interval_s = asyncio.get_running_loop(), self._settings.interval_ms / 1000
        await asyncio.sleep(min(FIRST_PASS_S, interval_s))
        while True:
            began = loop.time()
            try:
                await self.check_all()
            except Exception:
                # The top of a task: without this, nothing would be checked any more.
                log.exception("checking what is at rest is repeated later")
            await asyncio.sleep(max(0.0, began + interval_s - loop.time()))

    async def check_all(self) -> None:
        """Make one pass over all data that is at rest now."""
        before = self.checked_bytes
        try:
            for replica in self._replicas:
                if replica.log.size_bytes:
                    await self._check(replica)
        finally:
            if self._comparison is not None:
                await self._comparison.rest()
        log.info("%d bytes at rest are checked", self.checked_bytes - before)

    async def _check(self, replica: HostedReplica) -> None:
        loop, at_rest = asyncio.get_running_loop(), replica.log.at_rest
        place: BatchPlace | None = None
        checked_bytes = 0
        while True:
            base_offset = 0 if place is None else place.offset
            try:
                place, size_bytes = await loop.run_in_executor(self._disk, at_rest.check, place, PIECE_BYTES)
            except DamagedLog as damage:
                # It is being repaired (`healing`). Other damage is found now, and not after a day.
                place, size_bytes = BatchPlace(damage.segment + 1, 0, damage.segment + 1), 0
            except StorageError as error:
                log.debug("%s is not checked: %s", replica, error)
                return
            self.checked_bytes += size_bytes
            checked_bytes += size_bytes
            if size_bytes and self._comparison is not None:
                end_offset = replica.log.log_end_offset if place is None else place.offset
                await self._comparison.compare(replica, base_offset, end_offset, size_bytes)
            counted_bytes = size_bytes if place is not None else size_bytes + missing_bytes(checked_bytes)
            await asyncio.sleep(counted_bytes / self._settings.bytes_per_s)
            if place is None:
                return


def missing_bytes(checked_bytes: int) -> int:
    """What a log of so many bytes counts beyond them."""
    return max(0, LOG_BYTES_MIN - checked_bytes)
