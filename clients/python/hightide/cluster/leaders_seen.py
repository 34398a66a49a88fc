"""The newest leader of each partition that any part of one client has heard of."""

import threading
from collections.abc import Iterable
from typing import Final

from hightide.records import PartitionDescription

# Beyond this many topics those are forgotten that were heard of first.
TOPICS_MAX: Final = 10_000


class LeadersSeen:
    """One a client, shared by all its `Cluster`s, so that no question goes to the leader of an older epoch
    than one that the client has heard of, whoever it heard of it from. Thread-safe.

    A broker that was stopped for a while, or is cut off, answers GetMetadata and ListOffsets as of then: it
    holds no lease on reading. Only the epoch in the request tells it that it is behind (KIP-320, KAFKA-7395).
    Epochs are compared within one topic id: a topic that was deleted and created again begins anew.
    """

    def __init__(self) -> None:
        self._topics: dict[bytes, dict[int, PartitionDescription]] = {}
        self._lock = threading.Lock()

    def take_over(
        self, topic_id: bytes, heard: Iterable[PartitionDescription]
    ) -> tuple[PartitionDescription, ...]:
        """Remember what was heard of some partitions of a topic; the newest that was ever heard of each."""
        with self._lock:
            known = self._topics.setdefault(topic_id, {})
            if len(self._topics) > TOPICS_MAX:
                del self._topics[next(iter(self._topics))]
            newest = tuple(max(known.get(each.partition, each), each, key=_age) for each in heard)
            known.update((each.partition, each) for each in newest)
        return newest

    def newest(self, topic_id: bytes, known: PartitionDescription) -> PartitionDescription:
        """What is known of a partition, or what was heard since. Without the lock: nothing is changed."""
        heard = self._topics.get(topic_id, {}).get(known.partition, known)
        return max(known, heard, key=_age)


def _age(partition: PartitionDescription) -> tuple[int, int]:
    return partition.leader_epoch, partition.partition_epoch
