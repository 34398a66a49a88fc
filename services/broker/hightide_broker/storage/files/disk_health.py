"""Turns the operating system's errors into those of this package, and remembers the first that is final.

Theory of operation. After a failed fsync the kernel may have dropped the pages and marked them clean, so a
second fsync that succeeds proves nothing. After any I/O error, then, the data directory is offline: nothing
is written to it or read from it any more. A full disk and a lack of file descriptors pass, so they are not
final.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final

from hightide_broker.storage.errors import DiskFull, StorageFailed

__all__ = ["DiskHealth"]

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_PASSING: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


class DiskHealth:
    """The health of one data directory. A context around file calls, which is not entered once it has failed;
    one object for all, so it holds no state of a call. Any thread."""

    __slots__ = ("_failure", "_lock", "_on_failure", "_path", "was_full")

    def __init__(self, path: str) -> None:
        self._path = path
        self._failure: str | None = None
        self._on_failure: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self.was_full = False
        """Whether there was no room the last time that somebody looked."""

    @property
    def failed(self) -> bool:
        """Whether there was a final error."""
        return self._failure is not None

    @property
    def failure(self) -> str | None:
        """The first final error; None where there was none."""
        return self._failure

    def tell(self, on_failure: Callable[[], None]) -> None:
        """Call this at the first final error, on the thread that met it; at once, if there was one
        already."""
        with self._lock:
            self._on_failure = on_failure
            has_failed = self.failed
        if has_failed:
            on_failure()

    def check_usable(self) -> None:
        """Raise StorageFailed after the first final error; called before every use of a file."""
        if self._failure is not None:
            raise StorageFailed(f"data directory {self._path} is offline since it failed: {self._failure}")

    def fail(self, error: OSError) -> StorageFailed:
        """Note a final error. The caller raises the returned error."""
        with self._lock:
            is_first = self._failure is None
            if is_first:
                self._failure = str(error)
            on_failure = self._on_failure
        if is_first and on_failure is not None:
            on_failure()
        return StorageFailed(
            f"data directory {self._path} failed: {error}; its partitions are offline until the broker is "
            "restarted with a disk that works"
        )

    def __enter__(self) -> DiskHealth:
        self.check_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno in _FULL:
            self.was_full = True
            raise DiskFull(f"data directory {self._path} is full: {error}; free or add space") from error
        if error.errno in _PASSING:
            raise StorageFailed(
                f"data directory {self._path}: {error}; raise the limit (ulimit -n)"
            ) from error
        raise self.fail(error) from error
