"""Groups of consumers for the tests of assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hightide_coordinator.core.assignors import StreamId, Subscriber
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hypothesis import settings
from hypothesis import strategies as st

steady = settings(deadline=None, derandomize=True, database=None)
"""The gate asks the same of everyone, however busy the machine is."""
TOPICS = ("ebb", "flow", "neap")
PARTITIONS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
STREAMS = st.dictionaries(st.sampled_from((*TOPICS, "missing")), st.integers(1, 3), max_size=4)

Target = Mapping[TopicPartition, StreamId]


@st.composite
def groups(draw: st.DrawFn, consumers_max: int = 6) -> list[Subscriber]:
    """Consumers that subscribe to whatever they like."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=consumers_max))
    return [Subscriber(name, draw(STREAMS)) for name in names]


@st.composite
def equal_groups(draw: st.DrawFn, consumers_max: int = 6, streams_max: int = 3) -> list[Subscriber]:
    """Consumers that all read the same topics with the same number of streams."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=consumers_max))
    count = draw(st.integers(1, streams_max))
    topics = draw(st.sets(st.sampled_from(TOPICS), min_size=1))
    return [Subscriber(name, dict.fromkeys(sorted(topics), count)) for name in names]


@st.composite
def ownerships(draw: st.DrawFn) -> dict[TopicPartition, StreamId]:
    """Who owns what, including partitions, consumers and streams that are gone."""
    names = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8))
    return draw(st.dictionaries(names, st.builds(StreamId, st.sampled_from("abcdefghxy"), st.integers(0, 3))))


def wanted(consumers: Sequence[Subscriber], partitions: Mapping[str, int]) -> set[TopicPartition]:
    """All partitions that somebody reads."""
    read = {topic for each in consumers for topic in each.streams}
    return {TopicPartition(t, n) for t, count in partitions.items() if t in read for n in range(count)}


def loads(consumers: Sequence[Subscriber], target: Target) -> list[int]:
    """The number of partitions of each stream."""
    streams = {StreamId(c.consumer_id, n) for c in consumers for k in c.streams.values() for n in range(k)}
    counted = Counter(target.values())
    return [counted[stream] for stream in sorted(streams)]


def consumer_loads(consumers: Sequence[Subscriber], target: Target) -> list[int]:
    """The number of partitions of each consumer."""
    counted = Counter(stream.consumer_id for stream in target.values())
    return [counted[consumer.consumer_id] for consumer in consumers]


def is_even(numbers: Sequence[int]) -> bool:
    return max(numbers) - min(numbers) <= 1


def moved(before: Target, after: Target) -> set[TopicPartition]:
    """What is another's afterwards."""
    return {name for name, stream in after.items() if before.get(name) != stream}
