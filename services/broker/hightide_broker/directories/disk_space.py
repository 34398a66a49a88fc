"""The free space where a broker keeps its logs, as the file system reports it."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from hightide_broker.contract.descriptions import DescribedDirectory
from hightide_broker.directories.log_directories import LogDirectories, LogDirectory

PATIENCE_S: Final = 1.0
"""If a disk hangs, callers do not wait for it: they get the last known sizes."""


class DiskSpace:
    """Reports the space of all disks. One for each broker; belongs to the event loop's thread. One query for
    a disk is under way at a time."""

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories
        self._asking: dict[int, asyncio.Future[tuple[int, int]]] = {}
        self._known: dict[int, tuple[int, int]] = {}

    async def describe(self) -> list[DescribedDirectory]:
        """All log directories, in order."""
        return list(await asyncio.gather(*map(self._describe, self._directories.all)))

    async def _describe(self, directory: LogDirectory) -> DescribedDirectory:
        number = directory.number
        if directory.failure is None:
            asking = self._asking.get(number)
            if asking is None:
                # On the directory's own thread, which hangs already if its disk does.
                asking = asyncio.ensure_future(directory.run(_space_of, directory.path))
                self._asking[number] = asking
            await asyncio.wait({asking}, timeout=PATIENCE_S)
            if asking.done() and self._asking.get(number) is asking:
                del self._asking[number]
                self._known[number] = (0, 0) if asking.exception() else asking.result()
        total_bytes, free_bytes = self._known.get(number, (0, 0))
        return DescribedDirectory(directory.path, directory.failure is not None, total_bytes, free_bytes)


def _space_of(path: str) -> tuple[int, int]:
    """The size of the file system, and the free space for this process."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
