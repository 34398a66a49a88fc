"""The members of a group and the topics that they read: all that an assignor knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["Assignor", "StreamId", "Subscriber", "streams_by_topic"]


class StreamId(NamedTuple):
    """One stream (thread) of a consumer, from 0. Assignors sort by this only, so that the same consumers get
    the same partitions after a failover."""

    consumer_id: str
    stream: int


class Subscriber(Struct, frozen=True):
    """A member of a group, and the number of streams with which it reads each topic ("topic count", §7)."""

    consumer_id: str
    streams: Mapping[str, int]
    """Topic → number of streams, at least 1. Topics that do not exist are ignored."""


_TURN: Final = itemgetter(1, 0)


class Assignor(Protocol):
    """Assigns partitions to the streams of a group (§9 step 1.3). Pure: the same arguments, in whatever
    order, give the same answer."""

    def __call__(
        self,
        consumers: Sequence[Subscriber],
        partitions: Mapping[str, int],
        current: Mapping[TopicPartition, StreamId],
    ) -> dict[TopicPartition, StreamId]:
        """Return the whole target.

        `partitions` is topic → number of partitions. `current` is the current stream of each partition;
        streams and partitions that are gone are ignored. The answer has each partition of a topic with a
        subscriber, and no others. Consumer ids are unique.
        """


def streams_by_topic(
    consumers: Sequence[Subscriber], partitions: Mapping[str, int]
) -> dict[str, list[StreamId]]:
    """The streams that read each existing topic, by (stream, consumer id). An assignor that goes in this
    order gives each consumer one partition before any gets a second. Topics are in order of their names.

    Topics that are read alike share one list, which must not be changed: most of thousands of consumers
    subscribe to the same topics, and a pattern may match thousands of topics.
    """
    assert len({each.consumer_id for each in consumers}) == len(consumers), "a consumer id stands twice"
    alike: dict[frozenset[tuple[str, int]], list[str]] = {}
    same: dict[int, list[str]] = {}
    for consumer in consumers:
        ids = same.get(id(consumer.streams))
        if ids is None:
            interest = frozenset(consumer.streams.items())
            ids = same[id(consumer.streams)] = alike.setdefault(interest, [])
        ids.append(consumer.consumer_id)
    interests: dict[str, list[tuple[int, int]]] = {}
    for place, interest in enumerate(alike):
        for topic, count in interest:
            assert count > 0, (topic, count)
            if partitions.get(topic, 0) > 0:
                interests.setdefault(topic, []).append((place, count))
    members = [sorted(each) for each in alike.values()]
    made: dict[tuple[int, int], list[StreamId]] = {}
    readers: dict[tuple[tuple[int, int], ...], list[StreamId]] = {}
    by_topic: dict[str, list[StreamId]] = {}
    for topic in sorted(interests):
        wanted = tuple(interests[topic])
        if wanted not in readers:
            # Runs that are in order already: sorting merges them.
            runs: list[StreamId] = []
            for place, count in wanted:
                for stream in range(count):
                    if (place, stream) not in made:
                        made[place, stream] = [StreamId(each, stream) for each in members[place]]
                    runs += made[place, stream]
            readers[wanted] = sorted(runs, key=_TURN)
        by_topic[topic] = readers[wanted]
    return by_topic
