"""The driver's questions to the cluster about the subscribed partitions: few calls, however many
partitions."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from hightide import Admin, TopicPartition
from hightide.errors import UnknownPartitionError, UnknownTopicError
from hightide.records import TopicDescription

from hightide_spark.core.source_options import Subscription
from hightide_spark.core.start_and_end import Answers, When
from hightide_spark.core.stream_offsets import StreamOffsets, TopicOffsets
from hightide_spark.source.connections import admin_of

# Brokers hear of new and of removed partitions a moment after the controller has told of them.
_HEARD_WITHIN_S: Final = 10.0
_PAUSE_S: Final = 0.1

T = TypeVar("T")


class ClusterQuestions:
    """The questions of one read."""

    def __init__(self, bootstrap: str, subscription: Subscription) -> None:
        self._bootstrap = bootstrap
        self._subscription = subscription

    @property
    def _admin(self) -> Admin:
        return admin_of(self._bootstrap)

    def topics(self) -> dict[str, TopicDescription]:
        """The subscribed topics. Raises UnknownTopicError and UnknownPartitionError if a named one does not
        exist."""
        names = self._subscription.names()
        found = {topic.name: topic for topic in self._admin.describe_topics(names)}
        for topic, numbers in (self._subscription.assigned or {}).items():
            strange = sorted(numbers - {each.partition for each in found[topic].partitions})
            if strange:
                raise UnknownPartitionError(
                    f"option assign names {strange}, but topic {topic} has "
                    f"{len(found[topic].partitions)} partitions",
                    topic=topic,
                    partition=strange[0],
                )
        return self._selected(found.values())

    def topics_left(self) -> dict[str, TopicDescription]:
        """The subscribed topics that still exist."""
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
        """The offsets that are asked for: one round for each kind of question, in the order in which the
        kinds come first."""
        by_kind: dict[When, list[TopicPartition]] = {}
        for partition, when in questions:
            by_kind.setdefault(when, []).append(partition)
        return {
            (partition, when): offset
            for when, partitions in by_kind.items()
            for partition, offset in _once_heard(partial(self._admin.list_offsets, partitions, when)).items()
        }

    def ends(self) -> StreamOffsets:
        """Where the logs of the subscribed partitions that are there end. Raises what the SDK raises."""

        def ends_now() -> StreamOffsets:
            topics = self.topics_left()
            every = [partition for topic in topics.values() for partition in self.partitions_of(topic)]
            ends = self._admin.list_offsets(every, "latest")
            return offsets_by_topic(topics, {each: end or 0 for each, end in ends.items()})

        return _once_heard(ends_now)


def _once_heard(ask: Callable[[], T]) -> T:
    """Ask again for a while where a broker has not heard of what the controller has told of."""
    give_up_s = time.monotonic() + _HEARD_WITHIN_S
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
    """Offsets of partitions, with the ids of their topics."""
    by_topic: dict[str, dict[int, int]] = {name: {} for name in topics}
    for each, offset in offsets.items():
        by_topic[each.topic][each.partition] = offset
    return {name: TopicOffsets(topics[name].topic_id.hex(), by_topic[name]) for name in topics}
