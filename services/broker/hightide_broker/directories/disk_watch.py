"""Noticing disks that do not answer, from a thread that waits for none of them.

Theory of operation. Once a second, the thread that watches the event loop looks at the calls that are under
way (`storage.hung_calls`), beginning before the first call. There are two limits for a single call:

- Five sixths of the session timeout, 5 s at the least: clients that wait for the call wait too long. Other
  brokers lead the partitions concerned until the disk has answered for as long again (`hung_disks`). With a
  session of 6 s they do so within the session timeout, as when a machine is gone. The limit is no shorter
  because a sync of much data may take some seconds on a good disk, and two elections for each such sync would
  be worse than waiting.
- `--disk-timeout-ms`, 30 s: the disk does not come back. The directory is offline until the broker is started
  again, which must not happen to a disk that is only slow. Callers that wait for it get an error.
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
"""A call is first seen up to a second after it began, and is reported within the session timeout."""
PATIENCE_MIN_S: Final = 5.0

OnWaits = Callable[[LogDirectory, frozenset[str]], None]
OnAnswers = Callable[[LogDirectory], None]


def patience_s(granted_ms: int) -> float:
    """How long a client may wait for a single call to a disk, with a session of so many milliseconds. 0:
    there is no session, so nothing can be handed over."""
    return max(PATIENCE_MIN_S, granted_ms / 1000 * SESSION_SHARE) if granted_ms else float("inf")


class DiskWatch:
    """Watches the disks of one broker. Made on the event loop, before the first call to a disk; `look` is
    called on the thread that watches the loop."""

    def __init__(
        self, disks: Sequence[LogDirectory], timeout_s: float, wait_max_s: Callable[[], float]
    ) -> None:
        """`timeout_s`: after which a directory is offline. `wait_max_s` returns how long clients may wait."""
        self._disks = tuple(disks)
        self._timeout_s = timeout_s
        self._wait_max_s = wait_max_s
        self._loop = asyncio.get_running_loop()
        self._answered_s: dict[LogDirectory, float] = {}
        """For how long the disks that did not answer have answered now."""
        self._given_up: set[LogDirectory] = set()
        self._told: tuple[OnWaits, OnAnswers] | None = None

    def tell(self, on_waits: OnWaits, on_answers: OnAnswers) -> None:
        """Register functions that are called on the event loop. The first is called repeatedly while calls to
        a disk, which it names, do not return. The second is called when the disk answers again."""
        self._told = on_waits, on_answers

    def look(self, passed_s: float) -> None:
        """Check all disks. `passed_s`: since the last check."""
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
        with suppress(RuntimeError):  # The loop is closed: the broker is about to end.
            self._loop.call_soon_threadsafe(call, *arguments)
