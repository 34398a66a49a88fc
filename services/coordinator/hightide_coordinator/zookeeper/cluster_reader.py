"""Reads topics with their partitions, and the live brokers, from ZooKeeper."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.cluster_znodes import TopicZnode, ZnodeGarbage
from hightide_runtime.znodes.leaders_znodes import LedTopicZnode, is_led
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.registrations import read_registrations
from hightide_runtime.zookeeper.session import Znode, ZooKeeperSession

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.values.topic_partition import Topic
from hightide_coordinator.zookeeper.complaints import Complaints

__all__ = ["ClusterReader", "TopicsRead"]


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """The result of a read of topics. A requested topic that is in neither field does not exist."""

    topics: dict[str, Topic] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    """Topics that exist and cannot be decoded, or have no id yet: nothing can be concluded about them."""


class ClusterReader:
    """Reads topics and brokers. One for each process. Methods raise ConnectionLost and SessionExpired."""

    def __init__(self, session: ZooKeeperSession, complaints: Complaints) -> None:
        self._session = session
        self._complaints = complaints

    async def brokers(self, *, watch: bool = False) -> tuple[Endpoint, ...]:
        """The live brokers, by id."""
        complaints = self._complaints
        found = await read_registrations(self._session, complaints.complain, complaints.settled, watch=watch)
        brokers = (
            Endpoint(
                each.broker_id,
                each.znode.host,
                each.znode.port,
                each.znode.external_host,
                each.znode.external_port,
            )
            for each in found
        )
        return tuple(sorted(brokers, key=lambda broker: broker.id))

    async def topic_names(self) -> list[str]:
        """The children of /brokers/topics, legal or not."""
        return await self._session.children(cluster_znodes.TOPICS)

    async def watch_topic_names(self) -> tuple[list[str], int]:
        """The children of /brokers/topics, legal or not, and how often one was created or deleted."""
        return await self._session.children_and_changes(cluster_znodes.TOPICS, watch=True)

    async def topics(self, names: Collection[str]) -> TopicsRead:
        """Read these topics, thousands of them in one round trip."""
        legal = [name for name in names if is_legal_topic_name(name)]
        for name in set(names) - set(legal):
            self._complaints.complain(f"{cluster_znodes.TOPICS}/{name[:260]}", "no topic can have this name")
        found = await self._session.multi_read(TopicZnode.path(name) for name in legal)
        topics: dict[str, Topic] = {}
        unreadable: set[str] = set()
        for name in legal:
            path = TopicZnode.path(name)
            if path not in found:
                self._complaints.settled(path)
                continue
            topic = self._topic_of(name, found[path])
            if topic is None:
                unreadable.add(name)
            else:
                topics[name] = topic
        return TopicsRead(topics, frozenset(unreadable))

    def _topic_of(self, name: str, found: Znode) -> Topic | None:
        """The topic of a znode, of a cluster with a controller or without one. None if it cannot be decoded,
        if it is still being created, or if the controller has not given it an id yet."""
        try:
            if is_led(found.data):
                led = LedTopicZnode.decode(found.data)
                self._complaints.settled(found.path)
                first_epochs = dict(led.first_leader_epochs)
                count = led.partition_count
                return Topic(name, led.topic_id, count, first_epochs) if count else None
            znode = TopicZnode.decode(found.data)
        except ZnodeGarbage as error:
            advice = "correct it, and do not delete it, because records would be lost with it"
            self._complaints.complain(found.path, error.reason, advice)
            return None
        self._complaints.settled(found.path)
        if not znode.topic_id:
            return None
        return Topic(name, znode.topic_id, len(znode.partitions), dict(znode.first_leader_epochs))
