"""Topics that come, go and change, and brokers, as events of the core (consumer coordinator §6).

The children of /brokers/topics are watched, and the znodes of the topics that groups read (§6
TopicPartitionChangeListener); of the others only the coming and going matters. Only while this process
coordinates a shard.
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
from hightide_runtime.zookeeper.znode_reader import Reader

from hightide_coordinator.core.events import BrokersChanged, TopicsChanged
from hightide_coordinator.core.values.topic_partition import Topic
from hightide_coordinator.zookeeper.cluster_reader import ClusterReader

__all__ = ["TopicWatches"]

_LOOKED_AT_AGAIN_MAX: Final = 200
_LOOK_AGAIN_S: Final = 1.0


class TopicWatches:
    """One for each process. The reader of `session.events` passes events on to it."""

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
        """The children of /brokers/topics, as of the last read."""
        self._unreadable: frozenset[str] = frozenset()
        """Topics whose znodes could not be decoded, or had no id: no watch fires when they are corrected."""
        self._changes = -1
        """How often topics were created or deleted, as of the last read; -1: not known."""
        self._wanted: set[str] = set()
        """The topics that groups read."""
        self._unwatched: set[str] = set()
        """Those of them that are to get a watch."""
        self._watched: dict[str, str] = {}
        """Path → topic, of the topic znodes that have a watch."""
        self._changed: set[str] = set()
        """Topics that are to be read again."""
        self._names = Reader("topics", self._read_names, connected)
        self._znodes = Reader("topic-znodes", self._read_znodes, connected)
        self._brokers = Reader("brokers", self._read_brokers, connected)
        self._readers = (self._names, self._znodes, self._brokers)
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; nothing is read before `activate`."""
        for reader in self._readers:
            reader.start()
        self._looking = asyncio.create_task(self._look_again(), name="unreadable-topics")

    async def close(self) -> None:
        """Stop all of it."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for reader in self._readers:
            await reader.close()

    def activate(self, topics: Iterable[str]) -> None:
        """This process coordinates a shard, whose core knows these topics: follow everything from here on.

        It is all read once more, because what changed between the snapshot and now had no watch.
        """
        self._is_active = True
        self._terms += 1
        self._seen |= set(topics)
        self._changes = -1
        self._mark_all()

    def deactivate(self) -> None:
        """This process coordinates no shard any more."""
        self._is_active = False
        self._terms += 1
        self._seen.clear()
        self._unreadable = frozenset()
        self._wanted.clear()
        self._unwatched.clear()
        self._watched.clear()
        self._changed.clear()

    def watch(self, topics: Iterable[str]) -> None:
        """Follow the partitions of these topics too."""
        new = set(topics) - self._wanted
        if new:
            self._wanted |= new
            self._unwatched |= new
            self._znodes.mark()

    def unwatch(self, topics: Iterable[str]) -> None:
        """Follow the partitions of these no more. A watch that ZooKeeper has goes when it fires."""
        for topic in topics:
            self._wanted.discard(topic)
            self._unwatched.discard(topic)
            if is_legal_topic_name(topic):
                self._watched.pop(TopicZnode.path(topic), None)

    async def look_up(self, topics: Iterable[str]) -> None:
        """Tell the core of these topics as ZooKeeper has them now: a request names them, and the watch that
        tells of them may be on its way. The caller bounds how many, and how long. Raises ZooKeeperError."""
        named = set(filter(is_legal_topic_name, topics))
        if not named:
            return
        await self._session.sync()
        if self._is_active:
            self._changed |= named
            await self._znodes.read_anew()

    def reconnected(self) -> None:
        """The connection is back: watches were lost with it."""
        self._changed |= set(self._watched.values())
        self._unwatched |= set(self._watched.values())
        self._watched.clear()
        self._mark_all()

    def fired(self, path: str) -> None:
        """A watch fired."""
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

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            if self._unreadable:
                self._changed.update(islice(sorted(self._unreadable), _LOOKED_AT_AGAIN_MAX))
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
        # A topic that was deleted and created again under the same name shows only in the number of changes.
        # Its id would say which one, so all are read; the core knows which are new to it.
        unseen = changes - self._changes != len(added) + len(removed)
        read = await self._cluster.topics(names if unseen else added)
        if term != self._terms:
            return
        self._seen, self._changes = names, changes
        self._unreadable = (self._unreadable & names) | read.unreadable
        gone = removed | ((names if unseen else added) - read.topics.keys() - read.unreadable)
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
            # A watch on what exists; where it does not, it fires when it is created.
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
