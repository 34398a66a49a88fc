"""Which offsets are meant, and in which order they are read."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import click
import pytest
from hightide_cli.records.positions import Anchor, Position, parse_moment, parse_position
from hightide_cli.records.ranges import OffsetRange, TopicRanges, check_start, range_of, read_ranges


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 100, (5, 20)),
        (7, 9, (7, 9)),
        (None, None, (20, 20)),
        (9, 7, (9, 9)),
        (-3, 12, (5, 12)),
    ],
)
def test_what_is_wanted_is_cut_to_what_is_there(
    start: int | None, end: int | None, found: tuple[int, int]
) -> None:
    assert range_of(3, 5, 20, start, end) == OffsetRange(3, *found)


def test_an_offset_that_no_partition_has_reached_is_refused() -> None:
    """A command that began at a time in milliseconds, without the @, printed nothing and was content."""
    with pytest.raises(click.BadParameter, match=r"at most 34; a time is @1700000000000, in milliseconds"):
        check_start("t", Position(Anchor.OFFSET, 1_700_000_000_000), [13, 34])
    check_start("t", Position(Anchor.OFFSET, 34), [13, 34])
    check_start("t", Position(Anchor.BEFORE_END, 1_000), [13, 34])


class Batches:
    """Stands for the range reader: each batch is named by its partition and offset."""

    def __init__(self) -> None:
        self.open = 0
        self.open_most = 0

    def read(self, topic: str, topic_id: bytes, partition: int, start: int, end: int) -> Iterator[Any]:
        self.open += 1
        self.open_most = max(self.open_most, self.open)
        for offset in range(start, end):
            yield SimpleNamespace(base_offset=offset)
        self.open -= 1


def test_partitions_take_turns_and_not_too_many_are_read_at_once() -> None:
    reader: Any = Batches()
    wanted = TopicRanges("t", b"", 4, tuple(OffsetRange(number, 0, number) for number in range(4)))
    read = [(partition, batch.base_offset) for partition, batch in read_ranges(reader, wanted, at_once=2)]
    assert read == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
    assert reader.open_most == 2


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Position(Anchor.EARLIEST)),
        ("end", Position(Anchor.LATEST)),
        ("s@1357016400000", Position(Anchor.TIMESTAMP, 1_357_016_400_000_000)),
        ("@20130101", Position(Anchor.TIMESTAMP, 1_356_998_400_000_000)),
        ("-10", Position(Anchor.BEFORE_END, 10)),
    ],
)
def test_kcat_s_words_are_understood(text: str, position: Position) -> None:
    assert parse_position(text) == position


def test_a_time_may_be_so_long_ago() -> None:
    assert parse_moment("-1h") < parse_moment("-30m") < parse_moment("-1s")
    with pytest.raises(click.BadParameter, match="is not a time span"):
        parse_moment("-x")
