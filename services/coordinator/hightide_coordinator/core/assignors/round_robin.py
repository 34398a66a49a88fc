"""Round robin: all partitions of all topics are assigned in turn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from hightide_coordinator.core.assignors.subscriber import StreamId, Subscriber, streams_by_topic
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["assign_round_robin"]


def assign_round_robin(
    consumers: Sequence[Subscriber],
    partitions: Mapping[str, int],
    current: Mapping[TopicPartition, StreamId],
) -> dict[TopicPartition, StreamId]:
    """Streams that do not read a topic are skipped. Streams differ by one partition at most if all read the
    same topics. The group's name for it is `roundrobin`."""
    by_topic = streams_by_topic(consumers, partitions)
    distinct = {id(streams): streams for streams in by_topic.values()}
    circle = sorted({stream for streams in distinct.values() for stream in streams}, key=_turn)
    places = {stream: place for place, stream in enumerate(circle)}
    places_of = {key: [places[stream] for stream in streams] for key, streams in distinct.items()}
    target: dict[TopicPartition, StreamId] = {}
    turn = 0
    for topic, streams in by_topic.items():
        readers = places_of[id(streams)]
        for number in range(partitions[topic]):
            found = bisect_left(readers, turn)
            place = readers[found] if found < len(readers) else readers[0]
            target[TopicPartition(topic, number)] = circle[place]
            turn = (place + 1) % len(circle)
    return target


def _turn(stream: StreamId) -> tuple[int, str]:
    return (stream.stream, stream.consumer_id)
