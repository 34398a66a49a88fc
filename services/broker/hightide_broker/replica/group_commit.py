"""flush=fsync: one round of fsync covers all appends that wait for it (docs/delivery-semantics.md).

While a round runs, later appends gather for the next one. So the rate of fsync follows the disk and not the
producers. Rounds run on the data directory's own thread, never on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from hightide_runtime.telemetry.metric_declarations import Distribution

from hightide_broker.storage import LogClosed, StorageError, StorageFailed

log = logging.getLogger(__name__)

L = TypeVar("L", bound="Flushable")
L_contra = TypeVar("L_contra", contravariant=True)


class Flushable(Protocol):
    """A replica with its log, as this module uses it."""

    def flush(self) -> None:
        """Sync all that was appended before this call. Thread-safe. A failure is final."""
        ...


class FsyncRounds(Protocol[L_contra]):
    """Where a round is requested: in one directory (`GroupCommit`), or in the directory of the logs
    (`GroupCommits`)."""

    def cover(self, logs: Iterable[L_contra]) -> asyncio.Future[None]:
        """Sync these logs in the next round; see `GroupCommit.cover`."""
        ...


@dataclass(frozen=True, slots=True)
class _Flushed(Generic[L]):
    """The outcome of one log in a round."""

    log: L
    took_s: float
    error: StorageError | None = None


def _flush_all(logs: list[L]) -> list[_Flushed[L]]:
    """Sync each log. If one fails, the others are synced all the same."""
    outcome: list[_Flushed[L]] = []
    for each in logs:
        began = perf_counter()
        try:
            each.flush()
        except LogClosed:
            continue  # Its replica was stopped meanwhile: nobody waits for it, and no disk failed.
        except StorageError as error:
            outcome.append(_Flushed(each, perf_counter() - began, error))
        except Exception as error:
            # The top of a thread. Nobody knows what is on disk, and whoever waits must not wait for ever.
            log.exception("while %s was flushed", each)
            failure = StorageFailed(f"{each} was not flushed: {error!r}")
            outcome.append(_Flushed(each, perf_counter() - began, failure))
        else:
            outcome.append(_Flushed(each, perf_counter() - began))
    return outcome


class GroupCommit(Generic[L]):
    """The fsync rounds of one data directory. Belongs to the event loop's thread."""

    def __init__(
        self,
        executor: Executor,
        on_flushed: Callable[[L], None],
        on_failed: Callable[[StorageError], None],
        fsync_s: Distribution | None = None,
    ) -> None:
        """`fsync_s` counts how long the flush of each log took."""
        self._fsync_s = fsync_s or Distribution()
        self._executor = executor
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._gathering: dict[L, None] = {}
        self._next_round: asyncio.Future[None] | None = None
        self._running = False

    def cover(self, logs: Iterable[L]) -> asyncio.Future[None]:
        """Sync these logs in the next round. The future is done when that round is.

        `on_flushed` is called for each log before the future is resolved. A failed fsync calls `on_failed`,
        and the future fails with it: nobody knows then what is on disk.
        """
        loop = asyncio.get_running_loop()
        if self._next_round is None:
            self._next_round = loop.create_future()
            # on_failed gets a failure, whether or not a caller awaits this round.
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
        done: asyncio.Future[list[_Flushed[L]]],
    ) -> None:
        self._running = False
        failed: StorageError | None = None
        for flushed in done.result():
            self._fsync_s.record(flushed.took_s)
            if flushed.error is not None:
                failed = flushed.error
                continue
            try:
                self._on_flushed(flushed.log)
            except Exception:
                # The top of a callback: the other logs of the round must learn that they are on disk.
                log.exception("after a flush of %s", flushed.log)
        if failed is not None:
            self._on_failed(failed)
        if not covered.done():
            if failed is None:
                covered.set_result(None)
            else:
                covered.set_exception(failed)
        if self._next_round is not None:
            self._start_round(loop)


class GroupCommits(Generic[L]):
    """The group commit of each data directory: a replica on one disk does not wait for another disk."""

    def __init__(self, by_directory: Mapping[str, GroupCommit[L]], directory_of: Callable[[L], str]) -> None:
        self._by_directory = by_directory
        self._directory_of = directory_of

    def cover(self, logs: Iterable[L]) -> asyncio.Future[None]:
        """See `GroupCommit.cover`. There is at least one log, and all of them are in one directory."""
        gathered = tuple(logs)
        (directory,) = {self._directory_of(each) for each in gathered}
        return self._by_directory[directory].cover(gathered)
