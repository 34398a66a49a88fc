"""The open files of a data directory: few, however many partitions there are.

Theory of operation. A file is opened when it is used and stays open until it is the one used longest ago and
the cap is reached. A lease keeps it open while it is used. Closing loses nothing: written pages belong to the
file, not to the descriptor.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from types import TracebackType

from hightide_broker.storage.files.files import Files

__all__ = ["FileLease", "OpenFiles"]


class _OpenFile:
    __slots__ = ("doomed", "fd", "leases")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.leases = 0
        self.doomed = False


class FileLease:
    """A file that stays open until `release`; a context that gives the descriptor."""

    __slots__ = ("_file", "_owner")

    def __init__(self, owner: OpenFiles, file: _OpenFile) -> None:
        self._owner = owner
        self._file = file

    @property
    def fd(self) -> int:
        """The descriptor; only until `release`."""
        return self._file.fd

    def release(self) -> None:
        """Return the lease; once."""
        self._owner.give_back(self._file)

    def __enter__(self) -> int:
        return self._file.fd

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.give_back(self._file)


class OpenFiles:
    """Opens files on demand, at most `open_files_max` beyond those on lease. Any thread."""

    def __init__(self, files: Files, open_files_max: int) -> None:
        assert open_files_max > 0
        self._files = files
        self._max = open_files_max
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def lease(self, path: str, create: bool = False) -> FileLease:
        """The file, open for reading and writing. Raises OSError."""
        with self._lock:
            file = self._open.get(path)
            if file is None:
                self._make_room()
                file = self._open[path] = _OpenFile(self._files.open(path, create))
            else:
                self._open.move_to_end(path)
            file.leases += 1
            return FileLease(self, file)

    def _make_room(self) -> None:
        """Close the file used longest ago. Files on lease stay; there are no more of those than threads."""
        if len(self._open) < self._max:
            return
        for path, file in self._open.items():
            if file.leases == 0:
                del self._open[path]
                self._files.close(file.fd)
                return

    def give_back(self, file: _OpenFile) -> None:
        """Only for `FileLease`."""
        with self._lock:
            assert file.leases > 0
            file.leases -= 1
            if file.doomed and file.leases == 0:
                self._files.close(file.fd)

    def forget(self, path: str) -> None:
        """Close a file that is about to be removed or renamed, as soon as no lease holds it."""
        with self._lock:
            file = self._open.pop(path, None)
            if file is None:
                return
            if file.leases:
                file.doomed = True
            else:
                self._files.close(file.fd)

    def close(self) -> None:
        """Close everything; nothing may be on lease."""
        for path in list(self._open):
            self.forget(path)
