"""From the log's record batches to the Arrow batches that Spark takes: no row is touched.

Key, value, timestamp and headers are the log's own columns; where one batch is big enough they are not even
copied. Small batches are put together and very large ones cut, since Spark is fastest at 1 to 8 MB a batch.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hightide.range_reader import RangeBatch

from hightide_spark.core.schema import HEADERS_ARROW_TYPE

BATCH_BYTES_MIN: Final = 1 << 20
BATCH_BYTES_MAX: Final = 8 << 20

_CREATE_TIME: Final = 0  # of Kafka's timestamp types; producers set the timestamps here


class _Repeated:
    """A column with the same value in every row."""

    def __init__(self, value: Any, arrow_type: Any) -> None:
        self._value = pa.scalar(value, arrow_type)
        self._made = pa.repeat(self._value, 0)

    def column(self, row_count: int) -> Any:
        if len(self._made) < row_count:
            self._made = pa.repeat(self._value, row_count)
        return self._made.slice(0, row_count)


class SparkRows:
    """Makes Spark's batches for one partition. `columns` are names of `core.schema`; `schema` is the Arrow
    schema that Spark wants, field by field for them."""

    def __init__(self, topic: str, partition: int, columns: tuple[str, ...], schema: Any) -> None:
        self._columns = columns
        self._schema = schema
        self._repeated = {
            "topic": _Repeated(topic, pa.string()),
            "partition": _Repeated(partition, pa.int32()),
            "timestampType": _Repeated(_CREATE_TIME, pa.int32()),
        }

    def batches(self, read: Iterable[RangeBatch]) -> Iterator[Any]:
        """`pyarrow.RecordBatch`es for Spark, in the order of the log."""
        waiting: list[Any] = []
        first = end = size_bytes = 0
        for batch in read:
            offset = batch.base_offset
            for rows in _cut(batch.rows):
                row_bytes = rows.nbytes
                if waiting and (offset != end or size_bytes + row_bytes > BATCH_BYTES_MAX):
                    yield self._joined(waiting, first, end - first)
                    waiting = []
                if not waiting:
                    first, size_bytes = offset, 0
                waiting.append(rows)
                size_bytes += row_bytes
                end = offset = offset + rows.num_rows
                if size_bytes >= BATCH_BYTES_MIN:
                    yield self._joined(waiting, first, end - first)
                    waiting = []
        if waiting:
            yield self._joined(waiting, first, end - first)

    def _joined(self, waiting: list[Any], first: int, row_count: int) -> Any:
        columns = [self._column(name, waiting, first, row_count) for name in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, waiting: list[Any], first: int, row_count: int) -> Any:
        if name == "offset":
            return pa.array(np.arange(first, first + row_count, dtype=np.int64))
        if name in self._repeated:
            return self._repeated[name].column(row_count)
        pieces = [_headers(rows) if name == "headers" else rows.column(name) for rows in waiting]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _cut(rows: Any) -> Iterator[Any]:
    """The rows in pieces of at most BATCH_BYTES_MAX, as far as rows of about the same size can tell."""
    count = -(-rows.nbytes // BATCH_BYTES_MAX)
    size = -(-rows.num_rows // max(1, count))
    for at in range(0, rows.num_rows, size):
        yield rows.slice(at, size)


def _headers(rows: Any) -> Any:
    """The headers; null where a record has none, as in Spark's Kafka source."""
    if "headers" not in rows.schema.names:
        return pa.nulls(rows.num_rows, HEADERS_ARROW_TYPE)
    headers = rows.column("headers").cast(HEADERS_ARROW_TYPE)
    lengths = pc.list_value_length(headers)
    if pc.any(pc.equal(lengths, 0)).as_py():
        return pc.if_else(pc.greater(lengths, 0), headers, pa.scalar(None, HEADERS_ARROW_TYPE))
    return headers
