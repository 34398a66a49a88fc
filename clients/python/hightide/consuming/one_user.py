"""The guard of a consumer against two threads, or two tasks, that take its records at the same time."""

import threading
from collections.abc import Callable
from types import TracebackType

from hightide.errors import ConcurrentUseError


class OneUser:
    """Entered around whatever takes records. It never waits: who comes second gets an error. Without it, each
    of two threads would get some of the records, and commit those of the other. `check_home` is called first:
    in a child process the guard may have been held at the moment of the fork."""

    def __init__(self, check_home: Callable[[], None]) -> None:
        self._check_home = check_home
        self._held = threading.Lock()

    def __enter__(self) -> None:
        self._check_home()
        if not self._held.acquire(blocking=False):
            raise ConcurrentUseError("another thread, task or callback takes records of this consumer")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.release()
