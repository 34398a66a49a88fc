"""A file of limited size to which a process appends lines.

When the file is full, it is renamed, which replaces the file with that name, and a new one begins. So there
are at most two files, and the latest lines fill at least one.
"""

import os
import threading
from pathlib import Path
from typing import Final

__all__ = ["FILE_BYTES_MAX", "AppendedLines"]

FILE_BYTES_MAX: Final = 16 << 20
"""`hightide trace` reads as much of a file."""


class AppendedLines:
    """The file of one process. Any thread may call it."""

    def __init__(self, path: Path, bytes_max: int = FILE_BYTES_MAX) -> None:
        """Open the file, and append to its content. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._before = path.with_name(f"{path.stem}.before{path.suffix}")
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._open()

    def append(self, lines: str) -> None:
        """Write whole lines to the operating system, so that they survive a kill of the process. Raises
        OSError, also if a new file cannot begin, and ValueError after `close`."""
        data = lines.encode()
        with self._lock:
            if self._size_bytes and self._size_bytes + len(data) > self._bytes_max:
                self._begin_again()
            self._file.write(data)
            self._size_bytes += len(data)

    def close(self) -> None:
        """Close the file."""
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
