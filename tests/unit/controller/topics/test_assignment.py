"""Where replicas go: no duplicates, and everything within one."""

from __future__ import annotations

from collections import Counter

from hightide_runtime.topics.assignment import assign
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[int], int, int, int]:
    brokers = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    partitions = draw(st.integers(1, 200))
    replicas = draw(st.integers(1, len(brokers)))
    return brokers, partitions, replicas, draw(st.integers(0, 10_000))


@given(shapes())
def test_leaders_and_replicas_are_spread_within_one(shape: tuple[list[int], int, int, int]) -> None:
    brokers, partitions, replicas, start = shape
    assignment = assign(brokers, partitions, replicas, start)
    assert len(assignment) == partitions
    for assigned in assignment:
        assert len(assigned) == len(set(assigned)) == replicas
    for counts in (
        Counter(assigned[0] for assigned in assignment),
        Counter(broker for assigned in assignment for broker in assigned),
    ):
        spread = [counts[broker] for broker in brokers]
        assert max(spread) - min(spread) <= 1


def test_the_same_start_gives_the_same_assignment() -> None:
    assert assign([1, 2, 3], 6, 3, 5) == assign([1, 2, 3], 6, 3, 5)


def test_the_successors_of_one_leader_are_not_all_the_same() -> None:
    assignment = assign([1, 2, 3], 6, 3, 0)
    successors = {assigned[1] for assigned in assignment if assigned[0] == 1}
    assert successors == {2, 3}


def test_topics_of_one_partition_take_turns() -> None:
    assert [assign([1, 2, 3], 1, 2, start)[0][0] for start in range(4)] == [1, 2, 3, 1]
