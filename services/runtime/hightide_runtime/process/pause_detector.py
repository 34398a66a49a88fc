"""Whether all of this process has stood still: it was paused, swapped out, or had no processor.

Nothing in the process can notice that while it lasts, and what happens first when it is over may be anything:
a request that has waited in a socket meanwhile comes before the news that a session has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from hightide_runtime.clock import Clock

__all__ = ["PauseDetector"]

_NOTE_S: Final = 0.1


class PauseDetector:
    """One for each process that must not act on what it knew before. Any thread may ask.

    A thread of its own notes the time, ten times a second. An event loop's timer would take a loop that is
    busy for a standstill, while ZooKeeper is pinged and nothing is lost.
    """

    def __init__(self, clock: Clock, limit_ms: Callable[[], float]) -> None:
        """What is no longer than the limit, as it is when it is over, was none."""
        self._clock = clock
        self._limit_ms = limit_ms
        self._noted_ms = clock.monotonic_ms()
        self._longest_ms = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standstill", daemon=True)

    def start(self) -> None:
        """Begin. What was before counts for nothing."""
        self._noted_ms = self._clock.monotonic_ms()
        self._thread.start()

    def close(self) -> None:
        """Note no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def noticed_ms(self) -> int:
        """The longest standstill since this was last asked; 0: there was none."""
        self.note()
        with self._lock:
            longest_ms, self._longest_ms = self._longest_ms, 0
        return longest_ms

    def note(self) -> None:
        """The process runs."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            gone_ms, self._noted_ms = now_ms - self._noted_ms, now_ms
            if gone_ms > self._limit_ms():
                self._longest_ms = max(self._longest_ms, gone_ms)

    def _run(self) -> None:
        while not self._closed.wait(_NOTE_S):
            self.note()
