"""ProduceRecords and FetchRecords: single records, for grpcurl and for clients without Arrow.

No other module of the broker opens a batch. The first call imports pyarrow. The work runs on the disk's
thread, so that building a batch of 10,000 records delays no other request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hightide.batch.errors import BatchError, CorruptBatch
from hightide.batch.header import BatchHeader, iterate, verify_crc
from hightide.batch.wire import ProducePartition, ProduceRequest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.throttle import Throttle
from hightide_runtime.serving.fair_limit import Holder

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract.data_calls import (
    FetchCall,
    FetchFrom,
    PartitionRefused,
    PlainRecord,
    PlainRecordsRead,
)
from hightide_broker.data.fetch import FetchHandler
from hightide_broker.data.produce import ProduceHandler
from hightide_broker.limits import PLAIN_RECORDS_DEFAULT, PLAIN_RECORDS_MAX

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

FETCH_BYTES: int = 1024 * 1024


class PlainRecords:
    """Answers ProduceRecords and FetchRecords by way of Produce and Fetch. One for each broker."""

    def __init__(
        self, clock: Clock, producing: ProduceHandler, fetching: FetchHandler, worker: Executor
    ) -> None:
        self._clock = clock
        self._producing = producing
        self._fetching = fetching
        self._worker = worker

    async def produce(
        self,
        key: PartitionKey,
        records: Sequence[PlainRecord],
        acks: int,
        timeout_ms: int,
        peer: Holder,
        throttle: Throttle | None = None,
    ) -> int:
        """Append the records as one batch, and return the offset of the first. Raises ServiceError."""
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
        request = ProduceRequest(acks, timeout_ms, (asked,))
        (outcome,) = await self._producing.produce(request, peer, throttle)
        if isinstance(outcome, PartitionRefused):
            raise outcome.as_service_error()
        return outcome.base_offset

    async def fetch(
        self,
        key: PartitionKey,
        offset: int,
        max_records: int,
        max_wait_ms: int,
        peer: Holder,
        throttle: Throttle | None = None,
        *,
        skips_corrupt: bool = False,
    ) -> PlainRecordsRead:
        """Read records from `offset` on, and wait if there are none. `skips_corrupt`: leave out and count
        batches that no reader can open. Raises ServiceError."""
        limit = max_records or PLAIN_RECORDS_DEFAULT
        if not 1 <= limit <= PLAIN_RECORDS_MAX:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"max_records is {max_records}; it may be 1 to {PLAIN_RECORDS_MAX}, or 0 for the default",
            )
        call = FetchCall(max_wait_ms, 1, FETCH_BYTES, (FetchFrom(key, -1, offset, FETCH_BYTES),))
        (read,) = await self._fetching.fetch(call, peer, throttle)
        if read.refused is not None:
            raise read.refused.as_service_error()
        loop = asyncio.get_running_loop()
        try:
            opened = await loop.run_in_executor(
                self._worker, open_batches, b"".join(read.batches), offset, limit, skips_corrupt
            )
        except UnreadableBatch as error:
            raise ServiceError(error.code, str(error), error.facts) from error
        except BatchError as error:
            raise ServiceError(error.code, f"the batch at offset {offset} cannot be read: {error}") from error
        self._fetching.check_room(peer, sum(record.size_bytes for _, record in opened.records))
        return PlainRecordsRead(
            tuple(opened.records),
            read.high_watermark,
            opened.next_offset,
            opened.skipped_batch_count,
            opened.skipped_record_count,
        )


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


class UnreadableBatch(BatchError):
    """A batch whose bytes are as they were written, and that no reader can open."""

    code = ErrorCode.ERROR_CODE_INVALID_BATCH

    def __init__(self, first: int, next_offset: int, why: BatchError) -> None:
        super().__init__(
            f"the batch with the offsets {first} to {next_offset - 1} cannot be read: {why}; to leave it "
            f"out, fetch from {next_offset}, or set on_corrupt_batch to SKIP"
        )
        self.facts = {"base_offset": str(first), "next_offset": str(next_offset)}


@dataclass(slots=True)
class OpenedRecords:
    """The records of batches, and the offset at which to continue."""

    next_offset: int
    records: list[tuple[int, PlainRecord]] = field(default_factory=list)
    skipped_batch_count: int = 0
    skipped_record_count: int = 0


def open_batches(batches: bytes, offset: int, limit: int, skips_corrupt: bool) -> OpenedRecords:
    """Up to `limit` records of these batches from an offset on, and the offset at which to continue.

    With `skips_corrupt`, a batch that no reader can open is left out and counted. Otherwise it is an error,
    as a batch with changed bytes always is. The records before it are returned first. Runs on the worker's
    thread. Raises UnreadableBatch, and CorruptBatch if bytes have changed.
    """
    found = OpenedRecords(offset)
    view = memoryview(batches)
    for at, header in iterate(view):
        skip = max(0, offset - header.base_offset)
        try:
            verify_crc(view, at, header)
            rows = _rows(view[at : at + header.size_bytes], header)
        except UnreadableBatch as unreadable:
            if not skips_corrupt and not found.records:
                raise
            if not skips_corrupt:
                break
            log.warning("%s: left out, as its reader wants", unreadable)
            found.skipped_batch_count += 1
            found.skipped_record_count += header.record_count - skip
            found.next_offset = header.next_offset
            continue
        except CorruptBatch:
            if not found.records:
                raise
            break
        found.records += _records(rows.slice(skip, limit - len(found.records)), header, skip)
        if len(found.records) >= limit:
            found.next_offset = found.records[-1][0] + 1
            break
        found.next_offset = header.next_offset
    return found


def _rows(batch: memoryview, header: BatchHeader) -> Any:
    from hightide.batch import body

    try:
        return body.decode(batch, check_crc=False)
    except BatchError as error:
        raise UnreadableBatch(header.base_offset, header.next_offset, error) from error


def _records(rows: Any, header: BatchHeader, skipped: int) -> Iterator[tuple[int, PlainRecord]]:
    import pyarrow as pa

    timestamps = rows.column(2).view(pa.int64()).to_pylist()
    headers = rows.column(3).to_pylist() if header.has_headers else [None] * len(rows)
    columns = zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), timestamps, headers, strict=True)
    for place, (key, value, timestamp_us, pairs) in enumerate(columns, header.base_offset + skipped):
        named = tuple((pair["key"], pair["value"]) for pair in pairs or ())
        yield place, PlainRecord(key, value, timestamp_us, named)
