"""Reads records for a page: bounded in records, bytes and time, whatever is in the log. Runs in threads."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from hightide import RangeBatch, RangeReader, Record, TopicPartition
from hightide.aio import Admin
from hightide.moments import moment_at
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.records.ranges import records_in
from hightide_cli.topic.grep import Wanted, matching_rows

from hightide_console.settings import READS_AT_ONCE_MAX, SEARCH_BYTES_MAX, SEARCH_SECONDS_MAX
from hightide_console.views.record_query import Match, ReadRange, RecordQuery, Start, partitions_of, ranges_of

_UNAVAILABLE_TIMEOUT_MS = 4_000
_FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """What was found. `read_count` records were looked at; `next_offsets` says where to go on, by each
    partition that has more."""

    records: tuple[Record, ...]
    read_count: int
    next_offsets: dict[int, int]


class RecordReading:
    """Reads ranges of topics; one for a console, which keeps its connections."""

    def __init__(self, admin: Admin, arguments: ClientArguments) -> None:
        self._admin = admin
        self._turns = asyncio.Semaphore(READS_AT_ONCE_MAX)
        self._reader = RangeReader(
            **arguments,
            client_id="hightide-console",
            fetch_max_bytes=_FETCH_BYTES,
            prefetch_bytes=_FETCH_BYTES,
            unavailable_timeout_ms=_UNAVAILABLE_TIMEOUT_MS,
            on_corrupt_batch="skip",
        )

    async def read(self, topic: str, query: RecordQuery) -> RecordsRead:
        """The records that a question asks for, in the order of their time. Raises HightideError, and
        ValueError for an expression that RE2 cannot read."""
        (described,) = await self._admin.describe_topics([topic])
        places = [TopicPartition(topic, each) for each in partitions_of(query, len(described.partitions))]
        if not places:
            return RecordsRead((), 0, next_offsets={})
        earliest = await self._admin.list_offsets(places, "earliest")
        latest = await self._admin.list_offsets(places, "latest")
        at_time: dict[int, int | None] = {}
        if query.start is Start.TIME:
            found = await self._admin.list_offsets(places, moment_at(query.at))
            at_time = {place.partition: offset for place, offset in found.items()}
        ranges = ranges_of(
            query,
            {place.partition: offset or 0 for place, offset in earliest.items()},
            {place.partition: offset or 0 for place, offset in latest.items()},
            at_time,
        )
        async with self._turns:
            return await asyncio.to_thread(self._read, topic, described.topic_id, query, ranges)

    async def one(self, topic: str, partition: int, offset: int) -> Record | None:
        """One record by its place, or None if there is none. Raises HightideError."""
        (described,) = await self._admin.describe_topics([topic])
        if partition >= len(described.partitions):
            return None
        place = TopicPartition(topic, partition)
        earliest = (await self._admin.list_offsets([place], "earliest"))[place] or 0
        latest = (await self._admin.list_offsets([place], "latest"))[place] or 0
        if not earliest <= offset < latest:
            return None
        ranges = [ReadRange(partition, offset, offset + 1)]
        async with self._turns:
            read = await asyncio.to_thread(self._read, topic, described.topic_id, RecordQuery(), ranges)
        return next(iter(read.records), None)

    def close(self) -> None:
        """Close all connections."""
        self._reader.close()

    def _read(self, topic: str, topic_id: bytes, query: RecordQuery, ranges: list[ReadRange]) -> RecordsRead:
        def batches_of(wanted: ReadRange) -> Iterable[RangeBatch]:
            return self._reader.read(topic, topic_id, wanted.partition, wanted.start, wanted.end)

        return records_of(topic, query, ranges, batches_of)


def records_of(
    topic: str,
    query: RecordQuery,
    ranges: Iterable[ReadRange],
    batches_of: Callable[[ReadRange], Iterable[RangeBatch]],
    monotonic: Callable[[], float] = time.monotonic,
) -> RecordsRead:
    """Read the ranges one after another, and keep what a page shows. A search for the newest records reads
    each range to its end; any other stops where it has found enough, and goes on there: whoever follows the
    links sees each record that matches. Raises as `RangeReader.read`."""
    end_s = monotonic() + SEARCH_SECONDS_MAX
    is_newest = query.start is Start.NEWEST
    found: list[Record] = []
    next_offsets: dict[int, int] = {}
    read_count = size_bytes = 0
    is_over = False
    for wanted in ranges:
        own: deque[Record] = deque(maxlen=query.limit)
        next_offset = wanted.start
        for batch in () if is_over else batches_of(wanted):
            rows = _rows(batch, query)
            next_offset = batch.base_offset + batch.rows.num_rows
            room = query.limit - len(own)
            if len(rows) > room and not is_newest:
                next_offset, rows = batch.base_offset + rows[room], rows[:room]
            own.extend(records_in(topic, wanted.partition, batch, rows[-query.limit :]))
            read_count += batch.rows.num_rows
            size_bytes += batch.rows.nbytes
            is_over = size_bytes >= SEARCH_BYTES_MAX or monotonic() > end_s
            if is_over or (query.is_search and not is_newest and len(own) == query.limit):
                break
        else:
            # A batch that cannot be opened is left out, also the last one.
            next_offset = next_offset if is_over else wanted.end
        if next_offset < wanted.end or (query.is_search and wanted.is_cut):
            next_offsets[wanted.partition] = next_offset
        found.extend(own)
    found.sort(key=lambda each: (each.timestamp_us, each.partition, each.offset))
    if is_newest:
        return RecordsRead(tuple(found[-query.limit :]), read_count, next_offsets)
    if query.is_search or next_offsets:
        for each in found[query.limit :]:
            next_offsets[each.partition] = min(each.offset, next_offsets.get(each.partition, each.offset))
    return RecordsRead(tuple(found[: query.limit]), read_count, next_offsets)


def _rows(batch: RangeBatch, query: RecordQuery) -> list[int]:
    """The rows of a batch that the question asks for."""
    match query.match:
        case Match.ALL:
            return list(range(batch.rows.num_rows))
        case Match.KEY:
            wanted_key = pa.scalar(query.text.encode(), pa.binary())
            hits = pc.fill_null(pc.equal(batch.rows.column(0), wanted_key), False)
            rows: list[int] = pc.indices_nonzero(hits).to_pylist()
            return rows
        case Match.CONTAINS | Match.PATTERN:
            is_fixed = query.match is Match.CONTAINS
            return matching_rows(batch, Wanted(query.text, is_fixed=is_fixed, in_headers=True))
