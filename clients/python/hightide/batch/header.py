"""The fixed header of a record batch: reading it, stamping it, and checking a producer's batches.

Rules of this file: no pyarrow, no grpc, and no work per record. Whatever bytes come in, only a `BatchError`
comes out.

Theory of operation. A batch is an 80-byte little-endian header and one Arrow IPC record batch message. The
CRC covers everything from `topic_id` on: the producer's bytes, which nobody may change, and the partition
that they were meant for. Before it are the two fields that the leader stamps when it appends, base offset and
leader epoch, so that appending costs 12 written bytes instead of a second pass over the data.
docs/design/record-batch.md has the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from hightide.batch.arrow_metadata import DECODED_SIZE_BYTES_MAX, read_layout
from hightide.batch.checksum import crc32c
from hightide.batch.errors import BatchError, BatchTooLarge, CorruptBatch, InvalidBatch, UnsupportedMagic

__all__ = [
    "HEADER_SIZE_BYTES",
    "NO_EPOCH",
    "NO_PRODUCER",
    "NO_SEQUENCE",
    "STAMP_SIZE_BYTES",
    "TIMESTAMP_US_MAX",
    "BatchError",
    "BatchHeader",
    "BatchTooLarge",
    "Buffer",
    "Compression",
    "CorruptBatch",
    "InvalidBatch",
    "UnsupportedMagic",
    "check_from_producer",
    "iterate",
    "next_sequence",
    "parse",
    "split",
    "stamp",
    "stamp_bytes",
    "verify_crc",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_SIZE_BYTES: Final = 80
# The leader writes the first 16 bytes of a batch and no others.
STAMP_SIZE_BYTES: Final = 16
CRC_COVERS_FROM: Final = 24
_MAGIC_AT: Final = 16
MAGIC: Final = 1
NO_EPOCH: Final = -1
NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1
# The bytes up to and including length_bytes, which length_bytes does not count.
_UNCOUNTED_BYTES: Final = 12
SEQUENCES: Final = 2**31
# The last microsecond of the year 9999, the latest that a datetime can represent.
TIMESTAMP_US_MAX: Final = 253_402_300_799_999_999
_HAS_HEADERS: Final = 0b100
_COMPRESSION_MASK: Final = 0b011
_ATTRIBUTES_KNOWN: Final = _HAS_HEADERS | _COMPRESSION_MASK

_HEADER: Final = struct.Struct("<qiiB3sI16siHhqiiqq")
_STAMP: Final = struct.Struct("<qii")
_BASE_OFFSET: Final = struct.Struct("<q")
_LEADER_EPOCH: Final = struct.Struct("<i")
assert _HEADER.size == HEADER_SIZE_BYTES
assert _STAMP.size == STAMP_SIZE_BYTES


class Compression(IntEnum):
    """How the buffers of the body are compressed; Arrow's own codecs. The value stands in the attributes."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of one batch. Offsets are the partition's, `length_bytes` counts what follows that field."""

    base_offset: int
    length_bytes: int
    leader_epoch: int
    crc: int
    topic_id: bytes
    partition: int
    attributes: int
    producer_epoch: int
    producer_id: int
    base_sequence: int
    record_count: int
    first_timestamp_us: int
    max_timestamp_us: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header and body."""
        return _UNCOUNTED_BYTES + self.length_bytes

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record."""
        return self.base_offset + self.record_count

    @property
    def compression(self) -> Compression:
        """The compression of the body. Only for a header that `parse` returned, which checks the codec."""
        return Compression(self.attributes & _COMPRESSION_MASK)

    @property
    def has_headers(self) -> bool:
        """Whether the body has the column `headers`."""
        return bool(self.attributes & _HAS_HEADERS)

    def stamped(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """This header as the leader stamps it; called once a batch that is appended."""
        return BatchHeader(
            base_offset, self.length_bytes, leader_epoch, self.crc, self.topic_id, self.partition,
            self.attributes, self.producer_epoch, self.producer_id, self.base_sequence, self.record_count,
            self.first_timestamp_us, self.max_timestamp_us,
        )  # fmt: skip

    def pack(self) -> bytes:
        """The 80 bytes of the header, as `parse` reads them."""
        return _HEADER.pack(
            self.base_offset, self.length_bytes, self.leader_epoch, MAGIC, b"\0\0\0", self.crc, self.topic_id,
            self.partition, self.attributes, self.producer_epoch, self.producer_id, self.base_sequence,
            self.record_count, self.first_timestamp_us, self.max_timestamp_us,
        )  # fmt: skip


def next_sequence(base_sequence: int, record_count: int) -> int:
    """The base sequence of the batch after this one; sequences wrap from 2^31 - 1 to 0."""
    return (base_sequence + record_count) % SEQUENCES


def parse(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Read the header that starts at `at`. Reads no further than the header, so the batch may still be torn.

    Called for every batch on every path. Raises CorruptBatch where fewer than 80 bytes are left or the
    header cannot be one, UnsupportedMagic for a later format.
    """
    if at < 0 or len(buffer) - at < HEADER_SIZE_BYTES:
        raise CorruptBatch(
            f"a batch header takes {HEADER_SIZE_BYTES} bytes; {max(0, len(buffer) - at)} are left"
        )
    (
        base_offset, length_bytes, leader_epoch, magic, reserved, crc, topic_id, partition, attributes,
        producer_epoch, producer_id, base_sequence, record_count, first_timestamp_us, max_timestamp_us,
    ) = _HEADER.unpack_from(buffer, at)  # fmt: skip
    if magic != MAGIC:
        raise _of_another_magic(buffer, at, magic, length_bytes, crc)
    if length_bytes < HEADER_SIZE_BYTES - _UNCOUNTED_BYTES or record_count < 1 or reserved != b"\0\0\0":
        raise CorruptBatch(f"no batch has length_bytes {length_bytes} and {record_count} records")
    if attributes & ~_ATTRIBUTES_KNOWN or attributes & _COMPRESSION_MASK == _COMPRESSION_MASK:
        raise InvalidBatch(
            f"the batch has attributes {attributes:#x}; this version knows bits 0 to 2, codecs 0 to 2"
        )
    return BatchHeader(
        base_offset, length_bytes, leader_epoch, crc, topic_id, partition, attributes,
        producer_epoch, producer_id, base_sequence, record_count, first_timestamp_us, max_timestamp_us,
    )  # fmt: skip


def _of_another_magic(buffer: Buffer, at: int, magic: int, length_bytes: int, crc: int) -> BatchError:
    """The error for a header with a magic other than 1: damage, or a later version.

    The magic is outside of the CRC, as is the length, by which one batch leads to the next. So another magic
    is nearly always damage. A later format keeps the first 24 bytes and what the CRC covers. So a whole batch
    whose CRC is right, and that is none of magic 1, is of a later version.
    """
    end = at + _UNCOUNTED_BYTES + length_bytes
    is_whole = magic > MAGIC and at + HEADER_SIZE_BYTES <= end <= len(buffer)
    if not is_whole or crc32c(memoryview(buffer)[at + CRC_COVERS_FROM : end]) != crc:
        return CorruptBatch(
            f"magic {magic} and length_bytes {length_bytes} with bytes of another CRC-32C are no batch of "
            "any version: they were changed, or the length of the batch in front was"
        )
    as_ours = bytearray(memoryview(buffer)[at:end])
    as_ours[_MAGIC_AT] = MAGIC
    try:
        _check_body(memoryview(as_ours)[HEADER_SIZE_BYTES:], parse(as_ours))
    except BatchError:
        return UnsupportedMagic(
            f"a whole batch of magic {magic}, which a later version writes; this version reads magic {MAGIC}"
        )
    return CorruptBatch(f"magic {magic} stands before a batch of magic {MAGIC}: that byte was changed")


def iterate(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch of a buffer that holds whole batches back to back: where it starts, and its header.

    Raises CorruptBatch where the buffer does not end with a batch; the batches in front were given out by
    then.
    """
    at = 0
    end = len(buffer)
    while at < end:
        header = parse(buffer, at)
        if header.size_bytes > end - at:
            raise CorruptBatch(f"a batch of {header.size_bytes} bytes has only {end - at} bytes to be in")
        yield at, header
        at += header.size_bytes
    assert at == end


def split(buffer: Buffer) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a buffer with the bytes of each, without copying. Raises as `iterate`."""
    view = memoryview(buffer)
    return [(header, view[at : at + header.size_bytes]) for at, header in iterate(view)]


def stamp(buffer: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Write the leader's decisions into the batch at `at`: its offset and the epoch under which it was
    appended."""
    assert base_offset >= 0
    _BASE_OFFSET.pack_into(buffer, at, base_offset)
    _LEADER_EPOCH.pack_into(buffer, at + _UNCOUNTED_BYTES, leader_epoch)


def stamp_bytes(base_offset: int, length_bytes: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a stamped batch, for a gathered write where the batch's own bytes are
    read-only."""
    return _STAMP.pack(base_offset, length_bytes, leader_epoch)


def verify_crc(buffer: Buffer, at: int, header: BatchHeader) -> None:
    """Compare the CRC in the header with the bytes. Raises CorruptBatch. `header` was parsed at `at`."""
    end = at + header.size_bytes
    if end > len(buffer):
        raise CorruptBatch(f"a batch of {header.size_bytes} bytes has only {len(buffer) - at} bytes to be in")
    found = crc32c(memoryview(buffer)[at + CRC_COVERS_FROM : end])
    if found != header.crc:
        raise CorruptBatch(f"the batch's bytes have CRC-32C {found:08x}, its header says {header.crc:08x}")


def check_from_producer(
    buffer: Buffer, topic_id: bytes, partition: int, max_bytes: int
) -> tuple[BatchHeader, ...]:
    """Check everything about foreign batches that can be known without decoding a record. Returns their
    headers.

    Called by a leader once for the batches of one request for one partition, before any is appended: either
    all batches are good or none is taken. `max_bytes` is the topic's max.message.bytes and holds for each
    batch. Raises BatchTooLarge, CorruptBatch, InvalidBatch, UnsupportedMagic.
    """
    headers = []
    for at, header in iterate(buffer):
        if header.size_bytes > max_bytes:
            raise BatchTooLarge(
                f"a batch of {header.size_bytes} bytes is over max.message.bytes, {max_bytes}; "
                "send smaller batches"
            )
        verify_crc(buffer, at, header)
        _check_fields(header, topic_id, partition)
        _check_body(memoryview(buffer)[at + HEADER_SIZE_BYTES : at + header.size_bytes], header)
        headers.append(header)
    if not headers:
        raise InvalidBatch("the request holds no batch for this partition")
    return tuple(headers)


def _check_fields(header: BatchHeader, topic_id: bytes, partition: int) -> None:
    """Check that the header is possible, and meant for this partition."""
    if header.topic_id != topic_id or header.partition != partition:
        raise InvalidBatch(
            f"the batch is meant for topic id {header.topic_id.hex()} partition {header.partition}, "
            f"the request for topic id {topic_id.hex()} partition {partition}"
        )
    if not 0 <= header.first_timestamp_us <= header.max_timestamp_us <= TIMESTAMP_US_MAX:
        raise InvalidBatch(
            f"first timestamp {header.first_timestamp_us} us and max timestamp {header.max_timestamp_us} us "
            f"are not in order between 0 and {TIMESTAMP_US_MAX}"
        )
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    if producer != (NO_PRODUCER, NO_EPOCH, NO_SEQUENCE) and min(producer) < 0:
        raise InvalidBatch(
            f"producer id {producer[0]}, producer epoch {producer[1]} and base sequence {producer[2]} must "
            "be given together or all be -1"
        )


def _check_body(body: memoryview, header: BatchHeader) -> None:
    """Check that the body is one Arrow record batch of the shape and row count in the header."""
    layout = read_layout(body)
    if layout.decoded_size_bytes > DECODED_SIZE_BYTES_MAX:
        raise BatchTooLarge(
            f"a batch of {header.size_bytes} bytes takes {layout.decoded_size_bytes} bytes decompressed; "
            f"readers take {DECODED_SIZE_BYTES_MAX}, send smaller batches"
        )
    if layout.row_count != header.record_count:
        raise InvalidBatch(f"the header says {header.record_count} records, the body has {layout.row_count}")
    if layout.compression != header.compression:
        raise InvalidBatch(
            f"the header says codec {header.compression}, the body has codec {layout.compression}"
        )
    if layout.has_headers != header.has_headers:
        raise InvalidBatch("the header and the body differ on whether there is a headers column")
