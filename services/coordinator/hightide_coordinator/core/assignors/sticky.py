"""Sticky: a stream keeps its partitions, as far as balance allows (C7, KIP-54).

Topics that share readers are solved together. If all of them have the same readers, which is the usual case,
the answer is exact: streams differ by one partition at most, so do consumers with equally many streams, and
no other such answer moves fewer partitions. If readers differ (`uneven`), no single move would improve the
balance any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hightide_coordinator.core.assignors.subscriber import StreamId, Subscriber, streams_by_topic
from hightide_coordinator.core.assignors.uneven import share_unevenly
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["assign_sticky"]


def assign_sticky(
    consumers: Sequence[Subscriber],
    partitions: Mapping[str, int],
    current: Mapping[TopicPartition, StreamId],
) -> dict[TopicPartition, StreamId]:
    """The group's name for it is `sticky`; groups that name no assignor use it."""
    readers = streams_by_topic(consumers, partitions)
    target: dict[TopicPartition, StreamId] = {}
    for topics in _topics_with_shared_readers(readers):
        names = [TopicPartition(topic, number) for topic in topics for number in range(partitions[topic])]
        first = readers[topics[0]]
        if all(readers[topic] is first or readers[topic] == first for topic in topics):
            target.update(_share_evenly(names, readers[topics[0]], current))
        else:
            target.update(share_unevenly(names, {topic: readers[topic] for topic in topics}, current))
    return target


def _topics_with_shared_readers(readers: Mapping[str, list[StreamId]]) -> list[list[str]]:
    """The connected components of topics that have a stream in common."""
    leader = {topic: topic for topic in readers}

    def find(topic: str) -> str:
        while leader[topic] != topic:
            leader[topic] = leader[leader[topic]]
            topic = leader[topic]
        return topic

    first_topic_of: dict[StreamId, str] = {}
    read_alike: dict[int, str] = {}
    for topic, streams in readers.items():
        alike = read_alike.setdefault(id(streams), topic)
        if alike != topic:
            leader[topic] = find(alike)
            continue
        for stream in streams:
            found = first_topic_of.setdefault(stream, topic)
            if found != topic:
                leader[find(topic)] = find(found)
    components: defaultdict[str, list[str]] = defaultdict(list)
    for topic in readers:
        components[find(topic)].append(topic)
    return list(components.values())


def _share_evenly(
    names: list[TopicPartition], streams: list[StreamId], current: Mapping[TopicPartition, StreamId]
) -> dict[TopicPartition, StreamId]:
    held: dict[StreamId, list[TopicPartition]] = {stream: [] for stream in streams}
    homeless: list[TopicPartition] = []
    for name in names:
        owner = current.get(name)
        (homeless if owner is None or owner not in held else held[owner]).append(name)
    quotas = _quotas(streams, {stream: len(names) for stream, names in held.items()}, len(names))
    target: dict[TopicPartition, StreamId] = {}
    room: list[tuple[int, int, StreamId]] = []
    for rank, stream in enumerate(streams):
        kept = held[stream][: quotas[stream]]
        homeless += held[stream][quotas[stream] :]
        target.update((name, stream) for name in kept)
        room.extend((level, rank, stream) for level in range(len(kept), quotas[stream]))
    assert len(room) == len(homeless), (len(room), len(homeless))
    target.update((name, stream) for name, (_, _, stream) in zip(sorted(homeless), sorted(room), strict=True))
    return target


def _quotas(streams: list[StreamId], held: Mapping[StreamId, int], count: int) -> dict[StreamId, int]:
    """How many partitions each stream gets: `count` divided by all streams, rounded down, or one more.

    The extra ones go to consumers in rounds, one for each consumer. In the last, incomplete, round they go to
    consumers that would otherwise have to give something away.
    """
    base, extras = divmod(count, len(streams))
    quotas = dict.fromkeys(streams, base)
    by_consumer: dict[str, list[StreamId]] = {}
    for stream in streams:
        by_consumer.setdefault(stream.consumer_id, []).append(stream)
    # A consumer's extras go to those of its streams first that hold more than the base.
    waiting = {
        consumer_id: sorted(own, key=lambda stream: (held[stream] <= base, stream))
        for consumer_id, own in by_consumer.items()
    }
    while extras:
        takers = sorted(waiting, key=lambda consumer_id: (held[waiting[consumer_id][0]] <= base, consumer_id))
        for consumer_id in takers[:extras]:
            quotas[waiting[consumer_id].pop(0)] += 1
        extras -= min(extras, len(takers))
        waiting = {consumer_id: left for consumer_id, left in waiting.items() if left}
    return quotas
