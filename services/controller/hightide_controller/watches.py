"""ZooKeeper's watches as events of the core: who is active, which brokers are there, which topics.

A watch fires once and says only that something changed, so each of the three is a reader that is
marked and then reads, with a new watch. All are marked when the connection comes back, because watches
may have been lost with it. Brokers and topics are read by the active controller only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hightide_runtime import znodes
from hightide_runtime.znodes import ControllerZnode
from hightide_runtime.zookeeper import (
    SessionState,
    SessionStateChanged,
    WatchFired,
    ZooKeeperError,
    ZooKeeperSession,
)

from hightide_controller.core.events import BrokersChanged, TopicsChanged
from hightide_controller.store import ActiveController, ControllerStore

__all__ = ["Reader", "ZooKeeperWatches"]

_log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.05


class Reader:
    """Reads one thing again each time it is marked; marks that come while it reads melt into one."""

    def __init__(self, name: str, read: Callable[[], Awaitable[None]], connected: asyncio.Event) -> None:
        self._read = read
        self._connected = connected
        self._marked = asyncio.Event()
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name=f"reader-{self._name}")

    def mark(self) -> None:
        """What it reads may have changed."""
        self._marked.set()

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await self._marked.wait()
            await self._connected.wait()
            self._marked.clear()
            try:
                await self._read()
            except ZooKeeperError as error:
                _log.warning("reading ZooKeeper is tried again: %s", error)
                self._marked.set()
                await asyncio.sleep(_PAUSE_S)
            except Exception:  # noqa: BLE001 - the top of a task
                _log.exception("reading %s is tried again", self._name)
                self._marked.set()
                await asyncio.sleep(1.0)


class ZooKeeperWatches:
    """One for each controller process. Reads `session.events`; nobody else may."""

    def __init__(
        self,
        session: ZooKeeperSession,
        store: ControllerStore,
        *,
        on_controller: Callable[[ActiveController | None], Awaitable[None]],
        on_brokers: Callable[[BrokersChanged], None],
        on_topics: Callable[[TopicsChanged], None],
        on_session_lost: Callable[[], None],
    ) -> None:
        self._session = session
        self._store = store
        self._on_controller = on_controller
        self._on_brokers = on_brokers
        self._on_topics = on_topics
        self._on_session_lost = on_session_lost
        self.connected = asyncio.Event()
        self.connected.set()
        self.is_active = False
        """Whether brokers and topics are read: set by the shell with the role."""
        self._seen_topics: set[str] = set()
        self.controller = Reader("controller", self._read_controller, self.connected)
        self._brokers = Reader("brokers", self._read_brokers, self.connected)
        self._topics = Reader("topics", self._read_topics, self.connected)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read; the controller first of all."""
        self._task = asyncio.create_task(self._follow_session(), name="zookeeper-events")
        for reader in (self.controller, self._brokers, self._topics):
            reader.start()
        self.controller.mark()

    def activate(self, topics_seen: set[str]) -> None:
        """This controller is the active one and knows these topics: follow brokers and topics from here on.

        Both are read once more, because what changed between the snapshot and now had no watch.
        """
        self.is_active = True
        self._seen_topics = set(topics_seen)
        self._brokers.mark()
        self._topics.mark()

    def deactivate(self) -> None:
        """Stand by again."""
        self.is_active = False
        self.controller.mark()

    async def close(self) -> None:
        """Stop all of it."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for reader in (self.controller, self._brokers, self._topics):
            await reader.close()

    async def _follow_session(self) -> None:
        while True:
            event = await self._session.events.get()
            match event:
                case SessionStateChanged(state=SessionState.CONNECTED):
                    self.connected.set()
                    self._mark_all()
                case SessionStateChanged(state=state):
                    self.connected.clear()
                    if state is SessionState.LOST:
                        self._on_session_lost()
                case WatchFired(path=path):
                    self._mark(path)

    def _mark(self, path: str) -> None:
        if path == ControllerZnode.path():
            self.controller.mark()
        elif path == znodes.BROKER_IDS:
            self._brokers.mark()
        elif path == znodes.TOPICS:
            self._topics.mark()

    def _mark_all(self) -> None:
        for reader in (self.controller, self._brokers, self._topics):
            reader.mark()

    async def _read_controller(self) -> None:
        await self._on_controller(await self._store.read_controller(watch=True))

    async def _read_brokers(self) -> None:
        if self.is_active:
            self._on_brokers(BrokersChanged(await self._store.read_brokers(watch=True)))

    async def _read_topics(self) -> None:
        if not self.is_active:
            return
        names = set(await self._store.topic_names(watch=True))
        added = await self._store.read_topics(names - self._seen_topics)
        removed = tuple(sorted(self._seen_topics - names))
        # Also those that cannot be understood, so that they are complained about once.
        self._seen_topics = names
        if added or removed:
            self._on_topics(TopicsChanged(added, removed))
