"""The driver's questions to the cluster about topics and offsets. The number of calls does not grow with the
number of partitions."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hightide.errors import UnknownPartitionError, UnknownTopicError
from hightide.moments import moment_at
from hightide.records import TopicDescription, TopicPartition

from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.source_options import Subscription
from hightide_spark.core.start_and_end import Answers, When
from hightide_spark.core.stream_offsets import StreamOffsets, TopicOffsets
from hightide_spark.source.connections import admin_of

if TYPE_CHECKING:
    from hightide import Admin

# Brokers learn of new and removed partitions a moment after clients do.
_KNOWN_WITHIN_S: Final = 10.0
_PAUSE_S: Final = 0.1

T = TypeVar("T")


class ClusterQuestions:
    """Asks the cluster for one read. The batch and the stream reader make one on the driver. Errors are the
    SDK's."""

    def __init__(self, cluster: Cluster, subscription: Subscription) -> None:
        self._cluster = cluster
        self._subscription = subscription

    @property
    def _admin(self) -> "Admin":
        return admin_of(self._cluster)

    def topics(self) -> dict[str, TopicDescription]:
        """The subscribed topics by name, at the start of a read. Raises UnknownTopicError or
        UnknownPartitionError if the options name one that does not exist."""
        names = self._subscription.names()
        found = {topic.name: topic for topic in self._admin.describe_topics(names)}
        for topic, numbers in (self._subscription.assigned or {}).items():
            unknown = sorted(numbers - {each.partition for each in found[topic].partitions})
            if unknown:
                raise UnknownPartitionError(
                    f"option assign names {unknown}, but topic {topic} has "
                    f"{len(found[topic].partitions)} partitions",
                    topic=topic,
                    partition=unknown[0],
                )
        return self._selected(found.values())

    def topics_left(self) -> dict[str, TopicDescription]:
        """The subscribed topics by name, without those that were deleted since the start of the read."""
        try:
            return self._selected(self._admin.describe_topics(self._subscription.names()))
        except UnknownTopicError:
            return self._selected(self._admin.describe_topics(None))

    def _selected(self, topics: Iterable[TopicDescription]) -> dict[str, TopicDescription]:
        names = self._subscription.names()
        return {
            topic.name: topic
            for topic in topics
            if (names is None or topic.name in names) and self.partitions_of(topic)
        }

    def partitions_of(self, topic: TopicDescription) -> list[TopicPartition]:
        """The subscribed partitions of a topic."""
        return [
            TopicPartition(topic.name, each.partition)
            for each in topic.partitions
            if self._subscription.selects(topic.name, each.partition)
        ]

    def answers(self, questions: Iterable[tuple[TopicPartition, When]]) -> Answers:
        """The offsets that answer these questions, with one call for each different `When`. The calls are
        made in the order in which the questions first name them."""
        by_when: dict[When, list[TopicPartition]] = {}
        for partition, when in questions:
            by_when.setdefault(when, []).append(partition)
        return {
            (partition, when): offset
            for when, partitions in by_when.items()
            for partition, offset in _retry_unknown(
                partial(
                    self._admin.list_offsets, partitions, moment_at(when) if isinstance(when, int) else when
                )
            ).items()
        }

    def ends(self) -> StreamOffsets:
        """The offsets of the next record of all subscribed partitions that exist, with the ids of their
        topics."""

        def ends_now() -> StreamOffsets:
            topics = self.topics_left()
            every = [partition for topic in topics.values() for partition in self.partitions_of(topic)]
            ends = self._admin.list_offsets(every, "latest")
            return offsets_by_topic(topics, {each: end or 0 for each, end in ends.items()})

        return _retry_unknown(ends_now)


def _retry_unknown(ask: Callable[[], T]) -> T:
    """Ask again for up to _KNOWN_WITHIN_S while a broker does not know a topic or partition."""
    give_up_s = time.monotonic() + _KNOWN_WITHIN_S
    while True:
        try:
            return ask()
        except (UnknownTopicError, UnknownPartitionError):
            if time.monotonic() > give_up_s:
                raise
        time.sleep(_PAUSE_S)


def offsets_by_topic(
    topics: Mapping[str, TopicDescription], offsets: Mapping[TopicPartition, int]
) -> StreamOffsets:
    """Group offsets by topic, with the ids of the topics."""
    by_topic: dict[str, dict[int, int]] = {name: {} for name in topics}
    for each, offset in offsets.items():
        by_topic[each.topic][each.partition] = offset
    return {name: TopicOffsets(topics[name].topic_id.hex(), by_topic[name]) for name in topics}
