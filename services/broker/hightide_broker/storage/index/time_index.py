"""The positions in a segment from which on a timestamp can be: a sparse list of (latest timestamp so far,
position).

An entry (t, p) says that all batches in front of position p have no timestamp after t. Timestamps need not be
in order in a log; the latest so far always is.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.sealed_file import seal, unseal

__all__ = ["TimeIndex"]

_MAGIC: Final = b"HTTI"
_VERSION: Final = 1
_LATEST: Final = struct.Struct("<q")
_ENTRY_SIZE_BYTES: Final = 12


class TimeIndex:
    """The time index of one segment."""

    __slots__ = ("_positions", "_timestamps", "latest_us")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._positions = array("I")
        # No timestamp in the segment is later; -1 without batches.
        self.latest_us = -1

    def entries(self) -> list[tuple[int, int]]:
        """All (latest timestamp before, position), rising; for tools that show the file."""
        return list(zip(self._timestamps, self._positions, strict=True))

    def note(self, max_timestamp_us: int) -> None:
        """Note an appended batch; called for each."""
        if max_timestamp_us > self.latest_us:
            self.latest_us = max_timestamp_us

    def append(self, position: int) -> None:
        """Note the latest timestamp before `position`; called now and then, before `note`."""
        if self.latest_us >= 0 and (not self._timestamps or self.latest_us > self._timestamps[-1]):
            self._timestamps.append(self.latest_us)
            self._positions.append(position)

    def position_from(self, timestamp_us: int) -> int:
        """A position before which no batch has this timestamp or a later one."""
        place = bisect_left(self._timestamps, timestamp_us) - 1
        return self._positions[place] if place >= 0 else 0

    def truncate(self, position: int) -> None:
        """Drop the entries after `position`. `latest_us` stays, as an upper bound: a look-up may then read
        without a result."""
        keep = bisect_right(self._positions, position)
        del self._timestamps[keep:]
        del self._positions[keep:]

    def encode(self) -> bytes:
        """The bytes of the file."""
        entries = self._timestamps.tobytes() + self._positions.tobytes()
        return seal(_MAGIC, _VERSION, _LATEST.pack(self.latest_us) + entries)

    @classmethod
    def decode(cls, data: bytes, segment_size: int) -> TimeIndex:
        """Read the file of a segment of this size. Raises CorruptFile."""
        contents = unseal(_MAGIC, _VERSION, data)
        count, rest = divmod(len(contents) - _LATEST.size, _ENTRY_SIZE_BYTES)
        if count < 0 or rest:
            raise CorruptFile(f"a time index has no {len(contents)} bytes")
        index = cls()
        (index.latest_us,) = _LATEST.unpack_from(contents)
        middle = _LATEST.size + 8 * count
        index._timestamps.frombytes(contents[_LATEST.size : middle])
        index._positions.frombytes(contents[middle:])
        if index._positions and index._positions[-1] >= segment_size:
            raise CorruptFile("the time index points behind the end of its segment")
        return index
