"""A failover is measured on topics of which one broker leads everything."""

from collections import Counter

from hightide_bench.measuring.partition_spread import evenly, partitions_of, spread
from hypothesis import given
from hypothesis import strategies as st


def test_many_partitions_make_several_topics_of_a_thousand() -> None:
    topics = spread("b", 2_500, [1, 2, 3], 1)
    assert {name: len(each) for name, each in topics.items()} == {"b-0": 1000, "b-1": 1000, "b-2": 500}
    assert partitions_of(topics)[1000] == ("b-1", 0)
    assert len(set(partitions_of(topics))) == 2_500


def test_one_broker_leads_all_and_the_others_inherit_alike() -> None:
    assigned = [replicas for each in spread("b", 10, [1, 2, 3], 2).values() for replicas in each]
    assert {replicas[0] for replicas in assigned} == {2}
    assert Counter(replicas[1] for replicas in assigned) == {1: 5, 3: 5}
    assert all(sorted(replicas) == [1, 2, 3] for replicas in assigned)


def test_with_more_brokers_there_are_three_replicas_and_every_broker_has_its_turn() -> None:
    assigned = spread("b", 8, [1, 2, 3, 4, 5], 5)["b-0"]
    assert {len(set(replicas)) for replicas in assigned} == {3}
    assert Counter(replicas[1] for replicas in assigned) == dict.fromkeys((1, 2, 3, 4), 2)


def test_the_loaded_partitions_reach_from_the_first_to_the_last() -> None:
    partitions = [("t", number) for number in range(10_000)]
    assert evenly(partitions, 6) == [("t", at) for at in (0, 1999, 3999, 5999, 7999, 9999)]
    assert evenly(partitions, 1) == [("t", 9999)], "the last one waits longest"
    assert evenly(partitions[:3], 6) == partitions[:3]


@given(st.integers(1, 500), st.integers(1, 20))
def test_so_many_partitions_are_loaded_as_were_asked_for(partitions: int, count: int) -> None:
    numbered = [("t", number) for number in range(partitions)]
    chosen = evenly(numbered, count)
    assert len(set(chosen)) == len(chosen) == min(partitions, count)
