"""From options to offsets, from offsets to tasks, and the JSON that a checkpoint keeps."""

import json

import pytest
from hightide.records import TopicPartition
from hightide_spark.core.ranges import TASKS_MAX, LogRange, between, split
from hightide_spark.core.start_and_end import AtOffsets, AtTimes, Bound, Everywhere, When, questions, resolve
from hightide_spark.core.stream_offsets import TopicOffsets, as_json_object, parse, positions
from hightide_spark.errors import (
    InvalidOptionError,
    NoRecordSoLateError,
    RecordsDeletedError,
    TooManyTasksError,
    UnreadableOffsetsError,
)
from hypothesis import given
from hypothesis import strategies as st

ZERO, ONE = TopicPartition("flights", 0), TopicPartition("flights", 1)
ID, OTHER_ID = "0" * 32, "f" * 32
# Two logs: [10, 50) and [0, 8); records at or after 5 s are at offset 30 and nowhere.
LOGS: dict[tuple[TopicPartition, When], int | None] = {
    (ZERO, "earliest"): 10,
    (ZERO, "latest"): 50,
    (ZERO, 5_000_000): 30,
    (ONE, "earliest"): 0,
    (ONE, "latest"): 8,
    (ONE, 5_000_000): None,
}


def resolved(bound: Bound, late: str = "error") -> dict[TopicPartition, int]:
    asked = questions(bound, [ONE, ZERO])
    found = resolve(bound, [ONE, ZERO], {question: LOGS[question] for question in asked}, late=late)
    assert found.errors == ()
    return dict(found.offsets)


@pytest.mark.parametrize(
    ("bound", "offsets"),
    [
        (Everywhere("startingOffsets", "earliest"), (10, 0)),
        (Everywhere("endingOffsets", "latest"), (50, 8)),
        (AtOffsets("startingOffsets", {ZERO: -2, ONE: -1}), (10, 8)),
        (AtOffsets("startingOffsets", {ZERO: 50, ONE: 3}), (50, 3)),
    ],
)
def test_each_way_to_say_an_offset(bound: Bound, offsets: tuple[int, int]) -> None:
    assert resolved(bound) == dict(zip((ZERO, ONE), offsets, strict=True))


@pytest.mark.parametrize(
    "bound",
    [
        Everywhere("startingTimestamp", 5_000_000),
        AtTimes("startingOffsetsByTimestamp", {ZERO: 5_000_000, ONE: 5_000_000}),
    ],
)
def test_a_time_after_the_last_record_is_an_error_or_the_end(bound: Bound) -> None:
    assert resolved(bound, late="latest") == {ZERO: 30, ONE: 8}
    with pytest.raises(NoRecordSoLateError, match=r"flights-1 has no record at or after 5000 ms"):
        resolved(bound)


@pytest.mark.parametrize(
    "bound",
    [
        Everywhere("startingTimestamp", 5_000_000),
        AtTimes("startingOffsetsByTimestamp", {ZERO: 5_000_000, ONE: 7_000_000}),
    ],
)
def test_the_end_is_asked_before_the_time_so_that_no_late_record_falls_between(bound: Bound) -> None:
    kinds = list(dict.fromkeys(when for _, when in questions(bound, [ZERO, ONE])))
    assert kinds[0] == "latest"


@pytest.mark.parametrize("named", [{ZERO: 1}, {ZERO: 1, ONE: 1, TopicPartition("rain", 0): 1}])
def test_partitions_named_must_be_exactly_those_that_are_read(named: dict[TopicPartition, int]) -> None:
    with pytest.raises(InvalidOptionError, match=r"flights-1 missing|rain-0 named but not read"):
        questions(AtOffsets("startingOffsets", named), [ZERO, ONE])


def test_an_offset_outside_of_the_log_is_told_and_the_nearest_one_given() -> None:
    bound = AtOffsets("startingOffsets", {ZERO: 9, ONE: 9})
    found = resolve(bound, [ZERO, ONE], LOGS, late="error")
    assert found.offsets == {ZERO: 10, ONE: 8}
    assert [type(error) for error in found.errors] == [RecordsDeletedError, InvalidOptionError]


@given(
    sizes=st.lists(st.integers(0, 1000), max_size=6),
    min_partitions=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 500),
)
def test_pieces_cover_every_record_once_and_keep_their_bounds(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    whole = [LogRange("t", ID, at, 7, 7 + size) for at, size in enumerate(sizes)]
    pieces = split(whole, min_partitions, max_records)
    assert sorted((piece.partition, at) for piece in pieces for at in range(piece.start, piece.end)) == [
        (each.partition, at) for each in whole for at in range(each.start, each.end)
    ]
    assert all(piece.size > 0 for piece in pieces)
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)
    if min_partitions is not None:
        assert len(pieces) >= min(min_partitions, sum(sizes))
    if min_partitions is None and max_records is None:
        assert pieces == [each for each in whole if each.size]


def test_more_tasks_than_a_driver_can_hold_are_refused() -> None:
    huge = [LogRange("t", ID, 0, 0, 10**8)]
    assert len(split(huge, None, 1_000)) == TASKS_MAX
    with pytest.raises(TooManyTasksError, match=r"maxRecordsPerPartition is 1, .* 100000000 tasks"):
        split(huge, None, 1)


def test_a_partition_far_larger_than_the_others_is_cut_alone() -> None:
    whole = [LogRange("t", ID, 0, 0, 900), LogRange("t", ID, 1, 0, 100)]
    assert [(piece.partition, piece.size) for piece in split(whole, 4, None)] == [
        (0, 300),
        (0, 300),
        (0, 300),
        (1, 100),
    ]


def test_new_partitions_and_created_again_topics_are_read_from_their_beginning() -> None:
    start = {"a": TopicOffsets(ID, {0: 5}), "b": TopicOffsets(ID, {0: 5}), "gone": TopicOffsets(ID, {0: 5})}
    end = {
        "a": TopicOffsets(ID, {0: 5, 1: 3}),
        "b": TopicOffsets(OTHER_ID, {0: 2}),
        "c": TopicOffsets(ID, {0: 1}),
    }
    assert between(start, end) == [
        LogRange("a", ID, 1, 0, 3),
        LogRange("b", OTHER_ID, 0, 0, 2),
        LogRange("c", ID, 0, 0, 1),
    ]


def test_a_log_that_ends_before_where_it_was_read_to_gives_nothing() -> None:
    assert between({"a": TopicOffsets(ID, {0: 5})}, {"a": TopicOffsets(ID, {0: 4})}) == []


def test_offsets_have_the_same_json_after_a_round_trip_through_a_checkpoint() -> None:
    offsets = {"b": TopicOffsets(ID, {11: 1, 2: 1 << 62}), "a": TopicOffsets(OTHER_ID, {0: 0})}
    text = json.dumps(as_json_object(offsets))
    assert text == (
        f'{{"a": {{"id": "{OTHER_ID}", "offsets": {{"0": 0}}}}, '
        f'"b": {{"id": "{ID}", "offsets": {{"2": {1 << 62}, "11": 1}}}}}}'
    )
    assert json.dumps(as_json_object(parse(text))) == text
    assert parse(json.loads(text)) == offsets
    assert positions(offsets)[TopicPartition("b", 11)] == 1


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"flights":{"0":23}}',
        '{"flights":{"id":"12","offsets":{}}}',
        f'{{"flights":{{"id":"{ID}","offsets":{{"0":-1}}}}}}',
        f'{{"flights":{{"id":"{ID}","offsets":{{"x":1}}}}}}',
    ],
)
def test_offsets_of_another_source_are_refused(text: str) -> None:
    with pytest.raises(UnreadableOffsetsError):
        parse(text)
