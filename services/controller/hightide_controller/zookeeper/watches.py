"""ZooKeeper's watches as events of the core: the active controller, brokers, topics, and requests below
/admin.

A watch only says that something changed. So each of these is a reader that is marked and then reads, with a
new watch. All are marked when the connection returns, because watches may have been lost with it. All but the
first are read by the active controller only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice

from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.cluster_znodes import ControllerZnode, LeaderAndIsrZnode
from hightide_runtime.zookeeper.session import (
    SessionState,
    SessionStateChanged,
    TreeChanged,
    WatchFired,
    ZooKeeperError,
    ZooKeeperSession,
)
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

from hightide_controller.core.events import BrokersChanged, TopicsChanged
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.zookeeper.admin_reader import AdminRead, AdminReader
from hightide_controller.zookeeper.store import ActiveController, ControllerStore

__all__ = ["ZooKeeperWatches"]


class ZooKeeperWatches:
    """Turns watches into events. One for each controller process. It alone may read `session.events`."""

    def __init__(
        self,
        session: ZooKeeperSession,
        store: ControllerStore,
        *,
        on_controller: Callable[[ActiveController | None], Awaitable[None]],
        on_brokers: Callable[[BrokersChanged], None],
        on_topics: Callable[[TopicsChanged], None],
        on_admin: Callable[[AdminRead], None],
        on_states: Callable[[frozenset[TopicPartition]], None],
        on_session_lost: Callable[[], None],
        stand: Callable[[], Awaitable[None]],
    ) -> None:
        """`stand`: register as a candidate, once for each session; see `Candidate`."""
        self._session = session
        self._store = store
        self._on_controller = on_controller
        self._on_brokers = on_brokers
        self._on_topics = on_topics
        self._on_admin = on_admin
        self._on_states = on_states
        self._on_session_lost = on_session_lost
        self.connected = asyncio.Event()
        self.connected.set()
        self.is_active = False
        """Whether brokers and topics are read: set by the shell with the role."""
        self.admin_reader = AdminReader(session)
        self._seen_topics: set[str] = set()
        self._topics_to_look_at: frozenset[str] = frozenset()
        self._topic_changes = -1
        """How often topics were created or deleted, as of the last read; -1: not known."""
        self._admin_paths: set[str] = set()
        """The paths below /admin that have changed, and were not read again yet."""
        self._admin_turn = 0
        """Grows with each reason to set the watch and read everything below /admin again."""
        self._admin_read_in = -1
        """The value of `_admin_turn` at the last read."""
        self._watched_states: frozenset[TopicPartition] = frozenset()
        self._state_paths: dict[str, TopicPartition] = {}
        """The partitions under reassignment whose leaderAndISR has a watch."""
        self._changed_states: set[TopicPartition] = set()
        self.controller = RepeatedReader("controller", self._read_controller, self.connected)
        self._brokers = RepeatedReader("brokers", self._read_brokers, self.connected)
        self._topics = RepeatedReader("topics", self._read_topics, self.connected)
        self._admin = RepeatedReader("admin", self._read_admin, self.connected)
        self._states = RepeatedReader("states", self._watch_states, self.connected)
        self._candidate = RepeatedReader("candidate", stand, self.connected)
        self._readers = (
            *(self.controller, self._brokers, self._topics, self._admin, self._states),
            self._candidate,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read; first the active controller."""
        self._task = asyncio.create_task(self._follow_session(), name="zookeeper-events")
        for reader in self._readers:
            reader.start()
        self.controller.mark()
        self._candidate.mark()

    def activate(self, topics_seen: set[str]) -> None:
        """Follow everything from now on: this controller is the active one and knows these topics.

        Everything is read once more, because changes between the snapshot and now had no watch.
        """
        self.is_active = True
        self._seen_topics = set(topics_seen)
        self._topic_changes = -1
        self._admin_turn += 1
        for reader in (self._brokers, self._topics, self._admin):
            reader.mark()

    def look_at_topics_again(self, known: Mapping[str, object], at_most: int) -> None:
        """Read topic znodes that are not `known` by now: no watch fires when an operator has corrected
        one."""
        if len(self._seen_topics) != len(known) and (unknown := self._seen_topics - known.keys()):
            self._topics_to_look_at = frozenset(islice(sorted(unknown), at_most))
            self._topics.mark()

    def watch_states(self, names: frozenset[TopicPartition]) -> None:
        """Call `on_states` when the leaderAndISR of one of these partitions changes, and for no others."""
        self._watched_states = names
        self._states.mark()

    def deactivate(self) -> None:
        """Stand by again."""
        self.is_active = False
        self.admin_reader.forget()
        self._watched_states = frozenset()
        self._state_paths.clear()
        self._changed_states.clear()
        self._admin_paths.clear()
        self.controller.mark()

    async def close(self) -> None:
        """End all watches and reads."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for reader in self._readers:
            await reader.close()

    async def _follow_session(self) -> None:
        while True:
            event = await self._session.events.get()
            match event:
                case SessionStateChanged(state=SessionState.CONNECTED):
                    self.connected.set()
                    self._admin_turn += 1
                    self._changed_states |= set(self._state_paths.values())
                    self._state_paths.clear()
                    self._mark_all()
                case SessionStateChanged(state=state):
                    self.connected.clear()
                    if state is SessionState.LOST:
                        self._on_session_lost()
                case WatchFired(path=path):
                    self._mark(path)
                case TreeChanged(path=path):
                    self._mark_admin(path)

    def _mark(self, path: str) -> None:
        if path == ControllerZnode.path():
            self.controller.mark()
        elif path == cluster_znodes.BROKER_IDS:
            self._brokers.mark()
        elif path == cluster_znodes.TOPICS:
            self._topics.mark()
        elif path in self._state_paths:
            self._changed_states.add(self._state_paths.pop(path))
            self._states.mark()

    def _mark_admin(self, path: str) -> None:
        if self.is_active:
            self._admin_paths.add(path)
            self._admin.mark()

    def _mark_all(self) -> None:
        for reader in self._readers:
            reader.mark()

    async def _read_controller(self) -> None:
        await self._on_controller(await self._store.read_controller(watch=True))

    async def _read_brokers(self) -> None:
        if self.is_active:
            self._on_brokers(BrokersChanged(await self._store.read_brokers(watch=True)))

    async def _read_topics(self) -> None:
        if not self.is_active:
            return
        children, changes = await self._store.watch_topic_names()
        names = set(children)
        added, removed = names - self._seen_topics, self._seen_topics - names
        # A topic that was deleted and created again under the same name shows only in the number of changes.
        # Its id would say which one, so all are read; the core knows which are new to it.
        unseen = changes - self._topic_changes != len(added) + len(removed)
        again, self._topics_to_look_at = self._topics_to_look_at & names, frozenset()
        topics = await self._store.read_topics(names if unseen else added | again)
        self._seen_topics, self._topic_changes = names, changes
        # Also if there are none: they carry the complaints about what could not be decoded.
        self._on_topics(TopicsChanged(topics, tuple(sorted(removed)), is_everything=unseen))

    async def _read_admin(self) -> None:
        if not self.is_active:
            return
        if self._admin_read_in != (turn := self._admin_turn):
            await self.admin_reader.watch()
            self._admin_paths.clear()
            read = await self.admin_reader.read_all(await self._store.topics_with_configs())
            # Not its present value: a connection may have been lost meanwhile, and the watches with it.
            self._admin_read_in = turn
        else:
            paths, self._admin_paths = self._admin_paths, set()
            try:
                read = await self.admin_reader.read(paths)
            except ZooKeeperError:
                self._admin_paths |= paths
                raise
        self._on_admin(read)

    async def _watch_states(self) -> None:
        if not self.is_active:
            return
        paths = {LeaderAndIsrZnode.path(*name): name for name in sorted(self._watched_states)}
        self._state_paths = {path: name for path, name in self._state_paths.items() if path in paths}
        new = [path for path in paths if path not in self._state_paths]
        self._state_paths |= {path: paths[path] for path in new}
        try:
            # A watch on an existing znode; otherwise it fires when the znode is created.
            await asyncio.gather(*(self._session.exists(path, watch=True) for path in new))
        except ZooKeeperError:
            for path in new:
                self._state_paths.pop(path, None)
            raise
        # No watch reports changes before it was set, so each new one counts as a change.
        changed = self._changed_states | {paths[path] for path in new}
        self._changed_states = set()
        if changed:
            self._on_states(frozenset(changed))
