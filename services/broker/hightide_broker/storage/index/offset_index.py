"""The positions of offsets in a segment: a sparse list of (offset, position), searched by bisection.

The list of the active segment is in memory. It is written, sealed, when the segment is closed; a file that is
missing, damaged or too short is rebuilt from the segment's headers.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.sealed_file import seal, unseal

__all__ = ["OffsetIndex"]

_MAGIC: Final = b"HTOI"
_VERSION: Final = 1
# The arrays are written as they are in memory.
assert sys.byteorder == "little"
assert array("I").itemsize == 4


class OffsetIndex:
    """The offset index of one segment. Offsets are relative to the segment's base offset."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    def entries(self) -> list[tuple[int, int]]:
        """All (relative offset, position), rising; for tools that show the file."""
        return list(zip(self._offsets, self._positions, strict=True))

    def append(self, relative_offset: int, position: int) -> None:
        """Note that the batch at `position` starts at this offset; both rise."""
        assert not self._offsets or relative_offset > self._offsets[-1]
        assert not self._positions or position > self._positions[-1]
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def entry_before(self, relative_offset: int) -> tuple[int, int]:
        """Relative offset and position of a batch that starts at or before the offset; those of the first
        batch if none is noted."""
        place = bisect_right(self._offsets, relative_offset) - 1
        return (self._offsets[place], self._positions[place]) if place >= 0 else (0, 0)

    def entry_at(self, position: int) -> tuple[int, int]:
        """The same by position."""
        place = bisect_right(self._positions, position) - 1
        return (self._offsets[place], self._positions[place]) if place >= 0 else (0, 0)

    def truncate(self, position: int) -> None:
        """Drop the entries at or after `position`."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]

    @property
    def last_position(self) -> int:
        """The last noted position; 0 if there is none."""
        return self._positions[-1] if self._positions else 0

    def encode(self) -> bytes:
        """The bytes of the file."""
        return seal(_MAGIC, _VERSION, self._offsets.tobytes() + self._positions.tobytes())

    @classmethod
    def decode(cls, data: bytes, segment_size: int) -> OffsetIndex:
        """Read the file of a segment of this size. Raises CorruptFile."""
        contents = unseal(_MAGIC, _VERSION, data)
        if len(contents) % 8:
            raise CorruptFile(f"an offset index has no {len(contents)} bytes")
        index = cls()
        middle = len(contents) // 2
        index._offsets.frombytes(contents[:middle])
        index._positions.frombytes(contents[middle:])
        if index._positions and index._positions[-1] >= segment_size:
            raise CorruptFile("the offset index points behind the end of its segment")
        return index
