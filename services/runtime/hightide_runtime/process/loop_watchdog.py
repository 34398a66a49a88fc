"""The watch over a process's event loop, on which its ZooKeeper session depends.

kazoo's thread pings ZooKeeper whatever the event loop does. A loop that hangs (a disk that does not answer, a
lock that is never free) would keep registration, elections and leaderships for ever, and answer no request.
So a separate thread asks the loop for a beat once a second, and checks whether it came. If beats have been
missing for two thirds of the session's time, the thread ends the session from outside the loop. What the
process held is free at once, and others are elected. When the loop runs again it learns that its session was
lost, as after any other loss. Epochs fence what it led meanwhile.

`PauseDetector` is for the other case, in which no thread of the process runs: nothing can act then, and the
session expires.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["Heartbeat", "LoopWatchdog"]

_log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Each beat costs two threads a turn, in every process and for ever, so there are no more than the limit
needs."""
SESSION_SHARE: Final = 2 / 3
LIMIT_MIN_S: Final = 2.0
BUSY_TIMES: Final = 5
"""A loop that uses the processor works on something long. It may take this many times the limit."""
_BUSY_SHARE: Final = 0.02
"""The share of the time between two checks from which on a loop counts as busy: a crowded machine gives it
little."""


class Heartbeat:
    """The result of the checks of one loop so far; pure."""

    def __init__(self) -> None:
        self._beats = -1
        self._silent_s = 0.0
        self._busy_s = 0.0
        self._is_told = False

    def look(self, beats: int, passed_s: float, used_s: float, limit_s: float) -> float:
        """How long the loop has missed its beats, returned once when that is too long; else 0.

        `beats`: their number so far. `passed_s`: since the last check. A longer time than the normal pause
        between two checks counts as the normal one, because the whole process was paused then. `used_s`: the
        processor time that the loop's thread has used meanwhile.
        """
        if beats != self._beats:
            self._beats, self._silent_s, self._busy_s, self._is_told = beats, 0.0, 0.0, False
            return 0.0
        counted_s = min(passed_s, 2 * LOOK_S)
        if used_s >= passed_s * _BUSY_SHARE:
            self._busy_s += counted_s
        else:
            self._silent_s += counted_s
        if self._is_told or self._silent_s + self._busy_s / BUSY_TIMES < limit_s:
            return 0.0
        self._is_told = True
        return self._silent_s + self._busy_s


class LoopWatchdog:
    """Watches the event loop of one process. Made and closed on that loop."""

    def __init__(self, session: ZooKeeperSession) -> None:
        """Begin to watch at once."""
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat()
        self._beats = 0
        self._used_s = _processor_time_of(threading.get_ident())
        self._others: tuple[Callable[[float], None], ...] = ()
        self._asked = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loop-watchdog", daemon=True)
        self._thread.start()

    def look_also(self, look: Callable[[float], None]) -> None:
        """Call this with each check, with the seconds since the last one, on the thread. It must not wait for
        anything."""
        self._others = (*self._others, look)

    def close(self) -> None:
        """Stop watching. The thread ends soon; the caller does not have to wait for it."""
        self._closed.set()

    def _beat(self) -> None:
        self._beats += 1

    def _ask(self) -> None:
        """Ask the loop for one more beat, unless the last one is still missing."""
        if self._asked == self._beats:
            self._asked += 1
            with suppress(RuntimeError):  # The loop is closed: the process is about to end.
                self._loop.call_soon_threadsafe(self._beat)

    def _run(self) -> None:
        try:
            self._look_until_closed()
        except Exception:  # noqa: BLE001
            # The top of a thread. Without checks the end of the process still ends the session.
            _log.exception("nobody looks whether the event loop or a disk hangs any more")

    def _look_until_closed(self) -> None:
        looked_s, used_s = time.monotonic(), self._used_s()
        self._ask()
        while not self._closed.wait(LOOK_S):
            now_s, now_used_s = time.monotonic(), self._used_s()
            passed_s, worked_s = now_s - looked_s, now_used_s - used_s
            looked_s, used_s = now_s, now_used_s
            missed_s = self._heartbeat.look(self._beats, passed_s, worked_s, self._limit_s())
            if missed_s:
                # First, because the log may be what hangs.
                self._session.give_up()
                _log.critical(
                    "the event loop has not run for %.1f s: the ZooKeeper session is ended, so that others "
                    "take over; look for a disk or a network file system that does not answer",
                    missed_s,
                )
            self._ask()
            for look in self._others:
                look(passed_s)

    def _limit_s(self) -> float:
        """The limit; without a session there is nothing to give up."""
        granted_ms = self._session.granted_timeout_ms
        return max(LIMIT_MIN_S, granted_ms / 1000 * SESSION_SHARE) if granted_ms else float("inf")


def _processor_time_of(thread_id: int) -> Callable[[], float]:
    """A function that returns how much processor time a thread has used, in seconds; always 0 if that is not
    known."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(thread_id)
    return lambda: time.clock_gettime(clock)
