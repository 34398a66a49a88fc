"""The ways in which records can be gone, told apart; where a stream goes on that tolerates it; filters."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hightide_spark.core.data_loss import find_losses, without_lost
from hightide_spark.core.filters import Condition, Narrowing, narrowing
from hightide_spark.core.stream_offsets import StreamOffsets, TopicOffsets
from hightide_spark.errors import (
    DataLossError,
    PartitionsRemovedLossError,
    RecordsLostError,
    TopicDeletedLossError,
    TopicRecreatedLossError,
)

ID, OTHER_ID = "0" * 32, "f" * 32


def everything(topic: str, partition: int) -> bool:
    return True


START: StreamOffsets = {"flights": TopicOffsets(ID, {0: 50, 1: 60})}
LOSSES: list[tuple[StreamOffsets, type[DataLossError], str, StreamOffsets]] = [
    ({}, TopicDeletedLossError, "flights was deleted", {}),
    (
        {"flights": TopicOffsets(OTHER_ID, {0: 3, 1: 3})},
        TopicRecreatedLossError,
        f"its id was {ID} and is {OTHER_ID}",
        {},
    ),
    (
        {"flights": TopicOffsets(ID, {0: 70})},
        PartitionsRemovedLossError,
        "[1] were removed",
        {"flights": TopicOffsets(ID, {0: 50})},
    ),
    (
        {"flights": TopicOffsets(ID, {0: 40, 1: 60})},
        RecordsLostError,
        "flights-0 ends at 40, but it was read up to 50",
        {"flights": TopicOffsets(ID, {0: 40, 1: 60})},
    ),
]


@pytest.mark.parametrize(("now", "kind", "says", "left"), LOSSES)
def test_losses_are_told_apart_and_the_rest_goes_on(
    now: StreamOffsets, kind: type[DataLossError], says: str, left: StreamOffsets
) -> None:
    (loss,) = find_losses(START, now, everything)
    assert type(loss) is kind
    assert says in str(loss)
    assert "failOnDataLoss" in str(loss)
    assert without_lost(START, now, everything) == left
    again = pickle.loads(pickle.dumps(loss))
    assert (type(again), str(again)) == (kind, str(loss))


def test_growth_is_no_loss() -> None:
    now = {"flights": TopicOffsets(ID, {0: 51, 1: 60, 2: 5}), "rain": TopicOffsets(ID, {0: 1})}
    assert find_losses(START, now, everything) == []
    assert without_lost(START, now, everything) == START


def test_what_is_not_subscribed_any_more_is_not_missed() -> None:
    assert find_losses(START, {}, lambda topic, partition: topic == "rain") == []
    only_zero = {"flights": TopicOffsets(ID, {0: 70})}
    assert find_losses(START, only_zero, lambda topic, partition: partition == 0) == []
    assert without_lost(START, only_zero, lambda topic, partition: partition == 0) == {
        "flights": TopicOffsets(ID, {0: 50})
    }


NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
NOON_US = (NOON - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ([], Narrowing()),
        ([("partition", "=", 1), ("Partition", "in", (1, 2))], Narrowing(frozenset({1}))),
        ([("partition", "=", 1), ("partition", "=", 2)], Narrowing(frozenset())),
        ([("partition", ">", 1)], Narrowing()),
        ([("offset", ">", 4), ("offset", "<=", 9)], Narrowing(None, 5, 10)),
        ([("offset", ">=", 4), ("offset", "<", 9), ("offset", ">=", 2)], Narrowing(None, 4, 9)),
        ([("offset", "=", 4)], Narrowing(None, 4, 5)),
        ([("offset", "in", (7, 4))], Narrowing(None, 4, 8)),
        ([("offset", ">", 4.5), ("partition", "=", None)], Narrowing()),
        ([("timestamp", ">=", NOON)], Narrowing(None, 0, None, NOON_US)),
        ([("timestamp", "<", NOON)], Narrowing()),  # later records may be older
        ([("timestamp", ">=", NOON.replace(tzinfo=None)), ("key", "=", b"k")], Narrowing()),
    ],
)
def test_filters_narrow_what_is_read(conditions: list[tuple[str, str, object]], left: Narrowing) -> None:
    assert narrowing(Condition(*each) for each in conditions) == left  # type: ignore[arg-type]


def test_a_range_is_narrowed_to_what_filters_leave() -> None:
    assert Narrowing(None, 5, 10).narrowed(0, 100) == (5, 10)
    assert Narrowing(None, 5, 10).narrowed(7, 8) == (7, 8)
    assert Narrowing().narrowed(7, 8) == (7, 8)
