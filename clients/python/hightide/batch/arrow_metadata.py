"""Reads the metadata of an Arrow IPC record batch message by hand, bounds-checked, without pyarrow.

Rules of this file: every read is checked against the end of the metadata, since the bytes come from
outside. Whatever they are, only an `InvalidBatch` comes out. Nothing is decompressed, and nothing is done per
record.

Theory of operation. A message is a continuation marker, the size of the metadata, the metadata, then the
body. The metadata is a flatbuffer: a table is a position from which a signed distance back leads to its
vtable, and the vtable holds the distance of each field from the table, or 0 where the field is left out. A
vector is a count and its items in line. Format: arrow's format/Message.fbs; the slots below are that file's
fields in order. What an array of a type is made of: arrow's docs/format/Columnar.rst.

No reader fails on anything that is checked here. Some checks are left out, because they need a look at each
record or into compressed bytes: that the compressed bytes are what they claim to be, that the offsets between
the first and the last of a column rise, that the number of nulls is right, that names of headers are UTF-8,
and that each timestamp is of the years 1970 to 9999. `hightide.batch.body.decode` makes these.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from hightide.batch.errors import InvalidBatch

__all__ = ["DECODED_SIZE_BYTES_MAX", "BatchLayout", "read_layout"]

# The size that the buffers of one batch may have when decompressed; leaders and readers use the same limit.
DECODED_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024

_CONTINUATION: Final = 0xFFFFFFFF
_PREFIX: Final = struct.Struct("<Ii")
_ALIGNMENT_BYTES: Final = 8
# Arrow's MetadataVersion: today's readers read V4 (0.8) and V5 (1.0).
_VERSIONS: Final = (3, 4)
_RECORD_BATCH: Final = 3
_CODEC_LZ4_FRAME: Final = 0
_CODEC_ZSTD: Final = 1
# Slots of Message, RecordBatch and BodyCompression that are read here.
_MESSAGE_VERSION, _MESSAGE_HEADER_TYPE, _MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 0, 1, 2, 3
_MESSAGE_CUSTOM_METADATA: Final = 4
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION, _BATCH_VARIADIC_COUNTS = 0, 1, 2, 3, 4
_COMPRESSION_CODEC, _COMPRESSION_METHOD = 0, 1
_METADATA_SIZE_BYTES_MAX: Final = 64 * 1024
# A compressed buffer starts with its size when decompressed; -1 says that it was not compressed.
_UNCOMPRESSED_SIZE: Final = struct.Struct("<q")
_LEFT_AS_IT_IS: Final = -1
_UINT8, _UINT16, _UINT32 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_INT16, _INT32, _INT64 = struct.Struct("<h"), struct.Struct("<i"), struct.Struct("<q")


class _Array(Enum):
    """The kinds of arrays in a batch, by their buffers."""

    BINARY = auto()
    """Validity, int32 offsets, data."""
    TIMESTAMP = auto()
    """Validity, int64 values."""
    LIST = auto()
    """Validity, int32 offsets into the array that follows."""
    STRUCT = auto()
    """Validity; its fields follow."""


# Depth first: key, value, timestamp; then headers, a list of structs of a string and a binary.
_PLAIN: Final[tuple[_Array, ...]] = (_Array.BINARY, _Array.BINARY, _Array.TIMESTAMP)
_WITH_HEADERS: Final[tuple[_Array, ...]] = (*_PLAIN, _Array.LIST, _Array.STRUCT, _Array.BINARY, _Array.BINARY)
_PLAIN_BUFFERS, _BUFFERS_WITH_HEADERS = 8, 17


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The metadata of a record batch, checked against the size of the message."""

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
    version = metadata.int16(table, _MESSAGE_VERSION)
    if version not in _VERSIONS or metadata.uint8(table, _MESSAGE_HEADER_TYPE) != _RECORD_BATCH:
        raise InvalidBatch("the body is an Arrow message of another version or kind than a record batch")
    body_size = metadata.int64(table, _MESSAGE_BODY_LENGTH)
    if body_size != len(message) - body_at:
        raise InvalidBatch(
            f"the Arrow message says {body_size} bytes of body, it has {len(message) - body_at}"
        )
    batch = metadata.table(table, _MESSAGE_HEADER)
    if metadata.has(batch, _BATCH_VARIADIC_COUNTS) or metadata.has(table, _MESSAGE_CUSTOM_METADATA):
        raise InvalidBatch("the Arrow record batch has columns of variadic buffers, or metadata of its own")
    row_count = metadata.int64(batch, _BATCH_LENGTH)
    nodes = metadata.pairs(batch, _BATCH_NODES)
    places = metadata.pairs(batch, _BATCH_BUFFERS)
    arrays = _check_shape(row_count, nodes, len(places) // 2)
    compression = _read_compression(metadata, batch)
    buffers = _Buffers(message[body_at:], places, compression != 0)
    _check_arrays(arrays, nodes, buffers)
    return BatchLayout(row_count, compression, arrays is _WITH_HEADERS, sum(buffers.sizes))


def _check_shape(row_count: int, nodes: tuple[int, ...], buffer_count: int) -> tuple[_Array, ...]:
    """Check that there are as many columns as a batch has, each with every row. Returns the arrays of the
    batch."""
    if (len(nodes), buffer_count) == (2 * len(_PLAIN), _PLAIN_BUFFERS):
        arrays = _PLAIN
    elif (len(nodes), buffer_count) == (2 * len(_WITH_HEADERS), _BUFFERS_WITH_HEADERS):
        arrays = _WITH_HEADERS
    else:
        raise InvalidBatch(
            f"the Arrow record batch has {len(nodes) // 2} nodes and {buffer_count} buffers, no batch has "
            "those"
        )
    # The first four are the columns; what a list holds may be longer.
    for at in range(0, min(8, len(nodes)), 2):
        if nodes[at] != row_count:
            raise InvalidBatch(f"a column of the Arrow record batch has {nodes[at]} rows of {row_count} rows")
    if nodes[5] != 0:
        raise InvalidBatch(f"{nodes[5]} timestamps are null")
    return arrays


def _read_compression(metadata: _Flatbuffer, batch: int) -> int:
    """The codec in the form of a batch's attributes."""
    if not metadata.has(batch, _BATCH_COMPRESSION):
        return 0
    compression = metadata.table(batch, _BATCH_COMPRESSION)
    codec = metadata.uint8(compression, _COMPRESSION_CODEC)
    if codec not in (_CODEC_LZ4_FRAME, _CODEC_ZSTD) or metadata.uint8(compression, _COMPRESSION_METHOD) != 0:
        raise InvalidBatch(f"the Arrow record batch is compressed by codec {codec}, which is not known")
    return codec + 1


class _Buffers:
    """The buffers of a body, each within it. `sizes` is what they take when decompressed, as they claim."""

    __slots__ = ("_body", "_starts", "sizes")

    def __init__(self, body: memoryview, places: tuple[int, ...], compressed: bool) -> None:
        self._body = body
        self._starts: list[int] = []
        self.sizes: list[int] = []
        for at in range(0, len(places), 2):
            offset, size = places[at], places[at + 1]
            if offset < 0 or size < 0 or offset + size > len(body) or offset % _ALIGNMENT_BYTES:
                raise InvalidBatch(
                    f"a buffer of {size} bytes at {offset} is outside of the body's {len(body)} bytes, "
                    f"or not at a multiple of {_ALIGNMENT_BYTES}"
                )
            if compressed and size:
                offset, size = self._claimed(offset, size)
            self._starts.append(offset)
            self.sizes.append(size)

    def _claimed(self, offset: int, size: int) -> tuple[int, int]:
        """Where a buffer lies open, -1 where it is compressed, and its size when decompressed."""
        if size < _UNCOMPRESSED_SIZE.size:
            raise InvalidBatch(f"a compressed buffer of {size} bytes has no room for its size")
        (claimed,) = _UNCOMPRESSED_SIZE.unpack_from(self._body, offset)
        if claimed == _LEFT_AS_IT_IS:
            return offset + _UNCOMPRESSED_SIZE.size, size - _UNCOMPRESSED_SIZE.size
        if claimed < 0:
            raise InvalidBatch(f"a compressed buffer claims {claimed} bytes")
        return -1, claimed

    def check_offsets(self, at: int, length: int, end: int) -> None:
        """Check that the buffer holds the offsets of `length` values, which lie within `end`. Only the first
        and the last are checked, and only if they are not compressed."""
        if self.sizes[at] < 4 * (length + 1):
            if length == self.sizes[at] == 0:
                return
            raise InvalidBatch(f"{self.sizes[at]} bytes cannot be the offsets of {length} values")
        start = self._starts[at]
        if start < 0:
            return
        (first,) = _INT32.unpack_from(self._body, start)
        (last,) = _INT32.unpack_from(self._body, start + 4 * length)
        if not 0 <= first <= last <= end:
            raise InvalidBatch(f"the values of a column lie from {first} to {last}, of {end}")


def _check_arrays(arrays: tuple[_Array, ...], nodes: tuple[int, ...], buffers: _Buffers) -> None:
    """Check that the buffers of each array are large enough for its values."""
    sizes = buffers.sizes
    at = 0
    for place, kind in enumerate(arrays):
        length, null_count = nodes[2 * place], nodes[2 * place + 1]
        if not 0 <= null_count <= length or (null_count and 8 * sizes[at] < length):
            raise InvalidBatch(
                f"a column of the Arrow record batch has {null_count} nulls of {length} values, and "
                f"{sizes[at]} bytes that tell which"
            )
        match kind:
            case _Array.BINARY:
                buffers.check_offsets(at + 1, length, sizes[at + 2])
                at += 3
            case _Array.TIMESTAMP:
                if sizes[at + 1] < 8 * length:
                    raise InvalidBatch(f"{sizes[at + 1]} bytes cannot be {length} timestamps")
                at += 2
            case _Array.LIST:
                buffers.check_offsets(at + 1, length, nodes[2 * place + 2])
                at += 2
            case _Array.STRUCT:
                if min(nodes[2 * place + 2], nodes[2 * place + 4]) < length:
                    raise InvalidBatch(f"{length} headers have fewer names or values")
                at += 1
    assert at == len(sizes), "every buffer is an array's"


class _Flatbuffer:
    """Reads of one flatbuffer, each checked against its end and, as Arrow's own reader does, for alignment.
    Positions are from the start of the metadata."""

    __slots__ = ("_data", "_size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._size = len(data)

    def _read(self, form: struct.Struct, at: int) -> int:
        size = form.size
        if at < 0 or at + size > self._size or at % size:
            raise InvalidBatch("the metadata of the Arrow message points outside of itself")
        found: int = form.unpack_from(self._data, at)[0]
        return found

    def root(self) -> int:
        """Position of the root table."""
        return self._read(_UINT32, 0)

    def _field(self, table: int, slot: int) -> int:
        """Position of a field, or -1 where the table leaves it out."""
        vtable = table - self._read(_INT32, table)
        vtable_size = self._read(_UINT16, vtable)
        if vtable_size % 2 or vtable + vtable_size > self._size:
            raise InvalidBatch("the metadata of the Arrow message points outside of itself")
        if 4 + 2 * slot + 2 > vtable_size:
            return -1
        distance = self._read(_UINT16, vtable + 4 + 2 * slot)
        return table + distance if distance else -1

    def has(self, table: int, slot: int) -> bool:
        """Whether the table has this field."""
        return self._field(table, slot) >= 0

    def uint8(self, table: int, slot: int) -> int:
        """A one-byte field, 0 where it is left out."""
        at = self._field(table, slot)
        return 0 if at < 0 else self._read(_UINT8, at)

    def int16(self, table: int, slot: int) -> int:
        """A two-byte field, 0 where it is left out."""
        at = self._field(table, slot)
        return 0 if at < 0 else self._read(_INT16, at)

    def int64(self, table: int, slot: int) -> int:
        """An eight-byte field, 0 where it is left out."""
        at = self._field(table, slot)
        return 0 if at < 0 else self._read(_INT64, at)

    def table(self, table: int, slot: int) -> int:
        """Position of a table that a field points to."""
        at = self._field(table, slot)
        if at < 0:
            raise InvalidBatch("the metadata of the Arrow message leaves out a part that it needs")
        return at + self._read(_UINT32, at)

    def pairs(self, table: int, slot: int) -> tuple[int, ...]:
        """The int64 pairs (FieldNode or Buffer) of a vector, in line; none where it is left out."""
        at = self._field(table, slot)
        if at < 0:
            return ()
        start = at + self._read(_UINT32, at)
        count = self._read(_UINT32, start)
        if start + 4 + count * 16 > self._size or (start + 4) % 8:
            raise InvalidBatch("the metadata of the Arrow message points outside of itself")
        return struct.unpack_from(f"<{2 * count}q", self._data, start + 4)
