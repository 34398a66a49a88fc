"""A file of lines that a process appends to for months, and that never gets long.

It holds what was written last: when it is full it becomes the file from before, whose place it takes, and
begins again. So the disk holds two of them at most, and the latest lines at least as many as fill one.
"""

import os
import threading
from pathlib import Path
from typing import Final

__all__ = ["FILE_BYTES_MAX", "AppendedLines"]

FILE_BYTES_MAX: Final = 16 << 20
"""As much as `hightide trace` reads of a file."""


class AppendedLines:
    """Of one process alone. May be used on any thread."""

    def __init__(self, path: Path, bytes_max: int = FILE_BYTES_MAX) -> None:
        """Goes on behind what is there. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._before = path.with_name(f"{path.stem}.before{path.suffix}")
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._open()

    def append(self, lines: str) -> None:
        """Write whole lines, through to the operating system: a process that is killed has written them.
        Raises OSError, also where the file cannot begin again, and ValueError once it was closed."""
        data = lines.encode()
        with self._lock:
            if self._size_bytes and self._size_bytes + len(data) > self._bytes_max:
                self._begin_again()
            self._file.write(data)
            self._size_bytes += len(data)

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            self._file.close()

    def _begin_again(self) -> None:
        if self._file.closed:
            raise ValueError(f"{self._path} is closed")
        os.replace(self._path, self._before)
        self._file.close()
        self._open()

    def _open(self) -> None:
        self._file = self._path.open("ab", buffering=0)
        self._size_bytes = self._file.tell()
