"""The rows of the table: their names, and what they compute of a failover."""

from collections.abc import Sequence
from itertools import chain
from typing import cast

import pytest
from hightide_bench.peers.clusters.peer_cluster import LedPartition, PeerCluster, System, topic_sizes
from hightide_bench.peers.loads.values import values_of
from hightide_bench.peers.rows.catalogue import ROWS, UnknownRowError, rows_named
from hightide_bench.peers.rows.failover import silences_ms, spread, until_led_as_at_first
from hightide_bench.peers.rows.row import with_whole_cpu
from hightide_local.errors import ClusterError


def names(*wanted: str) -> list[str]:
    return [row.name for row in rows_named(wanted)]


def test_rows_have_names_of_their_own_and_lines() -> None:
    assert len({row.name for row in ROWS}) == len({row.title for row in ROWS}) == len(ROWS)
    assert all(row.figures and row.entrants[0].name == "hightide" for row in ROWS)


def test_without_a_name_all_rows_are_meant() -> None:
    assert rows_named([]) == list(ROWS)


def test_a_name_is_one_row_and_the_beginning_of_names_is_all_of_them() -> None:
    assert names("produce-1kb") == ["produce-1kb"]
    assert names("e2e") == ["e2e-100", "e2e-1000"]
    assert names("produce-100b", "e2e-100") == ["e2e-100", "produce-100b"]


def test_a_name_that_no_row_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownRowError, match="no row is called 'prod'; there are e2e-100, "):
        rows_named(["prod"])


def test_a_silence_is_the_longest_gap_from_the_last_answer_before_the_signal() -> None:
    quick, slow = [9.9, 10.1, 10.2, 10.3, 10.4], [9.8, 9.9, 10.35]
    assert silences_ms([quick, slow], struck_s=10.0, ended_s=10.5) == pytest.approx([200, 450])


def test_a_partition_that_never_answers_again_is_silent_until_the_end() -> None:
    assert silences_ms([[1.0, 9.0], []], struck_s=10.0, ended_s=70.0) == pytest.approx([61_000, 60_000])


def test_an_answer_after_the_end_ends_no_silence() -> None:
    assert silences_ms([[9.0, 71.0]], struck_s=10.0, ended_s=70.0) == pytest.approx([61_000])


def test_the_partitions_under_load_reach_from_the_first_to_the_last() -> None:
    many = [("t", number) for number in range(1_000)]
    assert spread(many, 6) == [("t", number) for number in (0, 199, 399, 599, 799, 999)]
    assert spread(many[:3], 6) == many[:3]


def test_no_topic_has_more_than_a_thousand_partitions() -> None:
    assert topic_sizes(1_000) == [1_000]
    assert topic_sizes(2_500) == [1_000, 1_000, 500]


class AfterAFailover:
    """What a cluster shows after a round. A look later its replicas are in sync; when asked, the preferred
    leaders lead, again a look later."""

    system: System = "kafka"

    def __init__(self, leaders: list[int], refusals: int = 0) -> None:
        self.leaders, self.in_sync, self.refusals = leaders, 2, refusals
        self.asked: list[list[int]] = []

    def partitions(self, topics: Sequence[str]) -> list[LedPartition]:
        shown = [LedPartition(topics[0], n, leader, 1, self.in_sync) for n, leader in enumerate(self.leaders)]
        self.in_sync = 3
        for number in chain(*self.asked):
            self.leaders[number] = 1
        return shown

    def elect_preferred_leaders(self, partitions: Sequence[LedPartition]) -> None:
        assert all(each.is_whole for each in partitions), "an election passes over who is not in sync"
        if self.refusals:
            self.refusals -= 1
            raise ClusterError("not now")
        self.asked.append([each.partition for each in partitions])


def test_a_round_begins_when_the_victim_leads_everything_again() -> None:
    cluster = AfterAFailover([2, 1, 3])
    until_led_as_at_first(cast(PeerCluster, cluster), ["t"])
    assert (cluster.leaders, cluster.asked) == ([1, 1, 1], [[0, 2]])


def test_an_election_that_is_refused_is_asked_for_again() -> None:
    cluster = AfterAFailover([2], refusals=2)
    until_led_as_at_first(cast(PeerCluster, cluster), ["t"], ask_again_s=0)
    assert (cluster.leaders, cluster.refusals) == ([1], 0)


def test_no_election_is_asked_for_if_the_victim_leads_everything() -> None:
    cluster = AfterAFailover([1, 1])
    until_led_as_at_first(cast(PeerCluster, cluster), ["t"])
    assert cluster.asked == []


def test_the_processor_time_of_a_gigabyte_is_that_of_both_sides() -> None:
    both = with_whole_cpu({"client_cpu_s_per_gb": 3.0, "broker_cpu_s_per_gb": 12.0})
    assert both["cpu_s_per_gb"] == 15
    assert with_whole_cpu({"client_cpu_s_per_gb": 3.0, "broker_cpu_s_per_gb": None})["cpu_s_per_gb"] is None


@pytest.mark.parametrize("content", ["random", "json"])
def test_values_have_the_size_that_was_asked_for(content: str) -> None:
    values = values_of(content, 1_000, 20)
    assert [len(value) for value in values] == [1_000] * 20
    assert len(set(values)) == 20


def test_text_is_the_same_in_every_run_and_both_systems() -> None:
    assert values_of("json", 100, 3) == values_of("json", 100, 3)
