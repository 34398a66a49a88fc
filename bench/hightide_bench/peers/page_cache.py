"""Fills the page cache, so that both systems write into memory that this machine really has.

On a virtual machine, memory that was given back to the host is slow to use again. Whoever writes first after
that pays for it, whichever system it is: two seconds of processor time for 10⁹ bytes that it writes, in each
replica. So the page cache is filled before each turn.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

#: So much memory stays free.
_LEFT_FREE_BYTES: Final = 256 << 20
#: The file is read further with each filling, since what is in the cache already takes no new memory.
_FILE_BYTES: Final = 1 << 40
_CHUNK_BYTES: Final = 1 << 20


class PageCache:
    """A file without content, which takes no room on the disk; reading it takes memory. A with-block."""

    def __init__(self, path: Path, free_bytes: Callable[[], int] | None = None) -> None:
        """`free_bytes` tells how much memory is free; tests have one of their own."""
        self._path, self._position = path, 0
        self._free_bytes = free_bytes or _free_bytes

    def fill(self) -> int:
        """Read until little memory is free. Return how many bytes were read."""
        wanted = max(self._free_bytes() - _LEFT_FREE_BYTES, 0)
        read = 0
        with self._path.open("rb", buffering=0) as file:
            file.seek(self._position)
            while read < wanted:
                chunk = len(file.read(_CHUNK_BYTES))
                if not chunk:
                    break
                read += chunk
        self._position += read
        return read

    def __enter__(self) -> Self:
        """Make the file."""
        with self._path.open("wb") as file:
            os.truncate(file.fileno(), _FILE_BYTES)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the file."""
        with suppress(FileNotFoundError):
            self._path.unlink()


def _free_bytes() -> int:
    return int(psutil.virtual_memory().free)
