"""Sticky: what moves, and that nothing else does."""

from __future__ import annotations

from itertools import product

from hightide_coordinator.core.assignors import ASSIGNORS, StreamId, Subscriber
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
    moved,
    ownerships,
    steady,
)

assign = ASSIGNORS["sticky"]


@steady
@given(equal_groups(consumers_max=3, streams_max=2), st.integers(0, 5), ownerships())
def test_no_other_balanced_answer_moves_fewer_partitions(
    consumers: list[Subscriber], count: int, current: Target
) -> None:
    (topic, *_), partitions = consumers[0].streams, {next(iter(consumers[0].streams)): count}
    names = [TopicPartition(topic, number) for number in range(count)]
    streams = [StreamId(c.consumer_id, n) for c in consumers for n in range(c.streams[topic])]
    fewest = min(
        len(moved(current, answer))
        for owners in product(streams, repeat=count)
        if is_even(loads(consumers, answer := dict(zip(names, owners, strict=True))))
        and is_even(consumer_loads(consumers, answer))
    )
    assert len(moved(current, assign(consumers, partitions, current))) == fewest


@steady
@given(groups(), PARTITIONS, ownerships())
def test_what_is_balanced_stays_as_it_is(
    consumers: list[Subscriber], partitions: dict[str, int], current: Target
) -> None:
    target = assign(consumers, partitions, current)
    assert assign(consumers, partitions, target) == target


@steady
@given(st.integers(1, 40), st.integers(2, 12))
def test_a_consumer_that_comes_takes_its_share_and_nobody_else_changes(count: int, consumers: int) -> None:
    group = [Subscriber(f"c{number:02}", {"ebb": 1}) for number in range(consumers)]
    before = assign(group[:-1], {"ebb": count}, {})
    after = assign(group, {"ebb": count}, before)
    assert {after[name].consumer_id for name in moved(before, after)} <= {group[-1].consumer_id}
    assert len(moved(before, after)) == count // consumers


@steady
@given(st.integers(1, 40), st.integers(2, 12), st.data())
def test_when_a_consumer_leaves_only_its_own_partitions_move(
    count: int, consumers: int, data: st.DataObject
) -> None:
    group = [Subscriber(f"c{number:02}", {"ebb": 1}) for number in range(consumers)]
    before = assign(group, {"ebb": count}, {})
    gone = data.draw(st.sampled_from(group))
    after = assign([each for each in group if each is not gone], {"ebb": count}, before)
    assert moved(before, after) == {name for name in before if before[name].consumer_id == gone.consumer_id}


def test_a_consumer_that_joins_gets_something_though_the_other_has_a_stream_for_each_partition() -> None:
    group = [Subscriber("a", {"ebb": 2}), Subscriber("b", {"ebb": 2})]
    alone = assign(group[:1], {"ebb": 2}, {})
    assert consumer_loads(group, assign(group, {"ebb": 2}, alone)) == [1, 1]


def test_no_single_move_would_improve_the_balance_of_an_uneven_group() -> None:
    group = [
        Subscriber("a", {"ebb": 1}),
        Subscriber("b", {"ebb": 1, "flow": 1}),
        Subscriber("c", {"flow": 1}),
    ]
    overloaded = {TopicPartition("ebb", n): StreamId("b", 0) for n in range(6)}
    target = assign(group, {"ebb": 6, "flow": 6}, overloaded)
    counted = dict(zip("abc", consumer_loads(group, target), strict=True))
    for name, owner in target.items():
        readers = [each.consumer_id for each in group if name.topic in each.streams]
        assert all(counted[owner.consumer_id] - counted[reader] <= 1 for reader in readers)
