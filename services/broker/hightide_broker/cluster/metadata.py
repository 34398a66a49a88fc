"""The broker's answer to clients that ask for the leaders of partitions (V3 discussion 6).

It is a cache of what the controller last sent, and never a source of truth: if it sends a client to the wrong
leader, that broker refuses the client, which then asks again. Rules of this file: no I/O, no clock, no pb2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hightide_runtime.addresses import HostPort
from msgspec import Struct
from msgspec.structs import replace

DELETED_IDS_MAX: Final = 1_000
"""How many ids of deleted topics are kept, so that late news does not bring a deleted topic back."""
BLANK: Final = "has heard from no controller since it started, and does not know the topics"


class EndpointView(Struct, frozen=True):
    """A broker, controller or coordinator, and its addresses for clients and brokers."""

    id: int
    host: str
    port: int
    external_host: str = ""
    """The address for clients from outside; empty: none."""
    external_port: int = 0

    @property
    def address(self) -> HostPort:
        """The address to which a channel connects."""
        return HostPort(self.host, self.port)


@dataclass(slots=True, eq=False)
class LeaderChange:
    """The trace of an event that gave partitions their leaders, one for all that it changed together. Clients
    that waited for it join that trace. The code that sets it clears it after a while."""

    traceparent: str


class PartitionView(Struct, frozen=True):
    """The leader and the replicas of one partition, as last heard."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    change: LeaderChange | None = None
    """The event that began this leader epoch, if it was traced."""


class TopicView(Struct, frozen=True):
    """One topic; `partitions` is sorted by partition number."""

    topic: str
    topic_id: bytes
    partitions: tuple[PartitionView, ...]
    configs: Mapping[str, str]


class RemovedPartitions(Struct, frozen=True):
    """Partitions that a topic no longer has (V3 section H)."""

    topic_id: bytes
    partitions: tuple[int, ...]


class MetadataUpdate(Struct, frozen=True):
    """One UpdateMetadata request of the controller, after its stamp was checked; or what ZooKeeper holds when
    a broker starts."""

    controller_epoch: int
    controller: EndpointView | None
    brokers: tuple[EndpointView, ...]
    topics: tuple[TopicView, ...]
    deleted_topic_ids: tuple[bytes, ...] = ()
    full: bool = False
    removed: tuple[RemovedPartitions, ...] = ()
    reassignment_throttle_bytes_per_s: int | None = None
    """The speed limit of moves, 0: none. None means that it is not given (at startup), and stays as it is."""


def _newer(
    known: PartitionView | None, heard: PartitionView, change: LeaderChange | None, *, whole: bool
) -> PartitionView:
    """Keep what is newer: news may arrive after a takeover or ZooKeeper has given a later state.

    `change` belongs to the news. It began a leader epoch only if that epoch is new, because a takeover sends
    everything once more. For a broker that knows nothing yet, all of it is new (`whole`), and nothing says
    what changed.
    """
    if known is not None:
        if (heard.leader_epoch, heard.partition_epoch) < (known.leader_epoch, known.partition_epoch):
            return known
        if heard.leader_epoch == known.leader_epoch:
            change = known.change
    elif whole:
        change = None
    return heard if change is None else replace(heard, change=change)


@dataclass(slots=True)
class MetadataCache:
    """The cluster as last heard. Owned by the broker's event loop; no method awaits."""

    cluster_id: str
    controller_epoch: int = 0
    controller: EndpointView | None = None
    brokers: dict[int, EndpointView] = field(default_factory=dict)
    coordinators: tuple[EndpointView | None, ...] = ()
    """The active coordinator of each shard of groups, or None. It does not come from the controller."""
    _by_name: dict[str, TopicView] = field(default_factory=dict)
    _by_id: dict[bytes, TopicView] = field(default_factory=dict)
    _deleted: dict[bytes, str] = field(default_factory=dict)
    """Topics that were deleted recently, with their names; the oldest first."""

    def apply(self, update: MetadataUpdate, change: LeaderChange | None = None) -> tuple[bytes, ...]:
        """Apply the controller's update, and return the ids of the topics that it removed. The caller has
        fenced older controller epochs. `change` belongs to the update.

        A full update replaces all topics. Another update merges its partitions, and removes those that it
        names as removed. If a topic's name comes with another id, the topic was deleted and created again:
        the old one is removed.
        """
        forgotten: list[bytes] = []
        self.controller_epoch = update.controller_epoch
        self.controller = update.controller
        self.brokers = {broker.id: broker for broker in update.brokers}
        if update.full:
            named = {topic.topic for topic in update.topics}
            absent = [topic for name, topic in self._by_name.items() if name not in named]
            forgotten += map(self._forget, absent)
        for topic_id in update.deleted_topic_ids:
            if deleted := self._by_id.get(topic_id):
                self._forget(deleted)
            self._note_deleted(topic_id, "" if deleted is None else deleted.topic)
            forgotten.append(topic_id)
        for removed in update.removed:
            self._remove(removed)
        for topic in update.topics:
            self._deleted.pop(topic.topic_id, None)
            forgotten += self._merge(topic, change, whole=update.full)
        return tuple(forgotten)

    @property
    def is_blank(self) -> bool:
        """Whether no controller has sent metadata since this broker started. A missing topic means nothing
        then."""
        return self.controller_epoch == 0

    def topic(self, name: str) -> TopicView | None:
        """The topic of this name, or None if it is not known."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicView | None:
        """The topic with this id, or None if it is not known."""
        return self._by_id.get(topic_id)

    def is_deleted(self, topic_id: bytes) -> bool:
        """Whether the topic was deleted recently."""
        return topic_id in self._deleted

    def name_of_deleted(self, topic_id: bytes) -> str:
        """The name of a topic that was deleted recently; empty if it is not known."""
        return self._deleted.get(topic_id, "")

    def topics(self) -> list[TopicView]:
        """All topics, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def partition(self, topic_id: bytes, partition: int) -> PartitionView | None:
        """One partition, or None if it is not known."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            return None
        # Partitions are sorted and nearly always dense, so that the number is the index.
        if 0 <= partition < len(topic.partitions) and topic.partitions[partition].partition == partition:
            return topic.partitions[partition]
        return next((view for view in topic.partitions if view.partition == partition), None)

    def note_decisions(
        self,
        topic: str,
        topic_id: bytes,
        decisions: Iterable[PartitionView],
        change: LeaderChange | None = None,
    ) -> list[bytes]:
        """Apply a LeaderAndISR, which may come before the UpdateMetadata, or after the end of a topic. Return
        the id of the topic that had the name before, if that removes one."""
        if self.is_deleted(topic_id):
            return []
        return self._merge(TopicView(topic, topic_id, tuple(decisions), {}), change, keep_configs=True)

    def _merge(
        self,
        heard: TopicView,
        change: LeaderChange | None,
        *,
        keep_configs: bool = False,
        whole: bool = False,
    ) -> list[bytes]:
        forgotten = []
        known = self._by_name.get(heard.topic)
        if known is not None and known.topic_id != heard.topic_id:
            forgotten.append(self._forget(known))
            known = None
        before = {view.partition: view for view in known.partitions} if known is not None else {}
        partitions = {} if whole else dict(before)
        for view in heard.partitions:
            partitions[view.partition] = _newer(before.get(view.partition), view, change, whole=whole)
        merged = replace(heard, partitions=tuple(partitions[number] for number in sorted(partitions)))
        if keep_configs and known is not None:
            merged = replace(merged, configs=known.configs)
        self._by_name[heard.topic] = merged
        self._by_id[heard.topic_id] = merged
        return forgotten

    def _remove(self, removed: RemovedPartitions) -> None:
        known = self._by_id.get(removed.topic_id)
        if known is None:
            return
        gone = frozenset(removed.partitions)
        left = replace(known, partitions=tuple(v for v in known.partitions if v.partition not in gone))
        self._by_name[known.topic] = self._by_id[known.topic_id] = left

    def _forget(self, topic: TopicView) -> bytes:
        del self._by_name[topic.topic]
        del self._by_id[topic.topic_id]
        self._note_deleted(topic.topic_id, topic.topic)
        return topic.topic_id

    def _note_deleted(self, topic_id: bytes, name: str) -> None:
        self._deleted[topic_id] = self._deleted.pop(topic_id, "") or name
        while len(self._deleted) > DELETED_IDS_MAX:
            del self._deleted[next(iter(self._deleted))]
