"""Reads the metadata of an Arrow IPC record batch message by hand, bounds-checked, without pyarrow.

Rules of this file: every read is checked against the end of the metadata, since the bytes come from
outside. Whatever they are, only an `InvalidBatch` comes out.

Theory of operation. A message is a continuation marker, the size of the metadata, the metadata, then the
body. The metadata is a flatbuffer: a table is a position from which a signed distance back leads to its
vtable, and the vtable holds the distance of each field from the table, or 0 where the field is left out. A
vector is a count and its items in line. Format: arrow's format/Message.fbs; the slots below are that file's
fields in order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from hightide.batch.errors import InvalidBatch

__all__ = ["BatchLayout", "read_layout"]

_CONTINUATION: Final = 0xFFFFFFFF
_PREFIX: Final = struct.Struct("<Ii")
_RECORD_BATCH: Final = 3
_CODEC_LZ4_FRAME: Final = 0
_CODEC_ZSTD: Final = 1
# Slots of Message, RecordBatch and BodyCompression that are read here.
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 1, 2, 3
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION, _BATCH_VARIADIC_COUNTS = 0, 1, 2, 3, 4
_COMPRESSION_CODEC, _COMPRESSION_METHOD = 0, 1
# key and value are (validity, offsets, data), timestamp is (validity, data). Headers are a list (validity,
# offsets) of structs (validity) of a string and a binary (validity, offsets, data each).
_PLAIN_NODES, _PLAIN_BUFFERS = 3, 8
_HEADERS_NODES, _HEADERS_BUFFERS = 7, 17
_METADATA_SIZE_BYTES_MAX: Final = 64 * 1024
# A compressed buffer starts with its size when decompressed; -1 says that it was left as it is.
_UNCOMPRESSED_SIZE: Final = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """What the metadata of a record batch says, checked against the size of the message."""

    row_count: int
    # As in the attributes of a batch: 0 none, 1 lz4, 2 zstd.
    compression: int
    has_headers: bool
    # What the buffers take when decompressed, as they themselves claim.
    decoded_size_bytes: int


def read_layout(message: memoryview) -> BatchLayout:
    """Read the layout of `message`, the body of a record batch. Raises InvalidBatch. A few microseconds."""
    if len(message) < _PREFIX.size:
        raise InvalidBatch(f"the body has {len(message)} bytes, which is no Arrow message")
    continuation, metadata_size = _PREFIX.unpack_from(message, 0)
    if continuation != _CONTINUATION or not 8 <= metadata_size <= min(
        _METADATA_SIZE_BYTES_MAX, len(message) - _PREFIX.size
    ):
        raise InvalidBatch("the body does not start with the metadata of an Arrow message")
    body_at = _PREFIX.size + metadata_size
    metadata = _Flatbuffer(bytes(message[_PREFIX.size : body_at]))
    table = metadata.root()
    if metadata.uint8(table, _MESSAGE_HEADER_TYPE) != _RECORD_BATCH:
        raise InvalidBatch("the body is an Arrow message of another kind than record batch")
    body_size = metadata.int64(table, _MESSAGE_BODY_LENGTH)
    if body_size != len(message) - body_at:
        raise InvalidBatch(
            f"the Arrow message says {body_size} bytes of body, it has {len(message) - body_at}"
        )
    batch = metadata.table(table, _MESSAGE_HEADER)
    if metadata.has(batch, _BATCH_VARIADIC_COUNTS):
        raise InvalidBatch("the Arrow record batch has columns of variadic buffers")
    row_count = metadata.int64(batch, _BATCH_LENGTH)
    nodes = metadata.pairs(batch, _BATCH_NODES)
    buffers = metadata.pairs(batch, _BATCH_BUFFERS)
    has_headers = _check_shape(row_count, nodes, buffers)
    compression = _read_compression(metadata, batch)
    return BatchLayout(
        row_count, compression, has_headers, _decoded_size(message[body_at:], buffers, compression != 0)
    )


def _check_shape(row_count: int, nodes: tuple[int, ...], buffers: tuple[int, ...]) -> bool:
    """Check that there are as many columns as a batch has, each with every row; tell whether headers are
    there."""
    shape = (len(nodes) // 2, len(buffers) // 2)
    if shape not in ((_PLAIN_NODES, _PLAIN_BUFFERS), (_HEADERS_NODES, _HEADERS_BUFFERS)):
        raise InvalidBatch(
            f"the Arrow record batch has {shape[0]} nodes and {shape[1]} buffers, no batch has those"
        )
    has_headers = shape[0] == _HEADERS_NODES
    # Nodes are in depth-first order, so the first four are the columns; what a list holds may be longer.
    columns = nodes[: 8 if has_headers else 6]
    for at in range(0, len(columns), 2):
        if columns[at] != row_count or not 0 <= columns[at + 1] <= row_count:
            raise InvalidBatch(
                f"a column of the Arrow record batch has {columns[at]} rows and {columns[at + 1]} nulls "
                f"of {row_count} rows"
            )
    if nodes[5] != 0:
        raise InvalidBatch(f"{nodes[5]} timestamps are null")
    return has_headers


def _read_compression(metadata: _Flatbuffer, batch: int) -> int:
    """The codec as a batch's attributes name it."""
    if not metadata.has(batch, _BATCH_COMPRESSION):
        return 0
    compression = metadata.table(batch, _BATCH_COMPRESSION)
    codec = metadata.uint8(compression, _COMPRESSION_CODEC)
    if codec not in (_CODEC_LZ4_FRAME, _CODEC_ZSTD) or metadata.uint8(compression, _COMPRESSION_METHOD) != 0:
        raise InvalidBatch(f"the Arrow record batch is compressed by codec {codec}, which is not known")
    return codec + 1


def _decoded_size(body: memoryview, buffers: tuple[int, ...], compressed: bool) -> int:
    """Check that each buffer lies within the body; add up what they take when decompressed."""
    decoded_size = 0
    for at in range(0, len(buffers), 2):
        offset, size = buffers[at], buffers[at + 1]
        if offset < 0 or size < 0 or offset + size > len(body):
            raise InvalidBatch(
                f"a buffer of {size} bytes at {offset} is outside of the body's {len(body)} bytes"
            )
        if not compressed or size == 0:
            decoded_size += size
            continue
        if size < _UNCOMPRESSED_SIZE.size:
            raise InvalidBatch(f"a compressed buffer of {size} bytes has no room for its size")
        claimed = int(_UNCOMPRESSED_SIZE.unpack_from(body, offset)[0])
        if claimed < -1:
            raise InvalidBatch(f"a compressed buffer claims {claimed} bytes")
        decoded_size += claimed if claimed >= 0 else size - _UNCOMPRESSED_SIZE.size
    return decoded_size


class _Flatbuffer:
    """Reads of one flatbuffer, each checked against its end. Positions are from the start of the metadata."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def _read(self, size: int, at: int, signed: bool) -> int:
        if at < 0 or at + size > len(self._data):
            raise InvalidBatch("the metadata of the Arrow message points outside of itself")
        return int.from_bytes(self._data[at : at + size], "little", signed=signed)

    def root(self) -> int:
        """Position of the root table."""
        return self._read(4, 0, signed=False)

    def _field(self, table: int, slot: int) -> int:
        """Position of a field, or -1 where the table leaves it out."""
        vtable = table - self._read(4, table, signed=True)
        vtable_size = self._read(2, vtable, signed=False)
        if 4 + 2 * slot + 2 > vtable_size:
            return -1
        distance = self._read(2, vtable + 4 + 2 * slot, signed=False)
        return table + distance if distance else -1

    def has(self, table: int, slot: int) -> bool:
        """Whether the table has this field."""
        return self._field(table, slot) >= 0

    def uint8(self, table: int, slot: int) -> int:
        """A one-byte field, 0 where it is left out."""
        at = self._field(table, slot)
        return 0 if at < 0 else self._read(1, at, signed=False)

    def int64(self, table: int, slot: int) -> int:
        """An eight-byte field, 0 where it is left out."""
        at = self._field(table, slot)
        return 0 if at < 0 else self._read(8, at, signed=True)

    def table(self, table: int, slot: int) -> int:
        """Position of a table that a field points to."""
        at = self._field(table, slot)
        if at < 0:
            raise InvalidBatch("the metadata of the Arrow message leaves out a part that it needs")
        return at + self._read(4, at, signed=False)

    def pairs(self, table: int, slot: int) -> tuple[int, ...]:
        """The int64 pairs (FieldNode or Buffer) of a vector, in line; none where it is left out."""
        at = self._field(table, slot)
        if at < 0:
            return ()
        start = at + self._read(4, at, signed=False)
        count = self._read(4, start, signed=False)
        if start + 4 + count * 16 > len(self._data):
            raise InvalidBatch("the metadata of the Arrow message points outside of itself")
        return struct.unpack_from(f"<{2 * count}q", self._data, start + 4)
