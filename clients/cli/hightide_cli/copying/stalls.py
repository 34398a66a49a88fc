"""Reports of what long work waits for while it makes no progress: a bar that stands still does not say
why."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_REPEATED_AFTER: Final = 2
"""The factor from one wait to the next: a wait of an hour is some ten lines."""


class Stall:
    """What is waited for, and since when. Pure; times are seconds of one clock."""

    def __init__(self, told_after_s: float, now_s: float = 0.0) -> None:
        self._told_after_s = told_after_s
        self._what: str | None = None
        self._since_s = now_s
        self._next_s = now_s + told_after_s

    def waits_for(self, what: str, now_s: float) -> None:
        """Note progress just now, and the next thing that is waited for."""
        self._what = what
        self._since_s = now_s
        self._next_s = now_s + self._told_after_s

    def due_in_s(self, now_s: float) -> float:
        """The time until the next report may be due."""
        return max(0.0, self._next_s - now_s)

    def told(self, now_s: float) -> tuple[str, float] | None:
        """The thing that is waited for, and since how many seconds, if a report is due."""
        if self._what is None or now_s < self._next_s:
            return None
        self._next_s = self._since_s + _REPEATED_AFTER * (now_s - self._since_s)
        return self._what, now_s - self._since_s


@contextmanager
def stalls_told(told_after_s: float, tell: Callable[[str, float], None]) -> Iterator[Callable[[str], None]]:
    """While the block runs, call `tell` with what it waits for and for how many seconds, after each such time
    without progress, and less and less often. The block calls the given function after each progress, with
    the next thing to wait for. `tell` is called on a thread of its own."""
    stall = Stall(told_after_s, time.monotonic())
    changed = threading.Condition()
    is_over = False

    def watch() -> None:
        with changed:
            while not is_over:
                found = stall.told(time.monotonic())
                if found is not None:
                    tell(*found)
                changed.wait(max(stall.due_in_s(time.monotonic()), 0.01))

    def waits_for(what: str) -> None:
        # No notify: the watcher wakes up at the earlier time, and finds that it is later now.
        with changed:
            stall.waits_for(what, time.monotonic())

    watcher = threading.Thread(target=watch, name="stalls", daemon=True)
    watcher.start()
    try:
        yield waits_for
    finally:
        with changed:
            is_over = True
            changed.notify()
        watcher.join()
