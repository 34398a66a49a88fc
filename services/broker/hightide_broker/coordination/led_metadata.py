"""What a broker of a cluster without a controller knows of all topics, for clients: read from the znodes, and
read again where they change.

Theory of operation. One watch on the tree of topics and one on the registrations tell of each znode that
changes, however many there are. So a change costs one read of what it is about, together with all that has
changed since the last read. As with a controller, it is a cache: a client that is sent to the wrong leader is
refused there, and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from hightide_leaders.core.values import TopicPartition
from hightide_runtime.znodes.admin_znodes import ReassignmentThrottleZnode
from hightide_runtime.znodes.cluster_znodes import BROKER_IDS, TOPICS
from hightide_runtime.znodes.leaders_znodes import LedTopicZnode
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import (
    SessionState,
    SessionStateChanged,
    TreeChanged,
    ZooKeeperEvent,
    ZooKeeperSession,
)
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

from hightide_broker.cluster.metadata import EndpointView, MetadataCache, RemovedPartitions, TopicView
from hightide_broker.coordination.led_cluster import LedCluster, views_of
from hightide_broker.hosting.startup import read_brokers

THROTTLE: Final = ReassignmentThrottleZnode.path()
PARTS: Final = frozenset(("leader", "ISR", "replicas"))


class LedMetadata:
    """Keeps a MetadataCache up to date. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        cluster: LedCluster,
        cache: MetadataCache,
        on_topics: Callable[[Iterable[TopicView]], None],
        on_brokers: Callable[[frozenset[int]], None],
        on_throttle: Callable[[int], None],
    ) -> None:
        """`on_topics` hears of every topic that changed, with its settings and the partitions that changed;
        `on_brokers` of all brokers that are registered, when one has come or gone; `on_throttle` of the speed
        limit of moves, in bytes a second."""
        self._session = session
        self._cluster = cluster
        self._cache = cache
        self._on_topics = on_topics
        self._on_brokers = on_brokers
        self._on_throttle = on_throttle
        self._brokers: tuple[EndpointView, ...] = ()
        self._connected = asyncio.Event()
        self._everything = True
        self._topics: set[str] = set()
        self._partitions: set[TopicPartition] = set()
        self._is_registration = self._is_throttle = False
        self._reader = RepeatedReader("topics", self._read, self._connected)

    def start(self) -> None:
        """Begin to read, and to follow what changes."""
        self._session.followers.add(self._zookeeper_says)
        self._connected.set()
        self._reader.start()
        self._reader.mark()

    async def close(self) -> None:
        """Stop."""
        self._session.followers.discard(self._zookeeper_says)
        await self._reader.close()

    def _zookeeper_says(self, event: ZooKeeperEvent) -> None:
        match event:
            case SessionStateChanged(state=SessionState.CONNECTED):
                self._everything = True
                self._connected.set()
                self._reader.mark()
            case SessionStateChanged():
                self._connected.clear()
            case TreeChanged(path) if self._is_news(path):
                self._reader.mark()
            case _:
                pass

    def _is_news(self, path: str) -> bool:
        """Note what a change of this znode is about; False if that is nothing."""
        if path.startswith(BROKER_IDS):
            self._is_registration = True
        elif path == THROTTLE:
            self._is_throttle = True
        elif path.startswith(f"{TOPICS}/"):
            return self._is_of_topic(*path.removeprefix(f"{TOPICS}/").split("/"))
        else:
            return False
        return True

    def _is_of_topic(self, topic: str, number: str = "", part: str = "", *_: str) -> bool:
        if not is_legal_topic_name(topic):
            return False
        if number == "":
            self._topics.add(topic)
            return True
        if part not in PARTS or not (number.isascii() and number.isdigit() and len(number) < 10):
            return False
        self._partitions.add(TopicPartition(topic, int(number)))
        return True

    async def _read(self) -> None:
        everything, topics, partitions = self._everything, self._topics, self._partitions
        is_registration, is_throttle = self._is_registration, self._is_throttle
        self._everything = self._is_registration = self._is_throttle = False
        self._topics, self._partitions = set(), set()
        try:
            if everything:
                await self._read_everything()
                return
            if is_throttle:
                await self._read_throttle()
            if is_registration:
                self._hear_of(await read_brokers(self._session))
            await self._read_some(topics, {each for each in partitions if each.topic not in topics})
        except BaseException:
            self._everything |= everything
            self._is_registration |= is_registration
            self._is_throttle |= is_throttle
            self._topics |= topics
            self._partitions |= partitions
            raise

    async def _read_everything(self) -> None:
        await asyncio.gather(*map(self._session.watch_tree, (TOPICS, BROKER_IDS, THROTTLE)))
        stored = await self._cluster.read()
        self._hear_of(stored.metadata.brokers)
        self._cache.apply(stored.metadata)
        self._on_topics(stored.metadata.topics)
        await self._read_throttle()

    def _hear_of(self, brokers: tuple[EndpointView, ...]) -> None:
        self._brokers = brokers
        self._on_brokers(frozenset(each.id for each in brokers))

    async def _read_throttle(self) -> None:
        throttle = await self._cluster.read_throttle()
        if throttle is not None:  # Else it stays as it is.
            self._on_throttle(throttle)

    async def _read_some(self, topics: set[str], partitions: set[TopicPartition]) -> None:
        whole = await self._cluster.read_topics(sorted(topics))
        parts = await self._cluster.read_partitions(sorted(partitions))
        views = [*views_of(whole), *views_of(parts)]
        # What is there and cannot be read is not gone.
        unread = {LedTopicZnode.path(name): name for name in topics - whole.keys()}
        found = await self._session.multi_read(list(unread)) if unread else {}
        names = (name for path, name in unread.items() if path not in found)
        gone = [known.topic_id for name in names if (known := self._cache.topic(name))]
        removed = [
            RemovedPartitions(known.topic_id, numbers)
            for name, (topic, _) in whole.items()
            if (known := self._cache.topic(name)) is not None and known.topic_id == topic.topic_id
            if (numbers := _removed(known, topic.partition_count))
        ]
        self._cache.apply(self._cluster.update(self._brokers, views, gone, removed))
        self._on_topics(views)


def _removed(known: TopicView, count: int) -> tuple[int, ...]:
    """The partitions of a topic that are gone, now that it has so many; none of one that goes as a whole."""
    return tuple(each.partition for each in known.partitions if each.partition >= count > 0)
