"""The records of a poll(): made of columns when they are looked at, and like a list to whoever looks."""

import copy
import gc
import pickle

import pyarrow as pa
import pytest
from hightide.batch import body
from hightide.consuming.columnar_records import ColumnarRecords, RecordColumns, joined
from hightide.records import Record

# More than the rows that are records at a time, twice.
MANY = 1_300


def columns(first_offset: int, count: int, *, keys: bool = False) -> RecordColumns:
    """Rows whose value is their offset; with `keys`, every second one has a key."""
    offsets = range(first_offset, first_offset + count)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([b"k%d" % at if keys and at % 2 else None for at in offsets], pa.binary()),
            pa.array([b"%d" % at for at in offsets], pa.binary()),
            pa.array(offsets, pa.int64()).view(body.TIMESTAMP_TYPE),
        ],
        schema=body.SCHEMA,
    )
    return RecordColumns("flights", 3, first_offset, rows)


def record(offset: int) -> Record:
    return Record("flights", 3, offset, offset, None, b"%d" % offset)


def test_they_are_the_records_of_all_parts_in_order() -> None:
    records = ColumnarRecords([columns(5, 2), columns(90, MANY)])
    assert list(records) == [record(5), record(6), *(record(at) for at in range(90, 90 + MANY))]
    assert len(records) == MANY + 2
    assert list(records) == list(records)


def test_keys_and_missing_keys_are_told_apart() -> None:
    records = ColumnarRecords([columns(0, 4, keys=True)])
    assert [each.key for each in records] == [None, b"k1", None, b"k3"]


def test_headers_are_there_and_a_record_without_any_has_none() -> None:
    rows = columns(0, 2).columns
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None], body.HEADERS_TYPE)
    whole = pa.RecordBatch.from_arrays([*rows.columns, headers], schema=body.SCHEMA_WITH_HEADERS)
    records = ColumnarRecords([RecordColumns("flights", 3, 0, whole)])
    assert [each.headers for each in records] == [(("a", b"1"), ("b", None)), ()]


@pytest.mark.parametrize("index", [0, 1, 2, 511, 512, 513, MANY, MANY + 1, -1, -MANY - 2])
def test_an_index_finds_the_record_that_a_list_has_there(index: int) -> None:
    records = ColumnarRecords([columns(5, 2), columns(90, MANY)])
    assert records[index] == list(records)[index]


@pytest.mark.parametrize("index", [MANY + 2, -MANY - 3])
def test_an_index_outside_is_an_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"record {index} of {MANY + 2}"):
        ColumnarRecords([columns(5, 2), columns(90, MANY)])[index]


@pytest.mark.parametrize(
    "where",
    [
        slice(0, 1),
        slice(1, 3),
        slice(2, None),
        slice(-1, None),
        slice(None, None, -1),
        slice(0, 9, 4),
        slice(7, 3),
    ],
)
def test_a_slice_is_that_of_a_list(where: slice) -> None:
    records = ColumnarRecords([columns(5, 2), columns(90, 7)])
    assert list(records[where]) == list(records)[where]


def test_a_slice_of_a_slice_has_the_offsets_of_the_whole() -> None:
    records = ColumnarRecords([columns(5, 4), columns(90, 4)])
    assert [each.offset for each in records[1:7][1:4]] == [7, 8, 90]


def test_they_compare_and_add_like_a_list() -> None:
    records = ColumnarRecords([columns(0, 2)])
    assert records == [record(0), record(1)]
    assert records == ColumnarRecords([columns(0, 1), columns(1, 1)])
    assert records != [record(0)]
    assert records != [record(0), record(2)]
    assert records != (record(0), record(1))
    seven = [record(7)]
    assert seven + records == [record(7), record(0), record(1)]
    assert records + seven == [record(0), record(1), record(7)]
    assert record(1) in records
    assert record(2) not in records
    assert repr(records) == repr([record(0), record(1)])
    assert not ColumnarRecords()


def test_they_can_be_copied_and_sent_to_another_process() -> None:
    records = ColumnarRecords([columns(0, 3)])
    assert copy.deepcopy(records) == records
    assert pickle.loads(pickle.dumps(records)) == records


def test_takes_are_joined_without_making_a_record() -> None:
    whole = joined([ColumnarRecords([columns(0, 2)]), ColumnarRecords([columns(9, 1)])])
    assert isinstance(whole, ColumnarRecords)
    assert whole == [record(0), record(1), record(9)]
    assert joined([]) == []
    assert joined([["a"], ["b"]]) == ["a", "b"]


def test_iterating_keeps_none_of_the_records() -> None:
    """Records that stay are what the garbage collector spends its time on."""
    records = ColumnarRecords([columns(0, MANY)])
    gc.collect()
    before = len(gc.get_objects())
    for each in records:
        last = each
    assert last.offset == MANY - 1
    assert len(gc.get_objects()) - before < MANY // 10


def test_a_record_is_immutable_and_takes_its_fields_by_name() -> None:
    one = Record(topic="flights", partition=3, offset=1, timestamp_us=1, key=None, value=b"1")
    assert one == record(1)
    assert one.headers == ()
    with pytest.raises(AttributeError):
        one.value = b"2"  # type: ignore[misc]
