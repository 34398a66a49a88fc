"""The body of a record batch: columns to bytes and back, by Arrow.

Services import this lazily, where a record has to be looked at (plain records, offsets by timestamp); the
SDK uses it for every batch. Nothing here loops over records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hightide.batch.arrow_metadata import DECODED_SIZE_BYTES_MAX, read_layout
from hightide.batch.checksum import crc32c
from hightide.batch.errors import BatchTooLarge, CorruptBatch, InvalidBatch
from hightide.batch.header import (
    CRC_COVERS_FROM,
    HEADER_SIZE_BYTES,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    TIMESTAMP_US_MAX,
    BatchHeader,
    Buffer,
    Compression,
    parse,
    verify_crc,
)

__all__ = [
    "HEADERS_TYPE",
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "TIMESTAMP_TYPE",
    "EncodedBatch",
    "decode",
    "encode",
    "first_at_or_after",
]

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", TIMESTAMP_TYPE)])
SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", HEADERS_TYPE))

_CODEC_NAMES: Final = {Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}
_MESSAGE_PREFIX: Final = struct.Struct("<Ii")


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch as its header and the buffers to send, to be joined once with the bytes before them."""

    header: BatchHeader
    parts: tuple[Buffer, ...]

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch."""
        return self.header.size_bytes

    def to_bytes(self) -> bytes:
        """The whole batch in one piece; copies it."""
        return b"".join(self.parts)


def encode(
    columns: Any,
    *,
    topic_id: bytes,
    partition: int,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> EncodedBatch:
    """Make a batch of a `pyarrow.RecordBatch` with the columns of SCHEMA or SCHEMA_WITH_HEADERS, in that
    order.

    Called by producers once a batch, and by a broker for plain records. The columns are not copied unless
    compressed; the base offset and the leader epoch are left for the leader to stamp. Raises InvalidBatch
    for another schema, for no rows, and for a null timestamp.
    """
    if not isinstance(columns, pa.RecordBatch):
        raise InvalidBatch(f"a batch is made of a pyarrow.RecordBatch, not of {type(columns).__name__}")
    has_headers = columns.num_columns == len(SCHEMA_WITH_HEADERS)
    if not columns.schema.equals(SCHEMA_WITH_HEADERS if has_headers else SCHEMA, check_metadata=False):
        raise InvalidBatch(f"a batch has the columns {SCHEMA_WITH_HEADERS.names}, not {columns.schema}")
    timestamps = columns.column(2)
    if columns.num_rows < 1 or timestamps.null_count:
        raise InvalidBatch(
            f"{columns.num_rows} records with {timestamps.null_count} null timestamps make no batch"
        )
    timestamps_us = timestamps.view(pa.int64())
    body = memoryview(_serialise(columns, compression))
    header = BatchHeader(
        base_offset=0,
        length_bytes=HEADER_SIZE_BYTES - 12 + len(body),
        leader_epoch=NO_EPOCH,
        crc=0,
        topic_id=topic_id,
        partition=partition,
        attributes=compression | (0b100 if has_headers else 0),
        producer_epoch=producer_epoch,
        producer_id=producer_id,
        base_sequence=base_sequence,
        record_count=columns.num_rows,
        first_timestamp_us=timestamps_us[0].as_py(),
        max_timestamp_us=pc.max(timestamps_us).as_py(),
    )
    return _with_crc(header, body)


def _with_crc(header: BatchHeader, body: memoryview) -> EncodedBatch:
    """The batch with its CRC, which covers the header from the topic id on and the body, and so is only known
    now."""
    packed = bytearray(header.pack())
    crc = crc32c(body, crc32c(packed[CRC_COVERS_FROM:]))
    struct.pack_into("<I", packed, 20, crc)
    return EncodedBatch(parse(packed), (bytes(packed), body))


def _serialise(columns: Any, compression: Compression) -> Any:
    """One Arrow IPC message without schema."""
    if compression is Compression.NONE:
        return columns.serialize()
    # RecordBatch.serialize knows no compression, so a stream is written and its first message, the schema,
    # left out.
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=_CODEC_NAMES[compression])
    writer = pa.ipc.new_stream(sink, columns.schema, options=options)
    writer.write_batch(columns)
    stream = sink.getvalue()
    _, schema_size = _MESSAGE_PREFIX.unpack_from(stream, 0)
    return stream[_MESSAGE_PREFIX.size + schema_size :]


def decode(
    batch: Buffer, *, check_crc: bool = True, decoded_size_bytes_max: int = DECODED_SIZE_BYTES_MAX
) -> Any:
    """The columns of one whole batch, as a `pyarrow.RecordBatch` over the batch's own bytes where not
    compressed.

    Called by consumers once a batch. `batch` must outlive the result. Timestamps are the records' own: if the
    header has others, brokers find the batch under a wrong time, but it can still be read. Raises
    CorruptBatch, InvalidBatch, UnsupportedMagic, and BatchTooLarge where decompressing would take more than
    `decoded_size_bytes_max`.
    """
    view = memoryview(batch)
    header = parse(view)
    if header.size_bytes != len(view):
        raise CorruptBatch(f"a batch of {header.size_bytes} bytes came as {len(view)} bytes")
    if check_crc:
        verify_crc(view, 0, header)
    message = view[HEADER_SIZE_BYTES:]
    layout = read_layout(message)
    if layout.decoded_size_bytes > decoded_size_bytes_max:
        raise BatchTooLarge(
            f"the batch takes {layout.decoded_size_bytes} bytes when decompressed, "
            f"the limit is {decoded_size_bytes_max}"
        )
    if layout.has_headers != header.has_headers or layout.row_count != header.record_count:
        raise InvalidBatch("the header and the body of the batch differ")
    schema = SCHEMA_WITH_HEADERS if header.has_headers else SCHEMA
    try:
        columns = pa.ipc.read_record_batch(pa.py_buffer(message), schema)
        # The lengths inside the buffers come from the sender; a false one would let a reader run past their
        # end.
        columns.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise InvalidBatch(f"the body of the batch is no Arrow record batch: {error}") from error
    times = pc.min_max(columns.column(2).view(pa.int64())).as_py()
    if not 0 <= times["min"] <= times["max"] <= TIMESTAMP_US_MAX:
        raise InvalidBatch(
            f"the records have timestamps from {times['min']} to {times['max']} us; they may be from 0 to "
            f"{TIMESTAMP_US_MAX}"
        )
    return columns


def first_at_or_after(batch: Buffer, timestamp_us: int, place_min: int = 0) -> tuple[int, int] | None:
    """Place in the batch, from `place_min` on, and timestamp in us, of the first record at or after a
    timestamp; None where all are before.

    Called by a broker for the one batch that ListOffsets by timestamp ends at. Raises as `decode`.
    """
    timestamps_us = decode(batch).column(2).view(pa.int64())
    late_enough = pc.greater_equal(timestamps_us, timestamp_us).slice(place_min)
    found = pc.index(late_enough, True).as_py()
    return None if found < 0 else (place_min + found, timestamps_us[place_min + found].as_py())
