"""Turns the operating system's errors into those of this package, and remembers the first that is final.

Theory of operation. After a failed fsync the kernel may have dropped the pages and marked them clean, so a
second fsync that succeeds proves nothing. After any I/O error, then, the data directory takes no more writes;
reads go on. A full disk and a lack of file descriptors pass, so they are not final.
"""

from __future__ import annotations

import errno
from types import TracebackType
from typing import Final

from hightide_broker.storage.errors import DiskFull, StorageFailed

__all__ = ["DiskHealth"]

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_PASSING: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


class DiskHealth:
    """The health of one data directory. A context around file calls; one object for all, so it holds no
    state of a call."""

    __slots__ = ("_failure", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._failure: str | None = None

    @property
    def failed(self) -> bool:
        """Whether there was a final error."""
        return self._failure is not None

    def check_writable(self) -> None:
        """Raise StorageFailed after the first final error; called before every write."""
        if self._failure is not None:
            raise StorageFailed(f"data directory {self._path} failed before: {self._failure}")

    def fail(self, error: OSError) -> StorageFailed:
        """Note a final error; the caller raises what this gives."""
        if self._failure is None:
            self._failure = str(error)
        return StorageFailed(
            f"data directory {self._path} failed: {error}; it takes no more writes until the broker is "
            "restarted on a disk that works"
        )

    def __enter__(self) -> DiskHealth:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno in _FULL:
            raise DiskFull(f"data directory {self._path} is full: {error}; free or add space") from error
        if error.errno in _PASSING:
            raise StorageFailed(
                f"data directory {self._path}: {error}; raise the limit (ulimit -n)"
            ) from error
        raise self.fail(error) from error
