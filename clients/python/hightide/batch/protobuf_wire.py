"""The protobuf wire format by hand: as much of it as the bulk messages need.

Rules of this file: reads accept and refuse what protobuf's own parser does; only `MalformedMessage` comes
out. Reference: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hightide.batch.errors import MalformedMessage

__all__ = ["BYTES", "VARINT", "bytes_field", "fields", "int32", "int64", "int_field", "length_prefix", "text"]

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
GROUP_START: Final = 3
GROUP_END: Final = 4
FIXED32: Final = 5

_VARINT_BYTES_MAX: Final = 10
_TAG_BYTES_MAX: Final = 5
_DEPTH_MAX: Final = 100
_UINT64_MASK: Final = 2**64 - 1
_INT32_MAX: Final = 2**31 - 1


def int32(value: int) -> int:
    """The int32 (or enum) that a varint stands for: its low 32 bits, signed."""
    value &= 0xFFFFFFFF
    return value - 2**32 if value > _INT32_MAX else value


def int64(value: int) -> int:
    """The int64 that a varint stands for."""
    return value - 2**64 if value >= 2**63 else value


def text(data: bytes, start: int, stop: int) -> str:
    """A string field, which must be UTF-8."""
    try:
        return data[start:stop].decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string field is not UTF-8") from error


def fields(data: bytes, at: int, end: int, depth: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Each field of the message between `at` and `end`: number, wire type, and two numbers that depend on
    the type.

    For a VARINT its value and 0; for BYTES where they start and stop. Other types are read over: no message
    here has them, so they are unknown fields.
    """
    while at < end:
        tag, at = _varint(data, at, end, _TAG_BYTES_MAX)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag >= 2**32:
            raise MalformedMessage(f"no field has tag {tag}")
        if wire_type == VARINT:
            value, at = _varint(data, at, end, _VARINT_BYTES_MAX)
            yield number, VARINT, value, 0
        elif wire_type == BYTES:
            start, at = _length(data, at, end)
            yield number, BYTES, start, at
        else:
            at = _skip(data, at, end, number, wire_type, _DEPTH_MAX - depth)


def _varint(data: bytes, at: int, end: int, bytes_max: int) -> tuple[int, int]:
    """A varint, cut to 64 bits, and its end."""
    value = shift = 0
    for place in range(at, min(end, at + bytes_max)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64_MASK, place + 1
        shift += 7
    raise MalformedMessage("the message ends within a number, or the number is too long")


def _length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The start and the end of the contents of a BYTES field."""
    size, start = _varint(data, at, end, _TAG_BYTES_MAX)
    if size > end - start:
        raise MalformedMessage(f"a field of {size} bytes has {end - start} bytes to be in")
    return start, start + size


def _skip(data: bytes, at: int, end: int, number: int, wire_type: int, depth_left: int) -> int:
    """The end of a field that is not read."""
    if wire_type == VARINT:
        return _varint(data, at, end, _VARINT_BYTES_MAX)[1]
    if wire_type == BYTES:
        return _length(data, at, end)[1]
    if wire_type in (FIXED32, FIXED64):
        at += 4 if wire_type == FIXED32 else 8
        if at > end:
            raise MalformedMessage("the message ends within a number")
        return at
    if wire_type != GROUP_START or depth_left == 0:
        raise MalformedMessage(f"no field can have wire type {wire_type} here")
    while True:
        tag, at = _varint(data, at, end, _TAG_BYTES_MAX)
        if tag >> 3 == 0 or tag >= 2**32:
            raise MalformedMessage(f"no field has tag {tag}")
        if tag & 7 == GROUP_END:
            if tag >> 3 != number:
                raise MalformedMessage(f"group {number} ends as group {tag >> 3}")
            return at
        at = _skip(data, at, end, tag >> 3, tag & 7, depth_left - 1)


def _varint_bytes(value: int) -> bytes:
    """A varint; negative numbers take ten bytes, as protobuf writes them."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= _UINT64_MASK
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_field(number: int, value: int) -> bytes:
    """A number or enum, left out where it is 0."""
    return _varint_bytes(number << 3) + _varint_bytes(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Bytes or UTF-8 text, left out where empty."""
    return _varint_bytes(number << 3 | BYTES) + _varint_bytes(len(value)) + value if value else b""


def length_prefix(number: int, size_bytes: int) -> bytes:
    """The bytes before a field of bytes, or of a message, that is added piece by piece."""
    return _varint_bytes(number << 3 | BYTES) + _varint_bytes(size_bytes)
