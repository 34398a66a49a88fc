"""Columns and options of writes: what is refused and how it is said, and where each row goes."""

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hightide.batch import body
from hightide.producing.partitioner import partition_for_key
from hightide_spark.core.sink_columns import SinkColumns, UnsupportedRowError, sink_columns, value_hashes
from hightide_spark.core.sink_options import UnsupportedModeError, write_options
from hightide_spark.errors import (
    ContradictingOptionsError,
    InvalidOptionError,
    MissingOptionError,
    OptionError,
    UnknownOptionError,
    UnsupportedSchemaError,
)
from hypothesis import given, settings
from hypothesis import strategies as st

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
COUNTS = {"t": 3, "u": 4}


def share_out(columns: SinkColumns, **given: Any) -> dict[tuple[str, int], list[dict[str, Any]]]:
    batch = pa.record_batch(list(given.values()), list(given))
    groups = columns.share_out(batch, COUNTS.__getitem__, lambda index: f"row {index}")
    found: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for group in groups:
        found[group.topic, group.partition] += group.rows.to_pylist()
    return found


def test_rows_go_to_their_partition_else_by_key_else_by_value_and_keep_their_order() -> None:
    columns = sink_columns({"key": "string", "value": "binary", "partition": "int"}, "t")
    keys = [None if n % 5 == 0 else f"key {n % 7}" for n in range(200)]
    values = [b"value %d" % n for n in range(199)] + [None]
    named = [n % 3 if n % 4 == 0 else None for n in range(200)]
    found = share_out(
        columns,
        key=pa.array(keys),
        value=pa.array(values, pa.binary()),
        partition=pa.array(named, pa.int32()),
    )
    expected: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for key, value, partition in zip(keys, values, named, strict=True):
        sent_key = None if key is None else key.encode()
        by_value = int(value_hashes(pa.array([value], pa.binary()))[0]) % 3
        hashed = by_value if sent_key is None else partition_for_key(sent_key, 3)
        at = hashed if partition is None else partition
        expected["t", at].append({"key": sent_key, "value": value})
    assert found == expected


@settings(deadline=None, max_examples=50)
@given(st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=200, max_size=300), max_size=30))
def test_the_hash_of_a_value_does_not_depend_on_the_values_around_it(values: list[bytes | None]) -> None:
    hashes = value_hashes(pa.array([b"in front", *values], pa.binary()).slice(1))
    alone = [int(value_hashes(pa.array([value], pa.binary()))[0]) for value in values]
    assert hashes.tolist() == alone


def test_values_that_hardly_differ_are_spread_evenly() -> None:
    for template in (b"%d", b'{"id": "%08d", "name": "always the same, and rather long"}', b"%d\xff" * 3):
        parts = template.count(b"%")
        values = pa.array([template % ((number,) * parts) for number in range(7000)], pa.binary())
        counts = np.bincount(value_hashes(values) % 7, minlength=7)
        assert counts.min() > 800, template
        assert counts.max() < 1200, template


def test_the_topic_is_that_of_the_row_and_the_option_comes_first() -> None:
    schema = {"topic": "string", "value": "string", "partition": "int", "offset": "bigint"}
    given = {
        "topic": pa.array(["u", "t", "u"]),
        "value": pa.array(["a", "b", "c"]),
        "partition": pa.array([3, 0, 3], pa.int32()),
        "offset": pa.array([1, 2, 3]),
    }
    found = share_out(sink_columns(schema, None), **given)
    assert found == {("u", 3): [{"value": b"a"}, {"value": b"c"}], ("t", 0): [{"value": b"b"}]}
    given["partition"] = pa.array([1, 1, 1], pa.int32())
    assert set(share_out(sink_columns(schema, "t"), **given)) == {("t", 1)}


def test_headers_and_timestamps_are_sent_as_the_log_has_them() -> None:
    columns = sink_columns(
        {"value": "binary", "timestamp": "timestamp", "headers": "array<struct<key:string,value:binary>>"},
        "t",
    )
    batch = pa.record_batch(
        [
            pa.array([b"a", b"b"]),
            pa.array([1, 2], pa.timestamp("us", tz="UTC")),
            pa.array([[{"key": "k", "value": None}], None], HEADERS),
        ],
        ["value", "timestamp", "headers"],
    )
    (group,) = columns.share_out(batch, lambda _: 1, str)
    assert group.rows.schema.field("headers").type == body.HEADERS_TYPE
    assert group.rows.schema.field("timestamp").type == body.TIMESTAMP_TYPE
    assert group.rows.column("headers").to_pylist() == [[{"key": "k", "value": None}], None]


@pytest.mark.parametrize(
    ("schema", "topic", "said"),
    [
        ({"key": "string"}, "t", "needs the column value (string or binary); the columns are key"),
        ({"value": "bigint"}, "t", "column value is bigint; a write to hightide takes string or binary"),
        ({"value": "string", "key": "int"}, "t", "column key is int"),
        ({"value": "string"}, None, 'needs .option("topic", …) or a column topic'),
        ({"value": "string", "topic": "binary"}, None, "column topic is binary"),
        ({"value": "string", "partition": "bigint"}, "t", "column partition is bigint"),
        ({"value": "string", "timestamp": "timestamp_ntz"}, "t", "column timestamp is timestamp_ntz"),
        ({"value": "string", "headers": "map<string,binary>"}, "t", "column headers is map<string,binary>"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused(
    schema: Mapping[str, str], topic: str | None, said: str
) -> None:
    with pytest.raises(UnsupportedSchemaError) as refused:
        sink_columns(schema, topic)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("column", "sql_type", "values", "said"),
    [
        ("topic", "string", pa.array(["t", None]), "row 1 has a null topic"),
        ("partition", "int", pa.array([2, 3], pa.int32()), "row 1 names partition 3 of topic t, which has"),
        ("partition", "int", pa.array([-1, 0], pa.int32()), "row 0 names partition -1 of topic t"),
        (
            "timestamp",
            "timestamp",
            pa.array([0, None], pa.timestamp("us", tz="UTC")),
            "row 1 has no timestamp",
        ),
        (
            "timestamp",
            "timestamp",
            pa.array([dt.datetime(2000, 1, 1), dt.datetime(1969, 1, 1)], pa.timestamp("us", tz="UTC")),
            "row 1 has the timestamp 1969-01-01 00:00:00+00:00, before 1970",
        ),
        (
            "headers",
            "array<struct<key:string,value:binary>>",
            pa.array([None, [{"key": None, "value": b""}]], HEADERS),
            "row 1 has a header without a key",
        ),
        (
            "headers",
            "array<struct<key:string,value:binary>>",
            pa.array([[], [None]], HEADERS),
            "row 1 has a header without a key",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_named(column: str, sql_type: str, values: Any, said: str) -> None:
    columns = sink_columns({"value": "binary", column: sql_type}, None if column == "topic" else "t")
    with pytest.raises(UnsupportedRowError) as refused:
        share_out(columns, value=pa.array([b"a", b"b"]), **{column: values})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


BOOTSTRAP = {"bootstrap.servers": "b:1"}


def test_options_of_a_write_are_read() -> None:
    options = write_options(
        {"kafka.bootstrap.servers": "b:1", "TOPIC": "t", "txnappid": "a", "txnversion": "7"},
        is_streaming=False,
        overwrite=False,
    )
    assert (options.cluster.bootstrap, options.topic, options.is_exactly_once, options.txn) == (
        "b:1",
        "t",
        True,
        ("a", 7),
    )
    given = {**BOOTSTRAP, "checkpointLocation": "/c", "queryName": "q", "delivery": "at-least-once"}
    options = write_options(given, is_streaming=True, overwrite=False)
    assert (options.topic, options.is_exactly_once, options.txn) == (None, False, None)


@pytest.mark.parametrize(
    ("given", "is_streaming", "error", "said"),
    [
        ({"topic": "t"}, False, MissingOptionError, "needs .option(\"bootstrap.servers\", …)"),
        ({**BOOTSTRAP, "topik": "t"}, False, UnknownOptionError, "did you mean 'topic'?"),
        ({**BOOTSTRAP, "delivery": "twice"}, True, InvalidOptionError, "exactly-once or at-least-once"),
        ({**BOOTSTRAP, "txnAppId": "a"}, False, ContradictingOptionsError, "given without txnVersion"),
        ({**BOOTSTRAP, "txnVersion": "1"}, False, ContradictingOptionsError, "given without txnAppId"),
        ({**BOOTSTRAP, "txnAppId": "a", "txnVersion": "-1"}, False, InvalidOptionError, "from 0 to"),
        ({**BOOTSTRAP, "txnAppId": "a"}, True, UnknownOptionError, "numbers its micro-batches by itself"),
        (
            {**BOOTSTRAP, "txnAppId": "a", "txnVersion": "1", "delivery": "at-least-once"},
            False, ContradictingOptionsError, "have no meaning with delivery=at-least-once",
        ),
    ],
)  # fmt: skip
def test_options_that_cannot_be_used_are_refused(
    given: Mapping[str, str], is_streaming: bool, error: type[OptionError], said: str
) -> None:
    with pytest.raises(error) as refused:
        write_options(given, is_streaming=is_streaming, overwrite=False)
    assert said in str(refused.value)


def test_nothing_is_overwritten() -> None:
    with pytest.raises(UnsupportedModeError, match="cannot be overwritten"):
        write_options(BOOTSTRAP, is_streaming=False, overwrite=True)
    with pytest.raises(UnsupportedModeError, match="outputMode append, not complete"):
        write_options(BOOTSTRAP, is_streaming=True, overwrite=True)
