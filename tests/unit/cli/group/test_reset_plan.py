"""What a reset makes of each request: an offset that the log has, and a remark where it is another."""

import pytest
from hightide import TopicPartition
from hightide_cli.group.reset_plan import (
    LogRange,
    PlannedReset,
    ResetPlanError,
    ResetTarget,
    ResetTo,
    plan_resets,
)
from hypothesis import given
from hypothesis import strategies as st

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RANGES = {P0: LogRange(10, 100), P1: LogRange(0, 50)}
COMMITTED = {P0: 40}


def plan(
    target: ResetTarget,
    committed: dict[TopicPartition, int] | None = None,
    at_time: dict[TopicPartition, int | None] | None = None,
) -> list[PlannedReset]:
    return plan_resets(target, RANGES, COMMITTED if committed is None else committed, at_time or {})


def offsets(planned: list[PlannedReset]) -> list[int]:
    return [each.offset for each in planned]


def test_to_the_earliest_is_the_first_offset_that_exists() -> None:
    assert offsets(plan(ResetTarget(ResetTo.EARLIEST))) == [10, 0]


def test_to_the_latest_is_the_end() -> None:
    planned = plan(ResetTarget(ResetTo.LATEST))
    assert [each.offset for each in planned] == [100, 50]
    assert [each.lag for each in planned] == [0, 0]


def test_to_an_offset_is_the_nearest_that_the_log_has_and_says_so() -> None:
    planned = plan(ResetTarget(ResetTo.OFFSET, 60))
    assert [each.offset for each in planned] == [60, 50]
    assert [each.remark for each in planned] == [None, "60 is beyond the end"]
    before = plan(ResetTarget(ResetTo.OFFSET, 5))
    assert [each.offset for each in before] == [10, 5]
    assert before[0].remark == "5 is before the first offset"


def test_to_a_time_after_all_records_is_the_end() -> None:
    assert offsets(plan(ResetTarget(ResetTo.TIME, 1), at_time={P0: 33, P1: None})) == [33, 50]


def test_to_a_time_is_the_record_that_was_found_though_it_was_written_after_the_end_was_asked_for() -> None:
    """It was taken for one beyond the end, and the group read what lies between: older than the time."""
    first, _ = plan(ResetTarget(ResetTo.TIME, 1), at_time={P0: 130, P1: None})
    assert (first.offset, first.lag, first.remark) == (130, 0, None)


@pytest.mark.parametrize(("by", "expected"), [(-5, 35), (5, 45), (0, 40), (-40, 10), (1_000, 100)])
def test_a_shift_counts_from_what_is_committed_and_stays_in_the_log(by: int, expected: int) -> None:
    planned = plan(ResetTarget(ResetTo.SHIFT, by), committed={P0: 40, P1: 25})
    assert planned[0].offset == expected
    assert planned[0].change == expected - 40


def test_a_shift_from_an_offset_that_retention_overtook_begins_at_the_first() -> None:
    assert offsets(plan(ResetTarget(ResetTo.SHIFT, 2), committed={P0: 3, P1: 0})) == [10, 2]


def test_what_has_no_committed_offset_cannot_be_shifted() -> None:
    with pytest.raises(ResetPlanError, match=r"t-1 has no committed offset to shift: give --to-offset"):
        plan(ResetTarget(ResetTo.SHIFT, 1))
    with pytest.raises(ResetPlanError, match=r"t-0 \(and 1 more\)"):
        plan(ResetTarget(ResetTo.SHIFT, 1), committed={})


def test_the_plan_says_what_changes_and_what_there_will_be_to_read() -> None:
    first, second = plan(ResetTarget(ResetTo.EARLIEST))
    assert (first.committed, first.change, first.lag) == (40, -30, 90)
    assert (second.committed, second.change, second.lag) == (None, None, 50)


@given(
    to=st.sampled_from(list(ResetTo)),
    value=st.integers(-300, 300),
    earliest=st.integers(0, 100),
    length=st.integers(0, 100),
    committed=st.integers(0, 300),
    found=st.none() | st.integers(0, 300),
)
def test_every_planned_offset_is_one_that_the_log_has(
    to: ResetTo, value: int, earliest: int, length: int, committed: int, found: int | None
) -> None:
    log = LogRange(earliest, earliest + length)
    (planned,) = plan_resets(ResetTarget(to, value), {P0: log}, {P0: committed}, {P0: found})
    assert log.earliest <= planned.offset <= planned.latest
    assert planned.latest == log.latest or (to is ResetTo.TIME and planned.latest == found)
    assert (planned.remark is None) == (planned.offset == planned.wanted)
