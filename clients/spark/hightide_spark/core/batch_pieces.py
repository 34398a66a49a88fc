"""The division of an Arrow batch into pieces of limited size, for the source and the sink."""

from collections.abc import Iterator
from typing import Any


def pieces(batch: Any, limit_bytes: int) -> Iterator[Any]:
    """Cut a `pyarrow.RecordBatch` into slices with the same number of rows, of about `limit_bytes` at most. A
    slice can be larger if rows differ much in size. A batch without rows has no slices."""
    count = max(1, -(-batch.nbytes // limit_bytes))
    row_count = max(1, -(-batch.num_rows // count))
    return (batch.slice(at, row_count) for at in range(0, batch.num_rows, row_count))
