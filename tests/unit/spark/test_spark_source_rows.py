"""From the log's batches to Spark's: the same rows in the same order, in batches of the right size."""

from typing import Any

import pyarrow as pa
import pytest
from hightide.batch.body import HEADERS_TYPE, SCHEMA, SCHEMA_WITH_HEADERS
from hightide.batch.header import BatchHeader
from hightide.range_reader import RangeBatch
from hightide_spark.core.arrow_columns import columns_of
from hightide_spark.core.schema import default_ddl
from hightide_spark.errors import UnsupportedSchemaError
from hightide_spark.source.spark_rows import BATCH_BYTES_MAX, SparkRows

HEADER = BatchHeader(0, 68, 0, 0, bytes(16), 0, 0, -1, -1, -1, 1, 0, 0)
TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}


def batch(base_offset: int, rows: int, value: bytes = b"v", headers: list[Any] | None = None) -> RangeBatch:
    keys = [None if at % 2 else b"k%d" % (base_offset + at) for at in range(rows)]
    columns = [keys, [value] * rows, [base_offset + at for at in range(rows)]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    if headers is not None:
        arrays.append(pa.array(headers, HEADERS_TYPE))
    schema = SCHEMA if headers is None else SCHEMA_WITH_HEADERS
    return RangeBatch(HEADER, base_offset, pa.RecordBatch.from_arrays(arrays, schema=schema))


def rows(names: str, *read: RangeBatch) -> list[Any]:
    columns = tuple(names.split())
    schema = pa.schema([(name, TYPES[name]) for name in columns])
    made = list(SparkRows("flights", 3, columns, schema).batches(read))
    for each in made:
        each.validate(full=True)
        assert each.schema.equals(schema)
    return made


def test_small_batches_are_put_together_with_every_column() -> None:
    (made,) = rows("key value topic partition offset timestamp timestampType", batch(5, 2), batch(7, 1))
    assert made.to_pydict()["key"] == [b"k5", None, b"k7"]
    assert made.to_pydict()["offset"] == [5, 6, 7]
    assert made.column("timestamp").cast(pa.int64()).to_pylist() == [5, 6, 7]
    assert made.slice(2).drop_columns(["timestamp"]).to_pylist() == [
        {"key": b"k7", "value": b"v", "topic": "flights", "partition": 3, "offset": 7, "timestampType": 0}
    ]


def test_a_large_batch_goes_through_without_a_copy() -> None:
    large = batch(0, 1100, b"x" * 1000)
    (made,) = rows("offset value", large)
    assert made.column("value").buffers()[2].address == large.rows.column("value").buffers()[2].address


def test_a_huge_batch_is_cut() -> None:
    made = rows("value offset", batch(100, 20, b"x" * (1 << 20)))
    assert len(made) == 3
    assert all(each.nbytes <= BATCH_BYTES_MAX for each in made)
    assert [offset for each in made for offset in each.column("offset").to_pylist()] == list(range(100, 120))


def test_a_gap_between_batches_shows_in_the_offsets() -> None:
    made = rows("offset", batch(0, 2), batch(9, 2))
    assert [each.column("offset").to_pylist() for each in made] == [[0, 1], [9, 10]]


def test_headers_are_null_where_a_record_has_none() -> None:
    with_headers = batch(1, 3, headers=[[{"key": "a", "value": b"1"}], [], None])
    (made,) = rows("headers", batch(0, 1), with_headers)
    assert made.column("headers").to_pylist() == [None, [{"key": "a", "value": b"1"}], None, None]


def test_a_schema_of_the_user_chooses_columns_in_any_case_and_order() -> None:
    assert columns_of(pa.schema([("OFFSET", pa.int64()), ("timestamptype", pa.int32())])) == (
        "offset",
        "timestampType",
    )
    assert columns_of(pa.schema(list(TYPES.items()))) == tuple(TYPES)
    assert default_ddl(False) in default_ddl(True)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (pa.field("valu", pa.binary()), "there are key, value, topic"),
        (pa.field("value", pa.string()), "'value' is string; it is BINARY"),
        (pa.field("offset", pa.int32()), "'offset' is int32; it is BIGINT"),
        (pa.field("key", pa.binary(), nullable=False), "'key' is never null"),
    ],
)
def test_a_schema_with_other_columns_is_refused(field: Any, says: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=says):
        columns_of(pa.schema([field]))


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match="no column"):
        columns_of(pa.schema([]))
