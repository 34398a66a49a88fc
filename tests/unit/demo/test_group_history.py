"""The demo's judgement of a group: what its consumers report, and what is counted of it."""

from pathlib import Path

import pytest
from hightide_demo.group_history import GroupHistory
from hightide_demo.group_reports import (
    GroupReport,
    HandedOut,
    PartitionGiven,
    PartitionTaken,
    ReportDamagedError,
    ReportFile,
    parse_report,
    report_line,
)
from hypothesis import given
from hypothesis import strategies as st

START, END = {0: 0}, {0: 100}


def history(*reports: tuple[str, GroupReport]) -> GroupHistory:
    made = GroupHistory()
    for consumer, report in reports:
        made.take(consumer, report)
    return made


def handed_out(
    at_ms: float, first: int, following: int, *, generation: int = 1, partition: int = 0
) -> HandedOut:
    return HandedOut(at_ms, partition, generation, first, following)


def test_a_group_that_reads_everything_once_is_sound() -> None:
    found = history(
        ("a", PartitionGiven(1.0, 0, 1)), ("a", handed_out(2.0, 0, 60)), ("a", handed_out(3.0, 60, 100))
    ).findings(START, END)
    assert found.line() == "groups: rebalances=1 double_owned=0 skipped=0 redelivered=0"
    assert found.is_sound


def test_records_that_nobody_handed_out_are_skipped() -> None:
    found = history(("a", handed_out(1.0, 0, 40)), ("a", handed_out(2.0, 50, 95))).findings(START, END)
    assert found.skipped == 10 + 5
    assert not found.is_sound


def test_a_partition_that_nobody_read_is_skipped_whole() -> None:
    found = history(("a", handed_out(1.0, 0, 100))).findings({0: 0, 1: 5}, {0: 100, 1: 12})
    assert found.skipped == 7


def test_what_the_dead_had_not_committed_is_redelivered_and_that_is_sound() -> None:
    found = history(
        ("a", PartitionGiven(1.0, 0, 1)),
        ("a", handed_out(2.0, 0, 60)),
        ("b", PartitionGiven(5.0, 0, 2)),
        ("b", handed_out(6.0, 45, 100, generation=2)),
    ).findings(START, END)
    assert (found.rebalances, found.redelivered, found.skipped, found.double_owned) == (2, 15, 0, 0)
    assert found.is_sound


def test_two_consumers_of_one_partition_in_one_generation_own_it_doubly() -> None:
    found = history(("a", handed_out(1.0, 0, 60)), ("b", handed_out(2.0, 60, 100))).findings(START, END)
    assert found.double_owned == 1
    assert found.skipped == found.redelivered == 0, "only who owns what tells the two apart"
    assert not found.is_sound


def test_one_that_reads_on_when_its_successor_has_begun_owns_it_doubly() -> None:
    found = history(
        ("a", handed_out(1.0, 0, 60)),
        ("b", handed_out(2.0, 60, 80, generation=2)),
        ("a", handed_out(3.0, 60, 70)),
        ("b", handed_out(4.0, 80, 100, generation=2)),
    ).findings(START, END)
    assert found.double_owned == 1


def test_one_that_stopped_before_its_successor_began_was_its_only_owner() -> None:
    """Reports of different consumers come in any order: their times count."""
    found = history(("b", handed_out(2.0, 60, 100, generation=2)), ("a", handed_out(1.0, 0, 60))).findings(
        START, END
    )
    assert found.double_owned == 0


def test_a_zombie_two_generations_back_is_noticed_though_the_last_owner_was_brief() -> None:
    found = history(
        ("a", handed_out(1.0, 0, 10)),
        ("b", handed_out(2.0, 10, 20, generation=2)),
        ("c", handed_out(3.0, 20, 30, generation=3)),
        ("a", handed_out(2.5, 10, 12)),
    ).findings({0: 0}, {0: 30})
    assert found.double_owned == 1


def test_the_same_owner_may_get_a_partition_again() -> None:
    found = history(("a", handed_out(1.0, 0, 50)), ("a", handed_out(2.0, 50, 100, generation=3))).findings(
        START, END
    )
    assert found.double_owned == 0


def test_records_that_the_log_does_not_have_show_as_skipped_in_the_line() -> None:
    found = history(("a", handed_out(1.0, 0, 103))).findings(START, END)
    assert (found.skipped, found.vanished) == (0, 3)
    assert "skipped=3" in found.line()
    assert not found.is_sound


def test_a_rebalance_is_a_generation_in_which_something_was_given() -> None:
    found = history(
        ("a", PartitionGiven(1.0, 0, 1)),
        ("a", PartitionGiven(1.0, 1, 1)),
        ("b", PartitionGiven(2.0, 1, 4)),
        ("b", PartitionGiven(2.0, 0, 4)),
    ).findings({}, {})
    assert found.rebalances == 2


def test_the_last_owner_of_a_partition_is_the_one_of_the_highest_generation() -> None:
    made = history(
        ("b", PartitionGiven(9.0, 0, 2)), ("a", PartitionGiven(1.0, 0, 1)), ("a", PartitionGiven(1.0, 1, 1))
    )
    assert made.owned_by("a") == {1}
    assert made.owned_by("b") == {0}
    assert made.owners_of([0, 1, 2]) == {0: "b", 1: "a"}


def test_what_was_taken_is_not_owned() -> None:
    made = history(("a", PartitionGiven(1.0, 0, 1)), ("a", PartitionTaken(2.0, 0, 1)))
    assert made.owned_by("a") == set()
    made.take("a", PartitionGiven(3.0, 0, 2))
    assert made.owned_by("a") == {0}


def test_a_consumer_reads_all_of_its_own_when_it_was_handed_something_of_each() -> None:
    made = history(
        ("a", PartitionGiven(1.0, 0, 1)), ("a", PartitionGiven(1.0, 1, 1)), ("a", handed_out(2.0, 0, 1))
    )
    assert not made.reads_all_of("a")
    made.take("a", handed_out(3.0, 0, 1, partition=1))
    assert made.reads_all_of("a")
    assert not made.reads_all_of("b"), "it owns nothing"


def test_it_is_told_when_others_begin_to_read_what_the_dead_had() -> None:
    made = history(("a", handed_out(1.0, 0, 10)), ("b", handed_out(7.0, 5, 20, generation=2)))
    assert made.first_handed_out_ms(0, ["b", "c"], since_ms=3.0) == 7.0
    assert made.first_handed_out_ms(0, ["a"], since_ms=3.0) is None


def test_a_group_is_at_the_end_when_somebody_handed_out_each_last_record() -> None:
    made = history(("a", handed_out(1.0, 0, 99)))
    assert not made.has_read_to(END)
    made.take("b", handed_out(2.0, 90, 100, generation=2))
    assert made.has_read_to(END)
    assert made.record_count == 99 + 10


@pytest.mark.parametrize(
    "report",
    [PartitionGiven(1.5, 0, 1), PartitionTaken(2.5, 3, 7), HandedOut(3.5, 1, 2, 10, 20)],
    ids=lambda each: type(each).__name__,
)
def test_a_report_is_a_line_and_back(report: GroupReport) -> None:
    line = report_line(report)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_report(line) == report


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"what":"x"}', b'{"what":"given","at_ms":1}'])
def test_a_damaged_line_is_told(line: bytes) -> None:
    with pytest.raises(ReportDamagedError, match="no line of"):
        parse_report(line)


def test_a_report_is_followed_while_it_is_written(tmp_path: Path) -> None:
    followed = ReportFile(tmp_path / "consumer-1.jsonl")
    assert followed.follow() == [], "it has not begun yet"
    first, second = PartitionGiven(1.0, 0, 1), handed_out(2.0, 0, 10)
    followed.path.write_bytes(report_line(first))
    assert followed.follow() == [first]
    with followed.path.open("ab") as file:
        file.write(report_line(second))
    assert followed.follow() == [second]
    assert followed.follow() == []


def test_a_line_in_which_its_consumer_died_does_not_count(tmp_path: Path) -> None:
    followed = ReportFile(tmp_path / "consumer-1.jsonl")
    torn = report_line(handed_out(2.0, 10, 20))
    followed.path.write_bytes(report_line(handed_out(1.0, 0, 10)) + torn[:-5])
    assert followed.follow() == [handed_out(1.0, 0, 10)]
    with followed.path.open("ab") as file:
        file.write(torn[-5:])
    assert followed.follow() == [handed_out(2.0, 10, 20)], "it was only being written"


RANGES = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 30)), max_size=12)


@given(ranges=RANGES, start=st.integers(0, 20), length=st.integers(0, 90))
def test_the_counts_are_those_of_counting_one_by_one(
    ranges: list[tuple[int, int]], start: int, length: int
) -> None:
    end = start + length
    made = history(
        *(("a", handed_out(float(at), first, first + count)) for at, (first, count) in enumerate(ranges))
    )
    every = [offset for first, count in ranges for offset in range(first, first + count)]
    found = made.findings({0: start}, {0: end})
    assert found.skipped == len(set(range(start, end)) - set(every))
    assert found.vanished == len(set(every) - set(range(start, end)))
    assert found.redelivered == len(every) - len(set(every))
