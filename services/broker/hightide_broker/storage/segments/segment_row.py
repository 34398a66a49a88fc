"""The segments of one log in a row: what files there are, which is written to, what goes at either end.

Theory of operation. A row has no gap and is never empty; its last segment is the active one. It grows at its
end only, when the active segment is full, and shrinks at its end by truncation, newest first, and at its
front by retention, oldest first: so that whatever a crash leaves of it is a row again. Why something goes,
and what else has to be known of that, is the log's to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from hightide.batch.header import Buffer

from hightide_broker.storage.files.sealed_file import write_new
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.settings import SEGMENT_BYTES_MAX
from hightide_broker.storage.volume.volume import Volume

__all__ = ["SegmentRow"]

# Offsets in an index are 32 bits wide.
_SEGMENT_OFFSETS_MAX: Final = 2**31 - 1


class SegmentRow:
    """The row of one log, and its directory. Called under the log's lock. Methods raise OSError."""

    __slots__ = ("_directory", "_volume", "has_directory", "names_unsynced", "segments", "size_bytes")

    def __init__(
        self, volume: Volume, directory: str, segments: list[Segment], *, has_directory: bool
    ) -> None:
        assert segments
        assert segments[-1].is_active
        self._volume = volume
        self._directory = directory
        self.segments = segments
        """Oldest first. To be looked at; it is changed here only."""
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        """Of all segments."""
        self.has_directory = has_directory
        """Whether there is anything on disk."""
        self.names_unsynced = False
        """Whether files came or went since `sync_names`."""

    @property
    def active(self) -> Segment:
        """The one that is written to."""
        return self.segments[-1]

    @property
    def base_offset(self) -> int:
        """Where the oldest segment begins."""
        return self.segments[0].base_offset

    def base_offsets(self) -> frozenset[int]:
        """Where the segments begin."""
        return frozenset(segment.base_offset for segment in self.segments)

    # --- at the end ----------------------------------------------------------------------------------------

    def make_directory(self, about: Mapping[str, str | int]) -> None:
        """Make the directory, with a file that tells people whose log it is. Called before the first
        write."""
        self._volume.files.make_directory(self._directory)
        contents = json.dumps({"version": 1, **about}).encode() + b"\n"
        write_new(self._volume.files, f"{self._directory}/partition.json", contents)
        self.has_directory = True
        self.names_unsynced = True

    def has_room_for(self, size_bytes: int, end_offset: int, segment_bytes: int) -> bool:
        """Whether batches up to `end_offset` may go into the active segment, by the size that the topic gives
        it. An empty one takes what is larger than that."""
        active = self.active
        return active.size_bytes == 0 or (
            active.size_bytes + size_bytes <= min(segment_bytes, SEGMENT_BYTES_MAX)
            and end_offset - active.base_offset <= _SEGMENT_OFFSETS_MAX
        )

    def write(self, batches: Sequence[Buffer], size_bytes: int) -> Segment:
        """Write at the end of the active segment, and give it. Raises DiskFull: nothing was written."""
        active = self.segments[-1]
        self.names_unsynced |= not active.exists
        active.write(batches, size_bytes)
        self.size_bytes += size_bytes
        return active

    def begin_segment(self) -> None:
        """Go on in another segment, which has no file before it is written to. Called when the active one is
        complete."""
        complete = self.active
        complete.deactivate()
        self._activate(complete.next_offset)

    def _activate(self, offset: int) -> Segment:
        segment = Segment(self._volume, self._directory, offset, offset, 0, exists=False)
        segment.activate()
        self.segments.append(segment)
        return segment

    def truncate_to(self, offset: int) -> int:
        """Cut off everything from `offset` on, and the whole batch that it is inside of; give the end. The
        oldest segment stays, if only as an empty one. Where it is damaged nothing is cut."""
        last = max(
            (place for place, each in enumerate(self.segments) if each.base_offset < offset), default=0
        )
        at = max(offset, self.segments[last].base_offset)
        found = self.segments[last].locate(at) if at < self.segments[last].next_offset else None
        while len(self.segments) > last + 1:
            self.segments.pop().remove()
            # A power cut could bring the file back; the next flush makes sure that it does not.
            self.names_unsynced = True
        active = self.active
        active.activate()
        if found is not None:
            position, header = found
            active.truncate(position, header.base_offset)
        self.size_bytes = sum(segment.size_bytes for segment in self.segments)
        return active.next_offset

    # --- at the front --------------------------------------------------------------------------------------

    def hold_place(self) -> bool:
        """Where the oldest segments go and the active one is empty, a file has to say where the log goes on:
        make it. Returns whether there was none."""
        active = self.active
        if active.exists:
            return False
        active.make_file()
        return True

    def let_go(self, count: int) -> list[Segment]:
        """Take the oldest out of the row; their files are the caller's to remove, without the lock."""
        assert 0 < count < len(self.segments), "a row is never empty"
        gone, self.segments = self.segments[:count], self.segments[count:]
        self.size_bytes -= sum(segment.size_bytes for segment in gone)
        return gone

    # --- as a whole ----------------------------------------------------------------------------------------

    def begin_anew(self, offset: int) -> None:
        """Remove all, and go on at `offset`, where an empty file holds the place."""
        # The newest goes first, so that a crash in between leaves a log without a gap.
        while self.segments:
            self.segments.pop().remove()
        empty = self._activate(offset)
        self.size_bytes = 0
        self.names_unsynced = True
        empty.make_file()

    def sync_names(self) -> None:
        """Make durable which files there are. Called without the log's lock, by its flush."""
        self._volume.files.sync_directory(self._directory)
        self._volume.files.sync_directory(self._directory.rpartition("/")[0])

    def close(self) -> None:
        """Let go of open files and of the indexes in memory."""
        for segment in self.segments:
            self._volume.indexes.forget(segment)
            self._volume.open_files.forget(segment.log_path)
