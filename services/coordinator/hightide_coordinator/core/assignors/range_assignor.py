"""Ranges: the partitions of each topic are cut into runs, one for each stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hightide_coordinator.core.assignors.subscriber import StreamId, Subscriber, streams_by_topic
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["assign_ranges"]


def assign_ranges(
    consumers: Sequence[Subscriber],
    partitions: Mapping[str, int],
    current: Mapping[TopicPartition, StreamId],
) -> dict[TopicPartition, StreamId]:
    """If topics are read alike, their partitions with the same number go to the same stream, so that such
    topics can be joined.

    The streams of a topic differ by one partition at most. Over several topics this adds up, because the same
    streams get the longer runs each time. The group's name for it is `range`.
    """
    target: dict[TopicPartition, StreamId] = {}
    for topic, streams in streams_by_topic(consumers, partitions).items():
        shortest, longer = divmod(partitions[topic], len(streams))
        if not shortest:
            streams = streams[:longer]  # The others get nothing.
        lengths = {stream: shortest + (rank < longer) for rank, stream in enumerate(streams)}
        first = 0
        for stream in sorted(streams):
            end = first + lengths[stream]
            target.update((TopicPartition(topic, number), stream) for number in range(first, end))
            first = end
    return target
