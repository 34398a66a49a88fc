"""flush=fsync: one round of fsync covers all that waits for it (DESIGN §5, durability).

While a round runs, what is appended gathers for the next one; so the rate of fsync follows the disk
and not the producers. Rounds run on the data directory's own thread, never on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

log = logging.getLogger(__name__)


class Flushable(Protocol):
    """A log, as seen from here."""

    def flush(self) -> object:
        """Put all that was appended before this call on disk. Thread-safe. A failure is final."""
        ...


L = TypeVar("L", bound=Flushable)


def _flush_all(logs: list[L]) -> list[tuple[L, OSError | None]]:
    """Flush each log; one that fails does not keep the others from their turn."""
    outcome: list[tuple[L, OSError | None]] = []
    for each in logs:
        try:
            each.flush()
        except OSError as error:
            outcome.append((each, error))
        else:
            outcome.append((each, None))
    return outcome


class GroupCommit:
    """The fsync rounds of one data directory. Belongs to the event loop's thread."""

    def __init__(
        self,
        executor: Executor,
        on_flushed: Callable[[Flushable], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._executor = executor
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._gathering: dict[Flushable, None] = {}
        self._next_round: asyncio.Future[None] | None = None
        self._running = False

    def cover(self, logs: Iterable[Flushable]) -> asyncio.Future[None]:
        """Have these logs flushed in the next round; the future is done when that round is.

        `on_flushed` is called for each log before the future is resolved. A failed fsync calls
        `on_failed`, and the future fails with it: what is on disk is not known any more.
        """
        loop = asyncio.get_running_loop()
        if self._next_round is None:
            self._next_round = loop.create_future()
            # A failure is told to on_failed whether or not somebody awaits this round.
            self._next_round.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._gathering.update(dict.fromkeys(logs))
        covered = self._next_round
        if not self._running:
            self._start_round(loop)
        return covered

    def _start_round(self, loop: asyncio.AbstractEventLoop) -> None:
        covered, logs = self._next_round, list(self._gathering)
        assert covered is not None
        self._next_round, self._gathering, self._running = None, {}, True
        running = loop.run_in_executor(self._executor, _flush_all, logs)
        running.add_done_callback(lambda done: self._round_ended(loop, covered, done))

    def _round_ended(
        self,
        loop: asyncio.AbstractEventLoop,
        covered: asyncio.Future[None],
        done: asyncio.Future[list[tuple[Flushable, OSError | None]]],
    ) -> None:
        self._running = False
        failed: OSError | None = None
        for flushed, error in done.result():
            if error is None:
                self._on_flushed(flushed)
            else:
                failed = error
        if failed is not None:
            self._on_failed(failed)
        if not covered.done():
            if failed is None:
                covered.set_result(None)
            else:
                covered.set_exception(failed)
        if self._gathering:
            self._start_round(loop)
