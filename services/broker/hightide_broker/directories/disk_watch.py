"""Whether the disks answer: what a thread that waits for none of them sees of the calls to them.

Theory of operation. The thread of the process's pulse looks once a second at the calls that are under way
(`storage.hung_calls`), from before the first one is made. Two bounds, for a single call:

- Five sixths of the session timeout, 5 s at the least: whoever waits for it waits for too long. Others lead
  what is concerned until the disk has answered for as long again (`hung_disks`). With a session of 6 s they
  do within that, as where a machine is gone. It is no shorter, since a sync of much that was written may
  take some seconds on a disk that is well, and two elections for each would be worse than waiting.
- `--disk-timeout-ms`, 30 s: the disk does not come back. The directory is offline until the broker is started
  again, which must not happen to a disk that is merely slow; whoever waits for it is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from hightide_broker.directories.log_directories import LogDirectory

__all__ = ["PATIENCE_MIN_S", "DiskWatch", "patience_s"]

log = logging.getLogger(__name__)

SESSION_SHARE: Final = 5 / 6
"""A call is first seen up to a second after it began, and told within the whole of the session's time."""
PATIENCE_MIN_S: Final = 5.0

OnWaits = Callable[[LogDirectory, frozenset[str]], None]
OnAnswers = Callable[[LogDirectory], None]


def patience_s(granted_ms: int) -> float:
    """How long a client may wait for a single call to a disk, with a session of so many milliseconds; 0:
    there is none, so that nothing can be handed over."""
    return max(PATIENCE_MIN_S, granted_ms / 1000 * SESSION_SHARE) if granted_ms else float("inf")


class DiskWatch:
    """One for a broker. Made on the event loop, before its disks are asked for anything; `look` is called on
    the pulse's thread."""

    def __init__(
        self, disks: Sequence[LogDirectory], timeout_s: float, wait_max_s: Callable[[], float]
    ) -> None:
        """`timeout_s`: after which a directory is offline. `wait_max_s` gives how long clients may wait."""
        self._disks = tuple(disks)
        self._timeout_s = timeout_s
        self._wait_max_s = wait_max_s
        self._loop = asyncio.get_running_loop()
        self._answered_s: dict[LogDirectory, float] = {}
        """For how long those have answered now that did not."""
        self._given_up: set[LogDirectory] = set()
        self._told: tuple[OnWaits, OnAnswers] | None = None

    def tell(self, on_waits: OnWaits, on_answers: OnAnswers) -> None:
        """Have these called on the event loop: the first again and again while calls to a disk, which it
        names, do not return, the second when the disk answers again."""
        self._told = on_waits, on_answers

    def look(self, passed_s: float) -> None:
        """Look at all disks. `passed_s`: since the last time."""
        wait_max_s = self._wait_max_s()
        for disk in self._disks:
            if disk in self._given_up:
                continue
            slow = disk.calls.look(passed_s, min(wait_max_s / 2, self._timeout_s))
            hung = frozenset(each.call for each in slow if each.seen_for_s > wait_max_s)
            if slow and slow[0].seen_for_s > self._timeout_s:
                self._given_up.add(disk)
                disk.does_not_answer(slow[0])
            elif hung:
                self._waits(disk, hung, slow[0].seen_for_s)
            elif disk in self._answered_s and not slow:
                self._answered_s[disk] += passed_s
                if self._answered_s[disk] >= wait_max_s:
                    self._answers(disk)

    def _waits(self, disk: LogDirectory, calls: frozenset[str], seen_for_s: float) -> None:
        is_news = disk not in self._answered_s
        self._answered_s[disk] = 0.0
        if self._told is not None:
            self._soon(self._told[0], disk, calls)
        if is_news:
            log.error(
                "the disk of %s does not answer: %s has not returned for %.0f s; it is offline after %.0f",
                disk, min(calls), seen_for_s, self._timeout_s,
            )  # fmt: skip

    def _answers(self, disk: LogDirectory) -> None:
        del self._answered_s[disk]
        if self._told is not None:
            self._soon(self._told[1], disk)
        log.warning("the disk of %s answers again", disk)

    def _soon(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # The loop is closed: the broker is as good as gone.
            self._loop.call_soon_threadsafe(call, *arguments)
