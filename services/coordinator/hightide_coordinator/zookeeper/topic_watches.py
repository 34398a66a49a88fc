"""Watches topics and brokers, and reports their changes as events of the core (consumer coordinator §6).

It watches the children of /brokers/topics, and the znodes of the topics that groups read (§6
TopicPartitionChangeListener). Of other topics only creation and deletion matter. It works only while this
process coordinates a shard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.cluster_znodes import TopicZnode
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import ZooKeeperError, ZooKeeperSession
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

from hightide_coordinator.core.events import BrokersChanged, TopicsChanged
from hightide_coordinator.core.values.topic_partition import Topic
from hightide_coordinator.zookeeper.cluster_reader import ClusterReader

__all__ = ["TopicWatches"]

_REREAD_MAX: Final = 200
"""At most so many unreadable topics are read again at a time."""
_REREAD_S: Final = 1.0


class TopicWatches:
    """The watches of one process. CoordinatorWatches, which reads `session.events`, passes events on to
    it."""

    def __init__(
        self,
        session: ZooKeeperSession,
        cluster: ClusterReader,
        connected: asyncio.Event,
        on_topics: Callable[[TopicsChanged], None],
        on_brokers: Callable[[BrokersChanged], None],
    ) -> None:
        self._session = session
        self._cluster = cluster
        self._on_topics = on_topics
        self._on_brokers = on_brokers
        self._is_active = False
        self._terms = 0
        """Counts `activate` and `deactivate`, so that a read from before one has no effect after it."""
        self._seen: set[str] = set()
        """The children of /brokers/topics at the last read."""
        self._unreadable: frozenset[str] = frozenset()
        """Topics whose znodes could not be decoded, or had no id: no watch fires when they are corrected."""
        self._changes = -1
        """The number of creations and deletions of topics at the last read; -1 if it is not known."""
        self._wanted: set[str] = set()
        """The topics that groups read."""
        self._unwatched: set[str] = set()
        """Those of them that need a watch."""
        self._watched: dict[str, str] = {}
        """The topics whose znodes have a watch, by path."""
        self._changed: set[str] = set()
        """Topics that must be read again."""
        self._names = RepeatedReader("topics", self._read_names, connected)
        self._znodes = RepeatedReader("topic-znodes", self._read_znodes, connected)
        self._brokers = RepeatedReader("brokers", self._read_brokers, connected)
        self._readers = (self._names, self._znodes, self._brokers)
        self._rereading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the tasks. They read nothing before `activate`."""
        for reader in self._readers:
            reader.start()
        self._rereading = asyncio.create_task(self._reread(), name="unreadable-topics")

    async def close(self) -> None:
        """Stop the tasks."""
        if self._rereading is not None:
            self._rereading.cancel()
            await asyncio.wait([self._rereading])
        for reader in self._readers:
            await reader.close()

    def activate(self, topics: Iterable[str]) -> None:
        """Follow topics and brokers from now on. Called when this process coordinates a shard, whose core
        knows these topics.

        Everything is read once more, because changes between the core's snapshot and now had no watch.
        """
        self._is_active = True
        self._terms += 1
        self._seen |= set(topics)
        self._changes = -1
        self._mark_all()

    def deactivate(self) -> None:
        """Stop following. Called when this process coordinates no shard any more."""
        self._is_active = False
        self._terms += 1
        self._seen.clear()
        self._unreadable = frozenset()
        self._wanted.clear()
        self._unwatched.clear()
        self._watched.clear()
        self._changed.clear()

    def watch(self, topics: Iterable[str]) -> None:
        """Follow the partitions of these topics, too."""
        new = set(topics) - self._wanted
        if new:
            self._wanted |= new
            self._unwatched |= new
            self._znodes.mark()

    def unwatch(self, topics: Iterable[str]) -> None:
        """Stop following the partitions of these topics. ZooKeeper removes a watch when it fires."""
        for topic in topics:
            self._wanted.discard(topic)
            self._unwatched.discard(topic)
            if is_legal_topic_name(topic):
                self._watched.pop(TopicZnode.path(topic), None)

    async def look_up(self, topics: Iterable[str]) -> None:
        """Read these topics, and report them to the core. Called for topics of a request, since the watch
        that reports them may be under way. The caller limits their number and the time. Raises
        ZooKeeperError."""
        named = set(filter(is_legal_topic_name, topics))
        if not named:
            return
        await self._session.sync()
        if self._is_active:
            self._changed |= named
            await self._znodes.read_anew()

    def reconnected(self) -> None:
        """Set all watches again after a new connection, since they were lost with the old one."""
        self._changed |= set(self._watched.values())
        self._unwatched |= set(self._watched.values())
        self._watched.clear()
        self._mark_all()

    def fired(self, path: str) -> None:
        """Handle a watch that has fired."""
        if path == cluster_znodes.TOPICS:
            self._names.mark()
        elif path == cluster_znodes.BROKER_IDS:
            self._brokers.mark()
        elif (topic := self._watched.pop(path, None)) is not None:
            self._changed.add(topic)
            self._unwatched.add(topic)
            self._znodes.mark()

    def _mark_all(self) -> None:
        for reader in self._readers:
            reader.mark()

    async def _reread(self) -> None:
        """Read unreadable topics again from time to time, since they have no watch."""
        while True:
            await asyncio.sleep(_REREAD_S)
            if self._unreadable:
                self._changed.update(islice(sorted(self._unreadable), _REREAD_MAX))
                self._znodes.mark()

    async def _read_brokers(self) -> None:
        if self._is_active:
            self._on_brokers(BrokersChanged(await self._cluster.brokers(watch=True)))

    async def _read_names(self) -> None:
        if not self._is_active:
            return
        term = self._terms
        children, changes = await self._cluster.watch_topic_names()
        names = set(children)
        added, removed = names - self._seen, self._seen - names
        # Only the number of changes shows that a topic was deleted and created again. All are read then, and
        # the core compares their ids.
        has_recreated = changes - self._changes != len(added) + len(removed)
        read = await self._cluster.topics(names if has_recreated else added)
        if term != self._terms:
            return
        self._seen, self._changes = names, changes
        self._unreadable = (self._unreadable & names) | read.unreadable
        gone = removed | ((names if has_recreated else added) - read.topics.keys() - read.unreadable)
        self._tell(read.topics, gone)

    async def _read_znodes(self) -> None:
        if not self._is_active:
            return
        term = self._terms
        new = {TopicZnode.path(name): name for name in self._unwatched if is_legal_topic_name(name)}
        self._unwatched = set()
        self._watched |= new
        changed, self._changed = self._changed, set()
        # No watch reports changes before it was set, so each new one counts as a change.
        changed |= set(new.values())
        try:
            # If the znode does not exist, the watch fires when it is created.
            await asyncio.gather(*(self._session.exists(path, watch=True) for path in new))
            read = await self._cluster.topics(changed)
        except ZooKeeperError:
            for path, name in new.items():
                self._watched.pop(path, None)
                if name in self._wanted:
                    self._unwatched.add(name)
            self._changed |= changed
            raise
        if changed and term == self._terms:
            self._unreadable = (self._unreadable - read.topics.keys()) | read.unreadable
            self._tell(read.topics, changed - read.topics.keys() - read.unreadable)

    def _tell(self, topics: dict[str, Topic], gone: set[str]) -> None:
        self._unreadable -= gone
        if topics or gone:
            self._on_topics(TopicsChanged({**topics, **dict.fromkeys(gone)}))
