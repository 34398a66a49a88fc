"""Lets the event loop of a process hang, and go on, while its other threads go on all the time."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

SITE: Final = Path(__file__).with_name("hung_loop")
"""The directory of what a process imports that can hang."""
SETTING: Final = "HANG_AT"


class HungLoops:
    """The processes that hang, or may. Made by `processes_that_can_hang`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def hang(self, pid: int) -> Callable[[], None]:
        """Let the main thread of a process stand still until the returned function is called, once. It does
        nothing more if the process has ended since. Raises ProcessLookupError."""
        lock = os.open(self._directory / str(pid), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.kill(pid, signal.SIGUSR2)
        except OSError:
            os.close(lock)
            raise
        return partial(os.close, lock)


@contextmanager
def processes_that_can_hang() -> Iterator[HungLoops]:
    """Let every Python process that is started within be able to hang."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", SETTING)}
    with TemporaryDirectory(prefix="hightide-hung-") as locks:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(SITE), before["PYTHONPATH"])))
        os.environ[SETTING] = locks
        try:
            yield HungLoops(Path(locks))
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
