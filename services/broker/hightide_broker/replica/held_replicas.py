"""The replicas that this broker holds: for each one the state of its core, its log, and the requests that
wait for it.

Made for ten thousand idle partitions: a replica costs one object, and no task or timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.replica import Replica
from hightide_broker.replica.parking import AckQueue, ParkedFetch

if TYPE_CHECKING:
    from hightide_broker.replica.first_commit import FirstCommit
    from hightide_broker.storage import Log


class HostedReplica:
    """One replica. Only `shell.ReplicaShell` replaces `state`; the log follows from it."""

    __slots__ = (
        "acks", "adding_replicas", "deadline_ms", "fetches", "first_commit", "is_damaged", "key",
        "leaders_log_start", "log", "settings", "state", "topic", "traceparent", "waits_for_disk",
    )  # fmt: skip

    def __init__(
        self, key: PartitionKey, topic: str, settings: TopicSettings, state: Replica, log: Log
    ) -> None:
        self.key = key
        self.topic = topic
        self.settings = settings
        self.state = state
        self.log = log
        self.adding_replicas: frozenset[int] = frozenset()
        """The replicas that a move adds, as of the last decision. What the leader sends to them has a speed
        limit."""
        self.leaders_log_start = 0
        """Where the leader's log starts, as it last said. Nothing before that is needed any more."""
        self.is_damaged = False
        """Whether batches of its log are damaged. It fetches nothing until they are repaired (`healing`), so
        that its leader does not count it as in sync."""
        self.waits_for_disk = False
        """Whether a call to its disk does not return. It fetches nothing until the disk answers
        (`hung_disks`), so that its leader does not count it as in sync."""
        self.acks = AckQueue()
        self.fetches: dict[ParkedFetch, None] = {}
        """The fetches that wait for records. No set: that takes 200 bytes where it is empty."""
        self.deadline_ms: int | None = None
        """When the shell's timer checks this replica; set by `deadlines.Deadlines`."""
        self.traceparent = ""
        """The trace of the last change of leadership; empty if there is none."""
        self.first_commit: FirstCommit | None = None
        """The trace of the failover that made this replica leader, until its first commit."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.key[1]}"

    @property
    def is_held(self) -> bool:
        """Whether it must not fetch."""
        return self.is_damaged or self.waits_for_disk

    def flush(self) -> None:
        """Sync the log. Called on the disk's thread."""
        self.log.flush()

    def wake_fetches(self) -> None:
        """Wake the fetches that wait: something that consumers wait for has moved."""
        for fetch in self.fetches:
            fetch.wake()


class HostedReplicas:
    """All replicas of this broker, by topic id and partition. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._by_key: dict[PartitionKey, HostedReplica] = {}
        self._by_topic: dict[bytes, set[int]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[HostedReplica]:
        return iter(tuple(self._by_key.values()))

    def get(self, key: PartitionKey) -> HostedReplica | None:
        """The replica, or None if this broker does not hold it."""
        return self._by_key.get(key)

    def of_topic(self, topic_id: bytes) -> list[HostedReplica]:
        """The replicas of one topic, by partition."""
        return [self._by_key[topic_id, number] for number in sorted(self._by_topic.get(topic_id, ()))]

    def add(self, replica: HostedReplica) -> None:
        """Add a new replica."""
        assert replica.key not in self._by_key, replica
        self._by_key[replica.key] = replica
        topic_id, partition = replica.key
        self._by_topic.setdefault(topic_id, set()).add(partition)

    def remove(self, replica: HostedReplica) -> None:
        """Remove a replica that was stopped for good."""
        del self._by_key[replica.key]
        topic_id, partition = replica.key
        partitions = self._by_topic[topic_id]
        partitions.discard(partition)
        if not partitions:
            del self._by_topic[topic_id]
