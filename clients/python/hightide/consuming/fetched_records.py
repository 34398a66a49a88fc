"""The records that a consumer returns: fetched batches as records, or as Arrow. Shared by threads and
asyncio.

A chunk is opened whole, and records are made of it when they are looked at. The rest of it stays here, so
that poll(), iteration and poll_arrow() can be mixed and each goes on where the last one stopped.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hightide.batch import body
from hightide.calls.notice import Notice
from hightide.consuming.columnar_records import ColumnarRecords, RecordColumns
from hightide.consuming.corrupt_batches import CorruptBatches
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.poison_records import PoisonRecords
from hightide.consuming.read_ahead import ReadAhead
from hightide.errors import CorruptBatchError
from hightide.records import Record, TopicPartition

# Small batches are put together up to this size, so that a poll_arrow() is worth its call.
ARROW_GATHER_BYTES: Final = 1 << 20
ARROW_GATHER_CHUNKS: Final = 1024
#: A poll() for at most so many records gets them as a list.
FEW_RECORDS: Final = 64

_LEADING: Final = (("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()))
ARROW_SCHEMA: Final = pa.schema(
    [*_LEADING, ("timestamp", body.TIMESTAMP_TYPE), ("key", pa.binary()), ("value", pa.binary())]
)
ARROW_SCHEMA_WITH_HEADERS: Final = ARROW_SCHEMA.append(pa.field("headers", body.HEADERS_TYPE))

_NO_RECORDS: Final = ColumnarRecords()


class RecordsInDelivery:
    """The rest of the chunk that is being returned. Needs no lock, because one thread uses the consumer."""

    def __init__(self, core: ReadAhead, report: Callable[[Notice], None]) -> None:
        self._core = core
        self._report = report
        self.corrupt = CorruptBatches(core.settings.on_corrupt_batch, report)
        self.poison = PoisonRecords(core.settings.on_corrupt_batch, report)
        self._chunk: FetchedBatch | None = None
        self._records = _NO_RECORDS
        self._at = 0
        self._settled_at = 0
        self._is_iterated = False
        self._is_interrupted = False

    def beside(self) -> "RecordsInDelivery":
        """Another one of the same consumer, for another user. What is left out is counted together."""
        other = RecordsInDelivery(self._core, self._report)
        other.corrupt, other.poison = self.corrupt, self.poison
        return other

    @property
    def partition(self) -> TopicPartition | None:
        """The partition whose records are being returned, if any."""
        return None if self._chunk is None else self._chunk.partition

    @property
    def next_offset(self) -> int:
        """The offset after the delivered records of the partition's chunk."""
        assert self._chunk is not None, "a chunk is being handed out"
        return self._chunk.header.base_offset + self._chunk.skip + self._at

    def settle(self) -> None:
        """Report to the core how far the records were returned. Called with the lock, before positions
        matter."""
        if self._chunk is not None:
            self._core.handed_out(self._chunk, self.next_offset)

    def give_up(self) -> None:
        """Return the rest to the core. Called with the lock, before a seek and before poll_arrow()."""
        chunk, self._chunk = self._chunk, None
        self._is_interrupted = False
        if chunk is None:
            return
        chunk.skip += self._at
        self._core.handed_out(chunk, chunk.header.base_offset + chunk.skip)
        if chunk.skip < chunk.header.record_count:
            self._core.put_back(chunk)
        self._records, self._at, self._settled_at = _NO_RECORDS, 0, 0

    def interrupt(self) -> None:
        """Let `iterate` stop after the record that the user has in hand, so that the user comes back. Called
        with the lock, from any thread."""
        self._is_interrupted = True

    @property
    def is_interrupted(self) -> bool:
        """Whether the rest of the chunk must not be delivered before a check."""
        return self._is_interrupted

    def settled_offset(self, partition: TopicPartition) -> int | None:
        """The offset up to which the user is done with the records of a partition whose chunk is being
        iterated: below the record that the user has. Called with the lock, from any thread."""
        chunk = self._chunk
        if chunk is None or chunk.partition != partition or not self._core.is_current(chunk):
            return None
        if not self._is_iterated:
            # One poll() may have returned earlier chunks too, all of which the user still has.
            return None
        return chunk.header.base_offset + chunk.skip + self._settled_at

    def begin(self, chunk: FetchedBatch) -> None:
        """Return this chunk's records next. If the chunk is left out, there are none, and the position moves
        past it. Raises CorruptBatchError."""
        assert not self.has_records, "one chunk after the other"
        columns = self.corrupt.opened(chunk)
        if columns is None:
            self._records, self._at = _NO_RECORDS, chunk.header.record_count - chunk.skip
            self._settled_at, self._is_iterated = self._at, False
            self._chunk = chunk
            return
        place, first_offset = chunk.partition, chunk.header.base_offset + chunk.skip
        self._records = ColumnarRecords([RecordColumns(place.topic, place.partition, first_offset, columns)])
        # In this order: another thread may ask for the settled offset meanwhile.
        self._at = self._settled_at = 0
        self._is_iterated = False
        self._chunk = chunk

    @property
    def has_records(self) -> bool:
        """Whether records of the current chunk are left."""
        return self._at < len(self._records)

    def take(self, count_max: int, *, is_few: bool = False) -> Sequence[Record]:
        """The next records of the current chunk; perhaps none, if all of them are left out. With `is_few`,
        more takes follow before the chunk is gone. Raises DeserializationError and other errors of a
        deserializer, if it is the first that cannot be read."""
        assert count_max > 0, "nobody asks for nothing"
        if self.poison.deserialize is not None:
            opened, passed = self.poison.opened_all(self._records[self._at : self._at + count_max])
            self._at += passed
            return opened
        taken: Sequence[Record]
        if is_few and self._at < len(self._records):
            first, ready = self._records.around(self._at)
            taken = ready[self._at - first : self._at - first + count_max]
        else:
            taken = self._records[self._at : self._at + count_max]
        self._at += len(taken)
        return taken

    def iterate(self) -> Iterator[Record]:
        """Yield the rest of the current chunk, one by one; a caller that stops in the middle loses no
        record. Raises as take()."""
        records = self._records
        first, ready = 0, list[Record]()
        self._settled_at, self._is_iterated = self._at, True
        while self._at < len(records) and not self._is_interrupted:
            if not first <= self._at < first + len(ready):
                first, ready = records.around(self._at)
            record: Record | None = ready[self._at - first]
            if self.poison.deserialize is not None:
                assert record is not None, "it is one of the chunk's"
                record = self.poison.opened(record)
            self._at += 1
            if record is not None:
                yield record
            if records is not self._records:
                return
            # A caller that asks for the next record is done with this one.
            self._settled_at = self._at

    def as_arrow(self, chunks: list[FetchedBatch]) -> tuple[Any, list[FetchedBatch]]:
        """Chunks of one partition as one RecordBatch, and the chunks to put back: if one cannot be read, that
        one and those after it, so that the user gets all before it. Raises CorruptBatchError if it is the
        first."""
        tables: list[Any] = []
        for at, chunk in enumerate(chunks):
            try:
                columns = self.corrupt.opened(chunk)
            except CorruptBatchError:
                if at == 0:
                    raise
                return _joined(tables), chunks[at:]
            if columns is not None:
                tables.append(_arrow(chunk, columns))
        return _joined(tables), []


def _joined(tables: list[Any]) -> Any:
    if not tables:
        return _empty()
    return tables[0] if len(tables) == 1 else pa.concat_batches(tables)


def _empty() -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in ARROW_SCHEMA], schema=ARROW_SCHEMA
    )


class _Counting:
    """The numbers 0, 1, 2, … as an Arrow array, made once and sliced."""

    def __init__(self) -> None:
        # Not pa.array(): the first one in a process imports pandas, if it is there.
        self._numbers = pa.Array.from_buffers(pa.int64(), 1024, [None, pa.py_buffer(array("q", range(1024)))])

    def up_to(self, count: int) -> Any:
        while len(self._numbers) < count:
            self._numbers = pa.concat_arrays([self._numbers, pc.add(self._numbers, len(self._numbers))])
        return self._numbers.slice(0, count)


_counting = _Counting()


@lru_cache(maxsize=16)
def _place(partition: TopicPartition, count: int) -> tuple[Any, Any]:
    """The columns topic and partition of so many rows."""
    return (
        pa.repeat(partition.topic, count),
        pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
    )


def _arrow(chunk: FetchedBatch, columns: Any) -> Any:
    count = columns.num_rows
    offsets = pc.add(_counting.up_to(count), chunk.header.base_offset + chunk.skip)
    # Of few different sizes, so that most batches share what is there already.
    topics, partitions = _place(chunk.partition, 1 << count.bit_length())
    arrays = [
        topics.slice(0, count),
        partitions.slice(0, count),
        offsets,
        columns.column(2),
        columns.column(0),
        columns.column(1),
    ]
    if columns.num_columns > 3:
        return pa.RecordBatch.from_arrays([*arrays, columns.column(3)], schema=ARROW_SCHEMA_WITH_HEADERS)
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def gather(core: ReadAhead) -> list[FetchedBatch]:
    """The chunks for one poll_arrow(): the next one, and as many small ones after it as belong to the same
    partition. Called with the lock."""
    first = core.next_chunk()
    if first is None:
        return []
    chunks = [first]
    size_bytes = len(first.batch)
    while size_bytes < ARROW_GATHER_BYTES and len(chunks) < ARROW_GATHER_CHUNKS:
        following = core.next_chunk()
        if following is None:
            break
        is_fit = (
            following.partition == first.partition
            and following.header.has_headers == first.header.has_headers
            and size_bytes + len(following.batch) <= ARROW_GATHER_BYTES
        )
        if not is_fit:
            core.put_back(following)
            break
        chunks.append(following)
        size_bytes += len(following.batch)
    return chunks
