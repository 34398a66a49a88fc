"""ProduceRecords and FetchRecords: records one by one, for grpcurl and for clients without Arrow.

The only place of the broker that opens a batch; pyarrow is imported with the first call. It runs on
the disk's thread, so that building a batch of 10,000 records holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from hightide.batch.errors import BatchError
from hightide.batch.header import iterate
from hightide.batch.wire import ProducePartition, ProduceRequest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError

from hightide_broker.data_calls import FetchCall, FetchFrom, PlainRecord, PlainRecordsRead, Refused
from hightide_broker.decisions import PartitionKey
from hightide_broker.fetch import Fetching
from hightide_broker.limits import PLAIN_RECORDS_DEFAULT, PLAIN_RECORDS_MAX
from hightide_broker.produce import Producing

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_BYTES: int = 1024 * 1024


class PlainRecords:
    """Answers ProduceRecords and FetchRecords by way of Produce and Fetch. One for each broker."""

    def __init__(self, clock: Clock, producing: Producing, fetching: Fetching, worker: Executor) -> None:
        self._clock = clock
        self._producing = producing
        self._fetching = fetching
        self._worker = worker

    async def produce(
        self, key: PartitionKey, records: Sequence[PlainRecord], acks: int, timeout_ms: int
    ) -> int:
        """Append the records as one batch; the offset of the first. Raises ServiceError."""
        if not 1 <= len(records) <= PLAIN_RECORDS_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"the request has {len(records)} records; send 1 to {PLAIN_RECORDS_MAX}",
            )
        loop = asyncio.get_running_loop()
        try:
            batch = await loop.run_in_executor(self._worker, _encode, key, records, self._clock.wall_us())
        except BatchError as error:
            raise ServiceError(error.code, str(error)) from error
        asked = ProducePartition(key[0], key[1], -1, memoryview(batch))
        (outcome,) = await self._producing.produce(ProduceRequest(acks, timeout_ms, (asked,)))
        if isinstance(outcome, Refused):
            raise outcome.as_service_error()
        return outcome.base_offset

    async def fetch(
        self, key: PartitionKey, offset: int, max_records: int, max_wait_ms: int
    ) -> PlainRecordsRead:
        """Read records from `offset` on; where there is nothing, wait. Raises ServiceError."""
        limit = max_records or PLAIN_RECORDS_DEFAULT
        if not 1 <= limit <= PLAIN_RECORDS_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"max_records is {max_records}; say 1 to {PLAIN_RECORDS_MAX}, or 0",
            )
        call = FetchCall(max_wait_ms, 1, FETCH_BYTES, (FetchFrom(key, -1, offset, FETCH_BYTES),))
        (read,) = await self._fetching.fetch(call)
        if read.refused is not None:
            raise read.refused.as_service_error()
        loop = asyncio.get_running_loop()
        try:
            records = await loop.run_in_executor(self._worker, _decode, b"".join(read.batches), offset, limit)
        except BatchError as error:
            raise ServiceError(error.code, f"what is stored at offset {offset}: {error}") from error
        next_offset = records[-1][0] + 1 if records else offset
        return PlainRecordsRead(tuple(records), read.high_watermark, next_offset)


def _encode(key: PartitionKey, records: Sequence[PlainRecord], now_us: int) -> bytes:
    import pyarrow as pa
    from hightide.batch import body

    columns: list[Any] = [
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.timestamp_us or now_us for record in records], pa.int64()).cast(body.TIMESTAMP_TYPE),
    ]
    schema = body.SCHEMA
    if any(record.headers for record in records):
        schema = body.SCHEMA_WITH_HEADERS
        headers = [[{"key": k, "value": v} for k, v in record.headers] for record in records]
        columns.append(pa.array(headers, body.HEADERS_TYPE))
    batch: pa.RecordBatch = pa.RecordBatch.from_arrays(columns, schema=schema)
    return body.encode(batch, topic_id=key[0], partition=key[1]).to_bytes()


def _decode(batches: bytes, offset: int, limit: int) -> list[tuple[int, PlainRecord]]:
    import pyarrow as pa
    from hightide.batch import body

    found: list[tuple[int, PlainRecord]] = []
    view = memoryview(batches)
    for at, header in iterate(view):
        rows = body.decode(view[at : at + header.size_bytes])
        first = max(0, offset - header.base_offset)
        rows = rows.slice(first, limit - len(found))
        timestamps = rows.column(2).view(pa.int64()).to_pylist()
        headers = rows.column(3).to_pylist() if header.has_headers else [None] * len(rows)
        columns = zip(
            rows.column(0).to_pylist(), rows.column(1).to_pylist(), timestamps, headers, strict=True
        )
        for place, (key, value, timestamp_us, pairs) in enumerate(columns, header.base_offset + first):
            named = tuple((pair["key"], pair["value"]) for pair in pairs or ())
            found.append((place, PlainRecord(key, value, timestamp_us, named)))
        if len(found) >= limit:
            break
    return found
