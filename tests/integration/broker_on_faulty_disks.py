"""A broker whose disks fail on demand: the real program, in a process whose calls to the operating system
fail below a data directory while a file `<data directory>.<errno name>` exists beside it.

    /data/broker-1.EIO       every call fails, as on a disk that is gone
    /data/broker-1.ENOSPC    whatever needs room fails, as on a disk that is full

Nothing of the broker is replaced, only what it is given by the operating system: the functions of `os`.
"""

from __future__ import annotations

import errno
import os
import sys
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

_unharmed_stat = os.stat


def exists(path: str) -> bool:
    """As os.path.exists, whatever fails."""
    try:
        _unharmed_stat(path)
    except OSError:
        return False
    return True


def fail_below(directories: list[str]) -> None:
    """Wrap the functions of `os` for all paths in these directories."""

    def fault_at(path: str, needs_room: bool) -> int | None:
        for directory in directories:
            if path == directory or path.startswith(f"{directory}/"):
                if exists(f"{directory}.EIO"):
                    return errno.EIO
                if needs_room and exists(f"{directory}.ENOSPC"):
                    return errno.ENOSPC
        return None

    def failing(name: str, real: Callable[..., Any], path_of: Callable[[Any], str]) -> Callable[..., Any]:
        @wraps(real)
        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            needs_room = name in NEED_ROOM
            if name == "open":
                needs_room = bool(arguments and arguments[0] & os.O_CREAT) and not exists(target)
            path = path_of(target)
            fault = fault_at(path, needs_room)
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
