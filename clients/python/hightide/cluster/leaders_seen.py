"""The newest leader of each partition that any part of one client has heard of."""

import threading
from collections.abc import Iterable
from typing import Final

from hightide.records import PartitionDescription

# Beyond this many topics, those that were heard of first are dropped.
TOPICS_MAX: Final = 10_000


class LeadersSeen:
    """The newest leaders known to one client, shared by all its `Cluster`s. So no request goes to the leader
    of an older epoch than one that the client has heard of from any source. Thread-safe.

    A broker that was stopped for a while, or is cut off, answers GetMetadata and ListOffsets from its old
    state: it holds no lease on reading. Only the epoch in the request shows it that it is behind (KIP-320,
    KAFKA-7395). Epochs are compared within one topic id: a topic that was deleted and created again begins
    anew.
    """

    def __init__(self) -> None:
        self._topics: dict[bytes, dict[int, PartitionDescription]] = {}
        self._lock = threading.Lock()

    def take_over(
        self, topic_id: bytes, heard: Iterable[PartitionDescription]
    ) -> tuple[PartitionDescription, ...]:
        """Record the leaders of some partitions of a topic. Returns the newest description of each that was
        ever heard."""
        with self._lock:
            known = self._topics.setdefault(topic_id, {})
            if len(self._topics) > TOPICS_MAX:
                del self._topics[next(iter(self._topics))]
            newest = tuple(max(known.get(each.partition, each), each, key=_age) for each in heard)
            known.update((each.partition, each) for each in newest)
        return newest

    def newest(self, topic_id: bytes, known: PartitionDescription) -> PartitionDescription:
        """The given description of a partition, or a newer one that was heard since. Needs no lock, since it
        changes nothing."""
        heard = self._topics.get(topic_id, {}).get(known.partition, known)
        return max(known, heard, key=_age)


def _age(partition: PartitionDescription) -> tuple[int, int]:
    return partition.leader_epoch, partition.partition_epoch
