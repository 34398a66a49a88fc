"""Finds and reads batches in a log's segments, by offset and by timestamp."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from hightide.batch.header import BatchHeader

from hightide_broker.storage.log.answers import TimestampFound
from hightide_broker.storage.segments.segment import Segment

__all__ = ["SequentialReads", "first_candidate", "found_in", "segment_with"]

_POSITIONS_REMEMBERED: Final = 32


class SequentialReads:
    """Where readers stand, so that their next read needs no look-up. Called under the log's lock."""

    __slots__ = ("_positions", "forgotten")

    def __init__(self) -> None:
        self._positions: dict[int, tuple[Segment, int]] = {}
        self.forgotten = 0
        """How often all was forgotten."""

    def find(self, segments: Sequence[Segment], offset: int) -> tuple[Segment, int, int]:
        """The segment with an offset, the position of the batch that contains it, and its base offset. Raises
        OSError, BatchError."""
        segment, position = self._positions.pop(offset, (None, 0))
        if segment is not None:
            return segment, position, offset
        segment = segment_with(segments, offset)
        position, header = segment.locate(offset)
        return segment, position, header.base_offset

    def note(self, offset: int, segment: Segment, position: int) -> None:
        """A reader will go on at this offset, which is at this position."""
        if len(self._positions) >= _POSITIONS_REMEMBERED:
            del self._positions[next(iter(self._positions))]
        self._positions[offset] = (segment, position)

    def forget(self) -> None:
        """The log was cut at either end: what is at these positions now may be something else, or nothing."""
        self._positions.clear()
        self.forgotten += 1


def segment_with(segments: Sequence[Segment], offset: int) -> Segment:
    """The segment that an offset is in; the first where it is before that."""
    place = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return segments[max(0, place)]


def found_in(
    header: BatchHeader, batch: bytes, timestamp_us: int, log_start_offset: int
) -> TimestampFound | None:
    """The first record of a batch at or after a timestamp, and not before the log start. Imports pyarrow
    where that takes to open the batch. Raises BatchError where it is damaged."""
    before_start = max(0, log_start_offset - header.base_offset)
    if header.first_timestamp_us >= timestamp_us and not before_start:
        return TimestampFound(header.base_offset, header.first_timestamp_us)
    from hightide.batch.body import first_at_or_after

    found = first_at_or_after(batch, timestamp_us, before_start)
    return None if found is None else TimestampFound(header.base_offset + found[0], found[1])


def first_candidate(
    segments: Sequence[Segment], timestamp_us: int, offset: int, end_offset: int
) -> tuple[BatchHeader, bytes] | None:
    """The first batch from `offset` on whose latest timestamp is late enough, below `end_offset`.

    Called under the log's lock. Raises OSError, CorruptBatch.
    """
    for segment in segments:
        if segment.next_offset <= offset or segment.latest_us < timestamp_us:
            continue
        for position, header in segment.batches_from(timestamp_us):
            if header.next_offset > end_offset:
                return None
            if header.next_offset > offset and header.max_timestamp_us >= timestamp_us:
                return header, segment.read_at(header.size_bytes, position)
    return None
