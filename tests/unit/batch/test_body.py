"""Columns to bytes and back."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hightide.batch import body
from hightide.batch.checksum import crc32c
from hightide.batch.errors import BatchError, BatchTooLarge, CorruptBatch, InvalidBatch
from hightide.batch.header import Compression, parse
from hypothesis import given
from hypothesis import strategies as st
from stored_batches import PARTITION, TOPIC_ID, make_batch

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=50),
        st.integers(0, 2**50),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=20,
)


def columns_of(records: list[tuple[Any, ...]], with_headers: bool) -> Any:
    keys, values, times, headers = zip(*records, strict=True)
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(times, body.TIMESTAMP_TYPE),
    ]
    if with_headers:
        named = [[{"key": key, "value": value} for key, value in each] for each in headers]
        columns.append(pa.array(named, body.HEADERS_TYPE))
    return pa.RecordBatch.from_arrays(
        columns, schema=body.SCHEMA_WITH_HEADERS if with_headers else body.SCHEMA
    )


@given(RECORDS, st.sampled_from(list(Compression)), st.booleans())
def test_what_is_encoded_is_decoded(
    records: list[tuple[Any, ...]], compression: Compression, with_headers: bool
) -> None:
    columns = columns_of(records, with_headers)
    encoded = body.encode(columns, topic_id=TOPIC_ID, partition=PARTITION, compression=compression)
    assert encoded.size_bytes == len(encoded.to_bytes())
    assert encoded.header.max_timestamp_us == max(record[2] for record in records)
    assert body.decode(encoded.to_bytes()).equals(columns)


@pytest.mark.parametrize("shift", range(1, 9))
def test_a_batch_at_any_address_is_decoded(shift: int) -> None:
    batch = make_batch(100, b"x" * 10)
    message = memoryview(b"\0" * shift + batch)[shift:]
    assert body.decode(message).num_rows == 100


def test_decoding_does_not_copy_what_is_not_compressed() -> None:
    before = pa.total_allocated_bytes()
    columns = body.decode(make_batch(10, b"x" * 100_000))
    assert pa.total_allocated_bytes() - before < 1_000
    assert columns.num_rows == 10


def test_another_schema_is_refused() -> None:
    columns = pa.record_batch({"key": pa.array([b"k"])})
    with pytest.raises(InvalidBatch):
        body.encode(columns, topic_id=TOPIC_ID, partition=PARTITION)
    with pytest.raises(InvalidBatch):
        body.encode("columns", topic_id=TOPIC_ID, partition=PARTITION)


def test_a_record_without_timestamp_is_refused() -> None:
    columns = columns_of([(b"k", b"v", None, [])], with_headers=False)
    with pytest.raises(InvalidBatch, match="null timestamps"):
        body.encode(columns, topic_id=TOPIC_ID, partition=PARTITION)


def test_a_batch_that_takes_more_room_than_allowed_is_refused_before_it_is_opened() -> None:
    bomb = make_batch(100, b"\0" * 100_000, compression=Compression.ZSTD)
    assert len(bomb) < 20_000
    with pytest.raises(BatchTooLarge):
        body.decode(bomb, decoded_size_bytes_max=1_000_000)


def test_a_damaged_batch_is_refused_by_its_crc() -> None:
    batch = bytearray(make_batch(3))
    batch[-20] ^= 1
    with pytest.raises(CorruptBatch):
        body.decode(bytes(batch))


@given(
    st.integers(80, len(make_batch(3)) - 1),
    st.binary(min_size=1, max_size=16),
    st.sampled_from(list(Compression)),
)
def test_a_body_that_lies_under_a_valid_crc_is_refused_or_well_formed(
    at: int, damage: bytes, compression: Compression
) -> None:
    batch = bytearray(make_batch(3, compression=compression))
    at = min(at, len(batch) - 1)
    batch[at : at + len(damage)] = damage[: len(batch) - at]
    struct.pack_into("<I", batch, 20, crc32c(memoryview(batch)[24:]))
    try:
        columns = body.decode(bytes(batch))
    except BatchError:
        return
    assert columns.num_rows == parse(batch).record_count
    assert len(columns.to_pylist()) == 3


def test_the_first_record_at_or_after_a_timestamp_is_found() -> None:
    batch = make_batch(4, timestamps_us=(10, 30, 20, 40))
    assert body.first_at_or_after(batch, 10) == (0, 10)
    assert body.first_at_or_after(batch, 11) == (1, 30)
    assert body.first_at_or_after(batch, 31) == (3, 40)
    assert body.first_at_or_after(batch, 41) is None
