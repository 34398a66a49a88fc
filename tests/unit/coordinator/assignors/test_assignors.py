"""What holds of every assignor, whoever subscribes to what."""

from __future__ import annotations

import time
from random import Random

import pytest
from hightide_coordinator.core.assignors import ASSIGNORS, Assignor, StreamId, Subscriber, chosen_assignor
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from unit.coordinator.assignors.groups import (
    PARTITIONS,
    Target,
    consumer_loads,
    equal_groups,
    groups,
    is_even,
    loads,
    ownerships,
    steady,
    wanted,
)

every_assignor = pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)


@every_assignor
@steady
@given(groups(), PARTITIONS, ownerships())
def test_every_partition_is_given_once_to_a_stream_that_reads_its_topic(
    assign: Assignor, consumers: list[Subscriber], partitions: dict[str, int], current: Target
) -> None:
    target = assign(consumers, partitions, current)
    assert set(target) == wanted(consumers, partitions)
    streams = {each.consumer_id: each.streams for each in consumers}
    for name, (consumer_id, stream) in target.items():
        assert 0 <= stream < streams[consumer_id][name.topic]


@pytest.mark.parametrize("name", ["roundrobin", "sticky"])
@steady
@given(equal_groups(), PARTITIONS, ownerships())
def test_where_all_read_the_same_streams_and_consumers_differ_by_one_partition_at_most(
    name: str, consumers: list[Subscriber], partitions: dict[str, int], current: Target
) -> None:
    target = ASSIGNORS[name](consumers, partitions, current)
    assert is_even(loads(consumers, target))
    assert is_even(consumer_loads(consumers, target))


@steady
@given(equal_groups(), PARTITIONS)
def test_ranges_are_runs_and_even_in_each_topic(
    consumers: list[Subscriber], partitions: dict[str, int]
) -> None:
    target = ASSIGNORS["range"](consumers, partitions, {})
    for topic, count in partitions.items():
        owners = [
            target[TopicPartition(topic, n)] for n in range(count) if TopicPartition(topic, n) in target
        ]
        assert owners == sorted(owners)
        if owners:
            of_topic = {name: owner for name, owner in target.items() if name.topic == topic}
            assert is_even(loads(consumers, of_topic))
            assert is_even(consumer_loads(consumers, of_topic))


@steady
@given(equal_groups(), st.integers(1, 9))
def test_ranges_give_equal_numbers_of_two_topics_to_the_same_stream(
    consumers: list[Subscriber], count: int
) -> None:
    both = [Subscriber(each.consumer_id, {"ebb": 1, "flow": 1}) for each in consumers]
    target = ASSIGNORS["range"](both, {"ebb": count, "flow": count}, {})
    for number in range(count):
        assert target[TopicPartition("ebb", number)] == target[TopicPartition("flow", number)]


@every_assignor
@steady
@given(groups(), PARTITIONS, ownerships(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_said_does_not_matter(
    assign: Assignor, consumers: list[Subscriber], partitions: dict[str, int], current: Target, rng: Random
) -> None:
    said = assign(consumers, partitions, current)
    others = [
        Subscriber(each.consumer_id, dict(rng.sample(list(each.streams.items()), len(each.streams))))
        for each in consumers
    ]
    rng.shuffle(others)
    topics = rng.sample(list(partitions.items()), len(partitions))
    owners = rng.sample(list(current.items()), len(current))
    assert assign(others, dict(topics), dict(owners)) == said


@every_assignor
def test_a_group_without_consumers_or_topics_is_given_nothing(assign: Assignor) -> None:
    assert assign([], {"ebb": 3}, {}) == {}
    assert assign([Subscriber("a", {"ebb": 1})], {}, {TopicPartition("ebb", 0): StreamId("a", 0)}) == {}


@every_assignor
@pytest.mark.parametrize(("topics", "limit_s"), [(1, 0.5), (100, 2.0)])
def test_five_thousand_consumers_of_ten_thousand_partitions_are_shared_out_at_once(
    assign: Assignor, topics: int, limit_s: float
) -> None:
    rng = Random(1)
    partitions = {f"topic-{number}": 10_000 // topics for number in range(topics)}
    consumers = [
        Subscriber(f"consumer-{number:04}", dict.fromkeys(rng.sample(list(partitions), min(10, topics)), 1))
        for number in range(5_000)
    ]
    current = assign(consumers, partitions, {})
    spent_s = []
    for _ in range(3):
        began = time.thread_time()
        target = assign(consumers[10:], partitions, current)
        spent_s.append(time.thread_time() - began)
    assert len(target) == 10_000
    assert min(spent_s) < limit_s


@every_assignor
def test_consumers_of_a_pattern_that_matches_ten_thousand_topics_are_shared_out_at_once(
    assign: Assignor,
) -> None:
    partitions = {f"topic-{number:05}": 1 for number in range(10_000)}
    matched = dict.fromkeys(partitions, 1)
    consumers = [Subscriber(f"consumer-{number:04}", matched) for number in range(1_000)]
    began = time.thread_time()
    target = assign(consumers, partitions, {})
    assert time.thread_time() - began < 2.0, "what is read alike is looked at once"
    assert len(target) == 10_000


def test_a_group_takes_the_assignor_that_most_members_name() -> None:
    assert chosen_assignor({"range": 2, "sticky": 1}) == "range"
    assert chosen_assignor({"sticky": 1, "": 1, "range": 2}) == "range"  # A tie goes by name.
    assert chosen_assignor({"": 3, "roundrobin": 2}) == "sticky"
    assert chosen_assignor({}) == "sticky"


@every_assignor
def test_thousands_of_consumers_that_read_different_ones_of_a_thousand_topics_are_shared_out_at_once(
    assign: Assignor,
) -> None:
    topics = [f"t{number}" for number in range(1_000)]
    kinds = [dict.fromkeys(topics, 1), dict.fromkeys(topics[:600], 1), dict.fromkeys(topics[400:], 1)]
    consumers = [Subscriber(f"c{number}", dict(kinds[number % 3])) for number in range(5_000)]
    began = time.thread_time()
    target = assign(consumers, dict.fromkeys(topics, 2), {})
    assert time.thread_time() - began < 2.0, "topics that are read alike are shared out together"
    assert len(target) == 2_000
