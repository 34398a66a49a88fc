"""A broker whose disks fail on demand: the real program, in a process whose calls to the operating system
fail below a data directory while a file `<data directory>.<fault>` exists beside it.

    /data/broker-1.EIO       every call fails, as on a broken disk
    /data/broker-1.ENOSPC    every call that needs space fails, as on a full disk
    /data/broker-1.EROFS     every call that changes something fails, as on a read-only file system
    /data/broker-1.SLOW      every call takes 20 ms longer
    /data/broker-1.HUNG      every call waits until the file is deleted, as on a disk that does not answer.
                             The calling thread waits, too, even if it is that of the event loop
    /data/broker-1.STUCK     every sync waits until the file is deleted; all other calls work

The broker's code is not changed, only the functions of `os` that it calls. `hightide bench faults` and tests
start it.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from typing import Any, Final

from hightide_broker.main import main

BY_PATH: Final = (
    "lstat",
    "listdir",
    "scandir",
    "mkdir",
    "unlink",
    "rmdir",
    "replace",
    "rename",
    "open",
    "stat",
)
BY_FD: Final = ("pread", "pwrite", "pwritev", "fsync", "fdatasync", "ftruncate")
NEED_ROOM: Final = frozenset(("pwrite", "pwritev", "mkdir"))
SYNC: Final = frozenset(("fsync", "fdatasync"))
CHANGE: Final = NEED_ROOM | {"unlink", "rmdir", "replace", "rename", "ftruncate"}
SLOWER_S: Final = 0.02
LOOK_AGAIN_S: Final = 0.02

_unharmed_stat = os.stat


def exists(path: str) -> bool:
    """As os.path.exists, whatever fails."""
    try:
        _unharmed_stat(path)
    except OSError:
        return False
    return True


class FaultyDisk:
    """One data directory, and its present faults."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._below = f"{directory}/"

    def holds(self, path: str) -> bool:
        """Whether the path is on this disk."""
        return path == self.directory or path.startswith(self._below)

    def has(self, fault: str) -> bool:
        """Whether the fault is switched on."""
        return exists(f"{self.directory}.{fault}")

    def fault(self, *, needs_room: bool, changes: bool, syncs: bool) -> int | None:
        """The error number for a call, or None if it should succeed. Waits if the disk is slow or hangs."""
        while syncs and self.has("STUCK"):
            time.sleep(LOOK_AGAIN_S)
        if self.has("SLOW"):
            time.sleep(SLOWER_S)
        while self.has("HUNG"):
            time.sleep(LOOK_AGAIN_S)
        if self.has("EIO"):
            return errno.EIO
        if needs_room and self.has("ENOSPC"):
            return errno.ENOSPC
        if changes and self.has("EROFS"):
            return errno.EROFS
        return None


def fail_below(directories: list[str]) -> None:
    """Wrap the functions of `os` for all paths in these directories."""
    disks = [FaultyDisk(directory) for directory in directories]

    def failing(name: str, real: Callable[..., Any], path_of: Callable[[Any], str]) -> Callable[..., Any]:
        @wraps(real)
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            path = path_of(target)
            disk = next((each for each in disks if each.holds(path)), None)
            if disk is None:
                return real(target, *arguments, **options)
            needs_room, changes = name in NEED_ROOM, name in CHANGE
            if name == "open" and arguments and arguments[0] & os.O_CREAT:
                needs_room = changes = not exists(path)
            fault = disk.fault(needs_room=needs_room, changes=changes, syncs=name in SYNC)
            if fault is not None:
                raise OSError(fault, os.strerror(fault), path)
            return real(target, *arguments, **options)

        return call

    for name in BY_PATH:
        setattr(os, name, failing(name, getattr(os, name), _path))
    for name in BY_FD:
        setattr(os, name, failing(name, getattr(os, name), _path_of_fd))


def _path(target: Any) -> str:
    return os.fsdecode(target) if isinstance(target, str | bytes | os.PathLike) else _path_of_fd(target)


def _path_of_fd(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


if __name__ == "__main__":
    fail_below([value for flag, value in pairwise(sys.argv) if flag == "--data-dir"])
    main()
