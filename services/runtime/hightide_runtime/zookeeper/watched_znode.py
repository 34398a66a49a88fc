"""A setting of the whole cluster that is in one znode, such as its ACLs: read at once, and at each change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.errors import NoNode
from hightide_runtime.zookeeper.session import (
    SessionState,
    SessionStateChanged,
    WatchFired,
    ZooKeeperEvent,
    ZooKeeperSession,
)
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

__all__ = ["WatchedZnode"]

_log = logging.getLogger(__name__)
Content = TypeVar("Content")


class WatchedZnode(Generic[Content]):
    """Tells its owner what a znode says, until the owner closes it. Belongs to the event loop's thread.

    It follows the session by itself, beside the one task that reads `session.events`. What it told last stays
    good while ZooKeeper is away, and while the znode says what is no setting: this is logged, and counted in
    `session.counts.nonsense`. It never tells of such content, also not of the first.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        path: str,
        decode: Callable[[bytes], Content],
        on_change: Callable[[Content | None], None],
    ) -> None:
        """`decode` raises ZnodeGarbage. `on_change` is called after each good read, with the content, or with
        None if there is no such znode. Two reads in a row may say the same."""
        self._session = session
        self._path = path
        self._decode = decode
        self._on_change = on_change
        self._connected = asyncio.Event()
        self._reader = RepeatedReader(path, self._read, self._connected)

    def start(self) -> None:
        """Begin to read and to watch."""
        self._session.followers.add(self._take)
        if self._session.state is SessionState.CONNECTED:
            self._connected.set()
        self._reader.start()
        self._reader.mark()

    async def read_anew(self) -> None:
        """Wait until a read has ended that began after this call. The caller bounds how long."""
        await self._reader.read_anew()

    async def close(self) -> None:
        """Stop. Nothing is told from here on."""
        self._session.followers.discard(self._take)
        await self._reader.close()

    def _take(self, event: ZooKeeperEvent) -> None:
        match event:
            case SessionStateChanged(state=SessionState.CONNECTED):
                self._connected.set()
                self._reader.mark()
            case SessionStateChanged():
                self._connected.clear()
            case WatchFired(path=self._path):
                self._reader.mark()
            case _:
                pass

    async def _read(self) -> None:
        # The watch comes first, so that no change falls between; it also fires when the znode is created.
        if await self._session.exists(self._path, watch=True) is None:
            self._on_change(None)
            return
        try:
            content = self._decode((await self._session.get(self._path)).data)
        except NoNode:
            self._on_change(None)
        except ZnodeGarbage as error:
            self._session.counts.nonsense += 1
            _log.error("%s; what it said before stays in force, correct it", error)
        else:
            self._on_change(content)
