"""The pulse of a process's event loop: what keeps its ZooKeeper session, beside the process's being there.

kazoo's thread pings ZooKeeper whatever the event loop does. A loop that hangs (a disk that does not answer, a
lock that is never free) would keep registration, seats and leaderships for ever, and answer nobody.
So a thread of its own asks the loop for a beat once a second, and looks whether it came. When beats have been
missing for two thirds of the session's time, the thread ends the session from outside of the loop: what the
process held is gone at once, and others are elected. When the loop goes on it learns that its session was
lost, as after any other loss, and what it led meanwhile is fenced by epochs.

`PauseDetector` is about the other case, in which no thread of the process runs: nothing can act then, and the
session ends by itself.
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
"""Each costs two threads a turn, of every process and for ever: no more of them than the limit needs."""
SESSION_SHARE: Final = 2 / 3
LIMIT_MIN_S: Final = 2.0
BUSY_TIMES: Final = 5
"""A loop that uses the processor works on something long: it may take so many times the limit."""
_BUSY_SHARE: Final = 0.02
"""Of the time between two looks, from which on a loop counts as busy: a crowded machine gives it little."""


class Heartbeat:
    """What the looks at one loop have told so far; pure."""

    def __init__(self) -> None:
        self._beats = -1
        self._silent_s = 0.0
        self._busy_s = 0.0
        self._is_told = False

    def look(self, beats: int, passed_s: float, used_s: float, limit_s: float) -> float:
        """How long the loop has missed its beats, told once when that is too long; else 0.

        `beats`: how many there were by now. `passed_s`: since the last look; a longer time than there should
        be between two looks counts as one that is as long as it should be, since the whole process stood
        still then. `used_s`: the processor's time that the loop's thread has used meanwhile.
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
    """One for each process. Made and closed on the loop that it is about."""

    def __init__(self, session: ZooKeeperSession) -> None:
        """It begins at once."""
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat()
        self._beats = 0
        self._used_s = _processor_time_of(threading.get_ident())
        self._others: tuple[Callable[[float], None], ...] = ()
        self._asked = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def look_also(self, look: Callable[[float], None]) -> None:
        """Have this called with each look, with the seconds since the last one, on the thread. It waits for
        nothing."""
        self._others = (*self._others, look)

    def close(self) -> None:
        """Look no more. The thread ends by itself: nobody has to wait for it."""
        self._closed.set()

    def _beat(self) -> None:
        self._beats += 1

    def _ask(self) -> None:
        """Have the loop beat once more, unless it has not done so since it was asked last."""
        if self._asked == self._beats:
            self._asked += 1
            with suppress(RuntimeError):  # The loop is closed: the process is as good as gone.
                self._loop.call_soon_threadsafe(self._beat)

    def _run(self) -> None:
        try:
            self._look_until_closed()
        except Exception:  # noqa: BLE001
            # The top of a thread. Without looks the end of the process still tells.
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
                # First of all: the log may be what hangs.
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
        """There is nothing to give up where there is no session."""
        granted_ms = self._session.granted_timeout_ms
        return max(LIMIT_MIN_S, granted_ms / 1000 * SESSION_SHARE) if granted_ms else float("inf")


def _processor_time_of(thread_id: int) -> Callable[[], float]:
    """Reads how much of the processor a thread has used, in seconds; always 0 where that cannot be told."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(thread_id)
    return lambda: time.clock_gettime(clock)
