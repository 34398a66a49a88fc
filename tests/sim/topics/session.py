"""A ZooKeeper session over the simulated network, for real shells: each request is a message and its answer.

It does what hightide_runtime.zookeeper.session.ZooKeeperSession promises. A message that is lost breaks the
connection, as it does with TCP: the watches are gone, SUSPENDED and CONNECTED are told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hightide_runtime.zookeeper.session import (
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    Operation,
    SessionExpired,
    SessionState,
    SessionStateChanged,
    SetData,
    TreeChanged,
    WatchFired,
    Znode,
    ZooKeeperError,
    ZooKeeperEvent,
)
from sim.messages import ZOOKEEPER
from sim.topics.messages import Answered, Asked, Body, CallFailed
from sim.topics.tree import Client


class Surroundings(Protocol):
    """What a session may do to the world."""

    def call(self, source: int, target: int, body: Body, then: Callable[[Body], None]) -> int: ...

    def open_session(self) -> int: ...

    def connection_broken(self, client: Client) -> None: ...


@dataclass(frozen=True)
class _Waiting:
    future: asyncio.Future[Any]
    writes: bool


class SimSession:
    """One session of one life of a process; a new one follows by itself where it expires."""

    def __init__(self, world: Surroundings, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._world = world
        self.client = client
        self._loop = loop
        self.session_id = world.open_session()
        self.state = SessionState.CONNECTED
        self.events: asyncio.Queue[ZooKeeperEvent] = asyncio.Queue()

    # --- what happens to it ----------------------------------------------------------------------

    def fired(self, event: WatchFired | TreeChanged) -> None:
        """A watch."""
        self.events.put_nowait(event)

    def expired(self, session_id: int) -> None:
        """ZooKeeper ended the session; the client opens another."""
        if session_id != self.session_id:
            return
        self.session_id = self._world.open_session()
        self.events.put_nowait(SessionStateChanged(SessionState.LOST, session_id))
        self.events.put_nowait(SessionStateChanged(SessionState.CONNECTED, self.session_id))

    def _broken(self) -> None:
        self._world.connection_broken(self.client)
        self.events.put_nowait(SessionStateChanged(SessionState.SUSPENDED, self.session_id))
        self.events.put_nowait(SessionStateChanged(SessionState.CONNECTED, self.session_id))

    # --- what it is asked ------------------------------------------------------------------------

    def _ask(self, what: str, *arguments: Any, writes: bool = False) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()

        def answered(body: Body) -> None:
            if isinstance(body, CallFailed):
                self._broken()
                if not future.cancelled():
                    future.set_exception(ConnectionLost("the connection broke", outcome_unknown=writes))
                return
            assert isinstance(body, Answered)
            if future.cancelled():
                return
            if isinstance(body.value, SessionExpired | ZooKeeperError):
                future.set_exception(body.value)
            else:
                future.set_result(body.value)

        asked = Asked(self.client, self.session_id, what, arguments)
        self._world.call(self.client.node_id, ZOOKEEPER, asked, answered)
        return future

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        found: Znode = await self._ask("get", path, watch)
        return found

    async def exists(self, path: str, *, watch: bool = False) -> Znode | None:
        found: Znode | None = await self._ask("exists", path, watch)
        return found

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return (await self.children_and_changes(path, watch=watch))[0]

    async def children_and_changes(self, path: str, *, watch: bool = False) -> tuple[list[str], int]:
        found: tuple[list[str], int] = await self._ask("children_and_changes", path, watch)
        return found

    async def multi_read(self, paths: Iterable[str]) -> dict[str, Znode]:
        wanted = tuple(paths)
        if not wanted:
            return {}
        found: dict[str, Znode] = await self._ask("multi_read", wanted)
        return found

    async def sync(self) -> None:
        await self._ask("sync")

    async def watch_tree(self, path: str) -> None:
        await self._ask("watch_tree", path)

    def submit_multi(self, operations: Sequence[Operation]) -> asyncio.Future[tuple[int, ...]]:
        assert operations
        return self._ask("multi", tuple(operations), writes=True)

    async def multi(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        return await self.submit_multi(operations)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Znode:
        await self.multi((Create(path, data, ephemeral),))
        return await self.get(path)

    async def set(self, path: str, data: bytes, version: int) -> int:
        (new_version,) = await self.multi((SetData(path, data, version),))
        return new_version

    async def delete(self, path: str, version: int = -1) -> None:
        await self.multi((Delete(path, version),))

    async def ensure_path(self, path: str) -> None:
        above = ""
        for name in path.strip("/").split("/"):
            above = f"{above}/{name}"
            if await self.exists(above) is None:
                try:
                    await self.create(above, b"")
                except NodeExists:
                    continue
