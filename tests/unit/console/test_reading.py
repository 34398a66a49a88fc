"""A search is bounded, and loses nothing: what a page does not show is found by its links."""

from collections.abc import Iterable
from typing import Any, cast

import pyarrow as pa
import pytest
from hightide import RangeBatch
from hightide.batch.body import SCHEMA
from hightide_console.reading import RecordsRead, records_of
from hightide_console.settings import SEARCH_SECONDS_MAX
from hightide_console.views.record_query import Match, ReadRange, RecordQuery, Start

NO_HEADER = cast(Any, None)
A_BATCH = 10


def batch(partition: int, start: int, end: int) -> RangeBatch:
    """Records whose key says their place; each second one has an x for its value, and time goes on by
    offsets."""
    rows = [(f"{partition}@{at}".encode(), b"x" if at % 2 == 0 else b"-", at) for at in range(start, end)]
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
    ]
    return RangeBatch(NO_HEADER, start, pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def batches(wanted: ReadRange) -> Iterable[RangeBatch]:
    for start in range(wanted.start, wanted.end, A_BATCH):
        yield batch(wanted.partition, start, min(start + A_BATCH, wanted.end))


def searched(start: Start, *ranges: ReadRange, limit: int = 3, **told: Any) -> RecordsRead:
    query = RecordQuery(start=start, match=Match.CONTAINS, text="x", limit=limit)
    return records_of("t", query, ranges, batches, **told)


def keys(read: RecordsRead) -> list[str]:
    return [(each.key or b"").decode() for each in read.records]


def test_a_search_goes_on_at_the_first_match_that_is_not_shown_also_in_the_middle_of_a_batch() -> None:
    read = searched(Start.EARLIEST, ReadRange(0, 0, 40))
    assert (keys(read), read.next_offsets) == (["0@0", "0@2", "0@4"], {0: 6})


def test_who_follows_the_links_of_a_search_sees_each_match_of_each_partition() -> None:
    waiting = {0: 0, 1: 0}
    seen: set[str] = set()
    while waiting:
        read = searched(Start.OFFSET, *(ReadRange(number, at, 26) for number, at in waiting.items()))
        assert read.records
        seen.update(keys(read))
        waiting = read.next_offsets
    assert seen == {f"{number}@{at}" for number in (0, 1) for at in range(0, 26, 2)}


def test_a_search_for_the_newest_shows_the_last_matches_and_not_the_first_of_what_it_reads() -> None:
    read = searched(Start.NEWEST, ReadRange(0, 0, 40))
    assert (keys(read), read.next_offsets) == (["0@34", "0@36", "0@38"], {})


def test_a_search_that_has_read_as_much_as_it_may_says_where_to_go_on() -> None:
    assert searched(Start.EARLIEST, ReadRange(0, 1, 2, is_cut=True)).next_offsets == {0: 2}
    assert searched(Start.EARLIEST, ReadRange(0, 1, 2)).next_offsets == {}


def test_a_search_whose_time_is_over_goes_on_in_every_partition_that_has_more() -> None:
    clock = iter([0.0, 0.0, SEARCH_SECONDS_MAX + 1])
    read = searched(
        Start.EARLIEST, ReadRange(0, 0, 5), ReadRange(1, 0, 40), ReadRange(2, 7, 9),
        limit=50, monotonic=lambda: next(clock),
    )  # fmt: skip
    assert read.next_offsets == {1: 10, 2: 7}
    assert read.read_count == 15


def test_a_batch_that_is_left_out_at_the_end_is_no_reason_to_go_on() -> None:
    query = RecordQuery(start=Start.EARLIEST, match=Match.CONTAINS, text="x")
    read = records_of("t", query, [ReadRange(0, 0, 20)], lambda _: [batch(0, 0, 10)])
    assert read.next_offsets == {}


@pytest.mark.parametrize(
    ("start", "shown"), [(Start.NEWEST, ["0@7", "0@8", "0@9"]), (Start.EARLIEST, ["0@0", "0@1", "0@2"])]
)
def test_without_a_search_a_page_has_the_records_at_one_end(start: Start, shown: list[str]) -> None:
    query = RecordQuery(start=start, limit=3)
    wanted = ReadRange(0, 7, 10) if start is Start.NEWEST else ReadRange(0, 0, 3, is_cut=True)
    read = records_of("t", query, [wanted], batches)
    assert (keys(read), read.next_offsets) == (shown, {})
