"""Reading a thing of ZooKeeper again each time it may have changed.

A watch says only that something changed, so each reader is marked and then reads, with a new watch. All are
marked when the connection comes back, because watches may have been lost with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.errors import ZooKeeperError

__all__ = ["RepeatedReader"]

_log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.05
_FAULT_PAUSE_S: Final = 1.0


class RepeatedReader:
    """Reads one thing again each time it is marked; marks that come while it reads melt into one."""

    def __init__(self, name: str, read: Callable[[], Awaitable[None]], connected: asyncio.Event) -> None:
        """`connected` is set while the session is CONNECTED: nothing is read otherwise."""
        self._read = read
        self._connected = connected
        self._marked = asyncio.Event()
        self._name = name
        self._waiting: list[asyncio.Future[None]] = []
        """Whoever waits until what is marked has been read."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"reader-{self._name}")

    def mark(self) -> None:
        """What it reads may have changed."""
        self._marked.set()

    async def read_anew(self) -> None:
        """Wait until a read has succeeded that began after this call. The caller bounds how long."""
        read = asyncio.get_running_loop().create_future()
        self._waiting.append(read)
        self.mark()
        await read

    async def close(self) -> None:
        """Stop reading. Whoever waits for a read is cancelled."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for read in self._waiting:
            read.cancel()

    async def _run(self) -> None:
        while True:
            await self._marked.wait()
            await self._connected.wait()
            self._marked.clear()
            waiting, self._waiting = self._waiting, []
            try:
                await self._read_for(waiting)
            except ZooKeeperError as error:
                _log.warning("reading ZooKeeper is tried again: %s", error)
                self._marked.set()
                await asyncio.sleep(_PAUSE_S)
            except ZnodeGarbage as error:
                _log.error("%s; reading %s is tried again until an operator corrects it", error, self._name)
                self._marked.set()
                await asyncio.sleep(_FAULT_PAUSE_S)
            except Exception:  # noqa: BLE001 - the top of a task
                _log.exception("reading %s is tried again", self._name)
                self._marked.set()
                await asyncio.sleep(_FAULT_PAUSE_S)

    async def _read_for(self, waiting: list[asyncio.Future[None]]) -> None:
        try:
            await self._read()
        except BaseException:
            self._waiting = [*waiting, *self._waiting]
            raise
        for read in waiting:
            if not read.done():
                read.set_result(None)
