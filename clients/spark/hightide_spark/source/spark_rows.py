"""The conversion of the log's record batches into Arrow batches for Spark, by columns and never by rows.

Key, value, timestamp and headers are the log's own columns, which are not copied if one batch is large
enough. Small batches are joined and very large ones are cut, since Spark is fastest at 1 to 8 MB a batch.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hightide_spark.core.arrow_columns import HEADERS_ARROW_TYPE
from hightide_spark.core.batch_pieces import pieces

if TYPE_CHECKING:
    from hightide.range_reader import RangeBatch

BATCH_BYTES_MIN: Final = 1 << 20
BATCH_BYTES_MAX: Final = 8 << 20

# Kafka's timestamp type for times that producers set, as all do here.
_CREATE_TIME: Final = 0


class _Repeated:
    """A column with the same value in every row. The longest one so far is kept and sliced."""

    def __init__(self, value: Any, arrow_type: Any) -> None:
        self._value = pa.scalar(value, arrow_type)
        self._made = pa.repeat(self._value, 0)

    def column(self, row_count: int) -> Any:
        if len(self._made) < row_count:
            self._made = pa.repeat(self._value, row_count)
        return self._made.slice(0, row_count)


class SparkRows:
    """Makes Spark's batches of one partition's records, in one task. `columns` are names of `core.schema`;
    `schema` is the Arrow schema that Spark wants, field by field for them."""

    def __init__(self, topic: str, partition: int, columns: tuple[str, ...], schema: Any) -> None:
        self._columns = columns
        self._schema = schema
        self._repeated = {
            "topic": _Repeated(topic, pa.string()),
            "partition": _Repeated(partition, pa.int32()),
            "timestampType": _Repeated(_CREATE_TIME, pa.int32()),
        }

    def batches(self, read: "Iterable[RangeBatch]") -> Iterator[Any]:
        """`pyarrow.RecordBatch`es for Spark, in the order of the log, with contiguous offsets each."""
        waiting: list[Any] = []
        first = end = size_bytes = 0
        for batch in read:
            offset = batch.base_offset
            for rows in pieces(batch.rows, BATCH_BYTES_MAX):
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
        columns = [_headers(rows) if name == "headers" else rows.column(name) for rows in waiting]
        return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _headers(rows: Any) -> Any:
    """The column `headers`; null for a record without headers, as in Spark's Kafka source."""
    if "headers" not in rows.schema.names:
        return pa.nulls(rows.num_rows, HEADERS_ARROW_TYPE)
    headers = rows.column("headers").cast(HEADERS_ARROW_TYPE)
    lengths = pc.list_value_length(headers)
    if pc.any(pc.equal(lengths, 0)).as_py():
        return pc.if_else(pc.greater(lengths, 0), headers, pa.scalar(None, HEADERS_ARROW_TYPE))
    return headers
