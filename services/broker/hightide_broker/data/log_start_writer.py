"""Storing where logs begin, after the start has moved in memory (KIP-107), and deleting what is before it.

The replicas of a directory are handled one after another, on its thread. A leader waits for it before it
answers the request. A follower, which got the start from its leader, does not wait. A failed write is tried
again in the next round of retention, and when the log is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hightide_broker.directories.log_directories import LogDirectories, LogDirectory
from hightide_broker.directories.retention_report import RetentionReport
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.storage import DiskFull, LogClosed, StorageError

log = logging.getLogger(__name__)

_Waiting = dict[HostedReplica, asyncio.Future[None]]


class LogStartWriter:
    """Stores log starts. One for each broker; belongs to the event loop's thread."""

    def __init__(self, directories: LogDirectories, on_failed: Callable[[Exception], None]) -> None:
        """`on_failed` gets each I/O error, which may be the last."""
        self._directories = directories
        self._on_failed = on_failed
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def moved(self, replica: HostedReplica) -> None:
        """Take note that the log start has moved in memory. Called by the shell; a replica waits at most
        once."""
        self._ask(replica)

    async def kept(self, replica: HostedReplica) -> None:
        """Wait until the log start is on disk. Raises StorageError."""
        await asyncio.shield(self._ask(replica))

    async def close(self) -> None:
        """Stop. What was not stored is stored when the logs are closed."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            for future in waiting.values():
                future.cancel()

    def _ask(self, replica: HostedReplica) -> asyncio.Future[None]:
        path = replica.log.data_directory
        waiting = self._waiting.setdefault(path, {})
        future = waiting.get(replica)
        if future is None:
            future = waiting[replica] = asyncio.get_running_loop().create_future()
        if path not in self._tasks:
            work = self._work(self._directories.by_path[path], waiting)
            self._tasks[path] = asyncio.create_task(work, name=f"log-starts-{path}")
        return future

    async def _work(self, directory: LogDirectory, waiting: _Waiting) -> None:
        cuts = RetentionReport()
        try:
            while waiting:
                replica = next(iter(waiting))
                future = waiting.pop(replica)
                try:
                    await self._write(directory, replica)
                    if not future.done():
                        future.set_result(None)
                    await self._delete_segments(directory, replica)
                    cuts.note(replica, has_moved=True)
                except StorageError as error:
                    self._failed(replica, future, error)
                except asyncio.CancelledError:
                    future.cancel()
                    raise
                except Exception as error:
                    # A bug at one replica must not make the others wait until somebody asks again.
                    log.exception("%s: writing down where its log begins failed", replica)
                    _fail(future, error)
        finally:
            del self._tasks[directory.path]
            if told := cuts.sentence():
                log.info("records were deleted, by an operator or a leader, in %s: %s", directory, told)

    async def _write(self, directory: LogDirectory, replica: HostedReplica) -> None:
        """Store one log start. Raises StorageError."""
        try:
            await directory.run(replica.log.persist_start)
        except DiskFull:
            # The deleted segments make the room for it.
            await self._delete_segments(directory, replica)
            await directory.run(replica.log.persist_start)

    def _failed(self, replica: HostedReplica, future: asyncio.Future[None], error: StorageError) -> None:
        if not isinstance(error, LogClosed):
            log.error("%s: where its log begins is not written down, and is later: %s", replica, error)
            self._on_failed(error)
        _fail(future, error)

    async def _delete_segments(self, directory: LogDirectory, replica: HostedReplica) -> None:
        """Delete segments; retention tries again if this fails."""
        try:
            await directory.run(replica.log.delete_before_start)
        except LogClosed:
            return
        except StorageError as error:
            log.error("%s: what lies before its log start is deleted later: %s", replica, error)
            self._on_failed(error)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # No caller has to wait for it.
