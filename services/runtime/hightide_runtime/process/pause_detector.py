"""Noticing that the whole process was paused: it was stopped, swapped out, or had no processor.

Nothing in the process can notice that while it lasts. When it is over, anything may happen first: a request
that waited in a socket may come before the news that a session has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from hightide_runtime.clock import Clock

__all__ = ["PauseDetector"]

_NOTE_S: Final = 0.1


class PauseDetector:
    """Notices pauses, for a process that must not act on old knowledge. Any thread may ask.

    A separate thread notes the time, ten times a second. A timer of the event loop would take a busy loop for
    a pause, while ZooKeeper is pinged and nothing is lost.
    """

    def __init__(self, clock: Clock, limit_ms: Callable[[], float]) -> None:
        """A pause no longer than the limit, as it is at the end of the pause, does not count."""
        self._clock = clock
        self._limit_ms = limit_ms
        self._noted_ms = clock.monotonic_ms()
        self._longest_ms = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pause-detector", daemon=True)

    def start(self) -> None:
        """Begin. Earlier pauses do not count."""
        self._noted_ms = self._clock.monotonic_ms()
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def noticed_ms(self) -> int:
        """The longest pause since the last call; 0: there was none."""
        self.note()
        with self._lock:
            longest_ms, self._longest_ms = self._longest_ms, 0
        return longest_ms

    def note(self) -> None:
        """Note that the process runs."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            gone_ms, self._noted_ms = now_ms - self._noted_ms, now_ms
            if gone_ms > self._limit_ms():
                self._longest_ms = max(self._longest_ms, gone_ms)

    def _run(self) -> None:
        while not self._closed.wait(_NOTE_S):
            self.note()
