"""Where each epoch of a log begins and ends (KIP-101, KIP-279)."""

from __future__ import annotations

import pytest
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd, EpochLineage, EpochStart


def lineage(*entries: tuple[int, int]) -> EpochLineage:
    return EpochLineage(tuple(EpochStart(*entry) for entry in entries))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (0, EpochEnd(NO_EPOCH, 3)),
        (1, EpochEnd(1, 10)),
        (2, EpochEnd(1, 10)),
        (3, EpochEnd(3, 15)),
        (5, EpochEnd(5, 20)),
        (9, EpochEnd(5, 20)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(asked: int, expected: EpochEnd) -> None:
    assert lineage((1, 3), (3, 10), (5, 15)).end_offset_for(asked, 3, 20) == expected


def test_an_empty_log_knows_no_epoch() -> None:
    assert EpochLineage().end_offset_for(4, 7, 7) == EpochEnd(NO_EPOCH, 7)
    assert EpochLineage().latest_epoch == NO_EPOCH


def test_an_epoch_in_which_nothing_was_written_makes_place() -> None:
    assert lineage((1, 0), (2, 5)).assign(3, 5) == lineage((1, 0), (3, 5))


def test_an_epoch_that_is_known_changes_nothing() -> None:
    known = lineage((1, 0), (2, 5))
    assert known.assign(2, 9) is known


def test_truncation_drops_the_epochs_that_begin_at_or_after_it() -> None:
    assert lineage((1, 0), (2, 5), (3, 9)).truncate_to(5) == lineage((1, 0))
    known = lineage((1, 0), (2, 5))
    assert known.truncate_to(6) is known


def test_retention_keeps_the_epoch_of_the_first_record() -> None:
    assert lineage((1, 0), (2, 5), (3, 9)).begin_at(7) == lineage((2, 7), (3, 9))
    assert lineage((1, 0), (2, 5), (3, 9)).begin_at(9) == lineage((3, 9))
    assert lineage((1, 0)).begin_at(50) == lineage((1, 50))


def test_the_epoch_before_an_offset_is_the_one_of_the_record_there() -> None:
    known = lineage((1, 3), (3, 10), (5, 15))
    assert [known.epoch_before(offset) for offset in (3, 4, 10, 11, 15, 16, 99)] == [
        NO_EPOCH, 1, 1, 3, 3, 5, 5,
    ]  # fmt: skip
    assert EpochLineage().epoch_before(4) == NO_EPOCH
