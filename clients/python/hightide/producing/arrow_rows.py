"""Preparation of whole tables for batches: converted to the schema of batches, divided by key, cut to
size."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hightide.batch import body
from hightide.errors import InvalidArgumentError
from hightide.producing.pending_batch import BATCH_OVERHEAD_BYTES

_KNOWN = ("key", "value", "timestamp", "headers")


def rows_of(records: Any, now_us: int) -> Any:
    """The rows of a RecordBatch or Table as one `pyarrow.RecordBatch` in the schema of batches. A missing key
    is null, a missing timestamp is now. Raises InvalidArgumentError."""
    if not isinstance(records, pa.RecordBatch | pa.Table):
        raise InvalidArgumentError(
            f"send_arrow takes a pyarrow RecordBatch or Table, not {type(records).__name__}"
        )
    unknown = [name for name in records.schema.names if name not in _KNOWN]
    if unknown or "value" not in records.schema.names:
        raise InvalidArgumentError(
            f"send_arrow takes the columns {', '.join(_KNOWN)}, of which value must be there; "
            f"this table has {', '.join(records.schema.names)}"
        )
    count = records.num_rows
    schema = body.SCHEMA_WITH_HEADERS if "headers" in records.schema.names else body.SCHEMA
    try:
        columns = [
            _column(records, name, count, now_us).cast(schema.field(name).type) for name in schema.names
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"a column cannot be used: {error}") from error
    if columns[2].null_count:
        raise InvalidArgumentError(
            "the column timestamp has nulls; give every row one, or leave the column out"
        )
    if count and pc.min(columns[2].view(pa.int64())).as_py() < 0:
        raise InvalidArgumentError("the column timestamp has times before 1970")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(records: Any, name: str, count: int, now_us: int) -> Any:
    if name not in records.schema.names:
        if name == "key":
            return pa.nulls(count, pa.binary())
        assert name == "timestamp", "value was checked before, headers only where it is there"
        return pa.repeat(pa.scalar(now_us, pa.int64()), count)
    column = records.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):
        raise InvalidArgumentError(f"the column {name} is over 2 GiB; send it in parts")
    return column


def by_partition(
    rows: Any, partition_count: int, partition_of: Callable[[bytes], int]
) -> Iterator[tuple[int | None, Any]]:
    """Divide rows by key: (partition, its rows in their order), and (None, rows without a key).
    `partition_of` is called once for each different key."""
    keys = rows.column(0)
    if keys.null_count == len(keys):
        yield None, rows
        return
    encoded = keys.dictionary_encode()
    targets = pa.array([partition_of(key) for key in encoded.dictionary.to_pylist()], pa.int32())
    # Rows without a key go behind all partitions.
    partitions = pc.fill_null(targets.take(encoded.indices), partition_count)
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(partitions).to_pylist()}
    if len(counts) == 1:
        (only,) = counts
        yield (None if only == partition_count else only), rows
        return
    # The sort is stable, so the order of each key's rows stays.
    sorted_rows = rows.take(pc.array_sort_indices(partitions))
    at = 0
    for partition in sorted(counts):
        yield (None if partition == partition_count else partition), sorted_rows.slice(at, counts[partition])
        at += counts[partition]


def cut(rows: Any, limit_bytes: int) -> Iterator[tuple[Any, int]]:
    """Cut rows into batches of at most this size: (rows, size in bytes). A row that is larger comes alone."""
    count = rows.num_rows
    if count == 0:
        return
    room = max(1, limit_bytes - BATCH_OVERHEAD_BYTES)
    # Parts of one size: a full batch and a small rest would cost a request's overhead for the rest.
    step = -(-count // -(-rows.nbytes // room)) if rows.nbytes > room else count
    at = 0
    while at < count:
        part = rows.slice(at, step)
        if part.nbytes > room and part.num_rows > 1:
            yield from cut(part, limit_bytes) if part.num_rows < count else _halves(part, limit_bytes)
        else:
            yield part, part.nbytes + BATCH_OVERHEAD_BYTES
        at += step


def _halves(rows: Any, limit_bytes: int) -> Iterator[tuple[Any, int]]:
    middle = rows.num_rows // 2
    yield from cut(rows.slice(0, middle), limit_bytes)
    yield from cut(rows.slice(middle), limit_bytes)
