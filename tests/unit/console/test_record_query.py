"""A question about records is bounded, whatever the form says."""

import pytest
from hightide_console.settings import SEARCH_RECORDS_MAX
from hightide_console.views.record_query import (
    Match,
    ReadRange,
    RecordQuery,
    Start,
    partitions_of,
    query_of,
    ranges_of,
)
from hightide_console.views.records import Form

EARLIEST, LATEST = {0: 100, 1: 0}, {0: 1_000, 1: 5}


def test_without_words_it_is_the_newest_fifty_of_all_partitions() -> None:
    query = query_of({})
    assert (query.partition, query.start, query.limit, query.form) == (None, Start.NEWEST, 50, Form.AUTO)
    assert ranges_of(query, EARLIEST, LATEST, {}) == [ReadRange(0, 950, 1_000), ReadRange(1, 0, 5)]


@pytest.mark.parametrize(
    ("word", "limit"), [("7", 7), ("0", 1), ("-4", 50), ("9999999", 500), ("many", 50), ("9" * 400, 50)]
)
def test_no_more_is_shown_than_a_page_holds(word: str, limit: int) -> None:
    assert query_of({"limit": word}).limit == limit


def test_an_offset_begins_there_or_at_the_nearest_end_of_the_log() -> None:
    query = query_of({"start": "offset", "at": "120", "limit": "10"})
    assert ranges_of(query, EARLIEST, LATEST, {}) == [ReadRange(0, 120, 130, is_cut=True)]
    before = query_of({"start": "offset", "at": "3", "limit": "10"})
    assert ranges_of(before, EARLIEST, LATEST, {}) == [
        ReadRange(0, 100, 110, is_cut=True),
        ReadRange(1, 3, 5),
    ]


def test_a_time_is_utc_unless_it_says_otherwise() -> None:
    assert query_of({"start": "time", "at": "2026-01-31T14:00"}).at == 1_769_868_000_000_000
    assert query_of({"start": "time", "at": "2026-01-31T15:00+01:00"}).at == 1_769_868_000_000_000
    query = query_of({"start": "time", "at": "2026-01-31T14:00"})
    assert ranges_of(query, EARLIEST, LATEST, {0: 990, 1: None}) == [ReadRange(0, 990, 1_000)]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"start": "offset", "at": "soon"}, "soon"),
        ({"start": "offset", "at": "9" * 19}, "9" * 19),
        ({"start": "time", "at": "yesterday"}, "yesterday"),
        ({"partition": "-1"}, "-1"),
        ({"partition": "x"}, "x"),
    ],
)
def test_what_is_not_understood_is_said(words: dict[str, str], named: str) -> None:
    (sentence,) = query_of(words).errors
    assert named in sentence


def test_a_search_reads_a_bounded_number_of_records_over_all_partitions() -> None:
    query = query_of({"match": "contains", "text": "x"})
    latest = dict.fromkeys(range(10), 1 << 40)
    ranges = ranges_of(query, dict.fromkeys(range(10), 0), latest, {})
    assert sum(each.end - each.start for each in ranges) == SEARCH_RECORDS_MAX


def test_a_search_for_nothing_is_none() -> None:
    assert query_of({"match": "pattern", "text": ""}).match is Match.ALL


def test_a_topic_with_many_partitions_is_read_one_at_a_time() -> None:
    assert partitions_of(RecordQuery(), 32) == list(range(32))
    assert partitions_of(RecordQuery(), 33) == [0]
    assert partitions_of(RecordQuery(partition=32), 33) == [32]
    assert partitions_of(RecordQuery(partition=33), 33) == []
