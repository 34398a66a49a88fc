"""What a coordinator counts, and how far behind it says that groups are."""

from __future__ import annotations

from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.registration import StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.counters import Counters
from hightide_coordinator.group_lag import GROUPS_MAX, PARTITIONS_MAX, chosen_offsets, lags_of
from hightide_coordinator.metrics import METRICS

TIDES = [TopicPartition("tides", number) for number in range(3)]


def group(name: str, *offsets: int) -> Group:
    """A group that has committed these, from partition 0 on."""
    committed = {
        TopicPartition("tides", number): StoredOffset(offset, 0, b"t" * 16)
        for number, offset in enumerate(offsets)
    }
    return Group(name, offsets=committed)


def test_a_rebalance_that_failed_is_none() -> None:
    counters = Counters()
    done, failed = group("done"), group("failed")
    done.begun_by, done.last_rebalance_ms = RebalanceReason.JOINED, 250
    failed.failures = 2
    counters.rebalanced(done)
    counters.rebalanced(failed)
    assert {reason: n for reason, n in counters.rebalances.items() if n} == {"joined": 1}
    assert (counters.rebalance_failures, counters.rebalance_s.total) == (1, 0.25)


def test_the_lag_is_what_lies_between_the_commits_and_the_ends() -> None:
    committed = chosen_offsets([group("ahead", 10, 20), group("behind", 1, 0)])
    ends = {TIDES[0]: 10, TIDES[1]: 25}
    assert lags_of(committed, ends) == {"ahead": 5, "behind": 34}


def test_a_group_of_which_an_end_is_not_known_has_no_lag_rather_than_a_small_one() -> None:
    committed = chosen_offsets([group("one", 10), group("two", 10, 20)])
    assert lags_of(committed, {TIDES[0]: 12}) == {"one": 2}


def test_a_commit_beyond_an_end_that_was_read_before_is_no_lag() -> None:
    assert lags_of(chosen_offsets([group("one", 10)]), {TIDES[0]: 7}) == {"one": 0}


def test_groups_and_partitions_that_are_looked_at_are_bounded() -> None:
    many = [group(f"group-{number:03}", 1) for number in range(GROUPS_MAX + 20)]
    assert len(chosen_offsets(many)) == GROUPS_MAX
    wide = group("wide", *range(PARTITIONS_MAX + 1))
    assert chosen_offsets([wide, group("zebra", 1), group("empty")]).keys() == {"zebra"}


def test_names_begin_with_the_service_and_are_declared_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all(name.startswith("hightide.coordinator.") for name in names)
