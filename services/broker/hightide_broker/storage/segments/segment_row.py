"""The segments of one log in a row: the files, the active one, and the removal at either end.

Theory of operation. A row has no gap and is never empty; its last segment is the active one. It grows at its
end only, when the active segment is full, and shrinks at its end by truncation, newest first, and at its
front by retention, oldest first: so that after any crash the rest is a row again. The log decides why a
segment is removed, and what else has to be recorded.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from hightide.batch.errors import BatchError
from hightide.batch.header import Buffer

from hightide_broker.storage.files.sealed_file import write_new
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.settings import SEGMENT_BYTES_MAX
from hightide_broker.storage.volume.log_files import LogFiles
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
        """Oldest first. Others may read it; only this class changes it."""
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        """The size of all segments."""
        self.has_directory = has_directory
        """Whether the log has a directory on disk."""
        self.names_unsynced = any(segment.is_cut for segment in segments)
        """Whether files were made or removed since `sync_names`, also by a process that was killed."""

    @property
    def active(self) -> Segment:
        """The segment that is written to."""
        return self.segments[-1]

    @property
    def base_offset(self) -> int:
        """The first offset of the oldest segment."""
        return self.segments[0].base_offset

    @property
    def is_unsynced(self) -> bool:
        """Whether a power cut may take or bring back anything."""
        return self.names_unsynced or any(segment.is_unsynced for segment in self.segments)

    def base_offsets(self) -> frozenset[int]:
        """The first offsets of the segments."""
        return frozenset(segment.base_offset for segment in self.segments)

    # --- at the end ----------------------------------------------------------------------------------------

    def make_directory(self, about: Mapping[str, str | int]) -> None:
        """Make the directory, with a file that names the log for people. Called before the first write."""
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
        """Write at the end of the active segment, and return it. Raises DiskFull: nothing was written."""
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

    def truncate_to(self, offset: int, files: LogFiles) -> int:
        """Cut off everything from `offset` on, and the whole batch that contains it. Returns the end. The
        oldest segment stays, perhaps empty.

        Where the segment is damaged in which the cut lies, its whole batches in front of the damage stay, the
        log ends at `offset`, and what it then lacks is reported. Not to cut would leave it as it is for good:
        no other replica has what is beyond `offset`, so nobody could mend it.
        """
        last = max(
            (place for place, each in enumerate(self.segments) if each.base_offset < offset), default=0
        )
        at = max(offset, self.segments[last].base_offset)
        found = None
        if at < self.segments[last].next_offset:
            found = _place_to_cut(self.segments[last], at, files)
        while len(self.segments) > last + 1:
            self.segments.pop().remove()
            # A power cut could bring the file back; the next flush makes sure that it does not.
            self.names_unsynced = True
        active = self.active
        active.activate()
        if found is not None:
            active.truncate(*found)
        self.size_bytes = sum(segment.size_bytes for segment in self.segments)
        return active.next_offset

    # --- at the front --------------------------------------------------------------------------------------

    def hold_place(self) -> bool:
        """Make the file of an empty active segment before the oldest segments are removed, so that it records
        where the log goes on. Returns whether there was none."""
        active = self.active
        if active.exists:
            return False
        active.make_file()
        return True

    def ending_before(self, offset: int) -> Iterator[Segment]:
        """The oldest segments that have records, none of which is at or above an offset."""
        return takewhile(lambda each: each.size_bytes and each.next_offset <= offset, self.segments)

    def drop_indexes_before(self, offset: int) -> None:
        """Remove the indexes of those segments, whose records nobody may read any more."""
        for segment in self.ending_before(offset):
            if not segment.is_active:
                segment.drop_indexes()

    def let_go(self, oldest: Segment) -> str:
        """Take the oldest segment out of the row. Returns the name that its file has now; the caller removes
        it, without the lock."""
        assert oldest is self.segments[0]
        assert not oldest.is_active, "a row is never empty"
        path = oldest.give_up_name()
        self.segments = self.segments[1:]
        self.size_bytes -= oldest.size_bytes
        return path

    # --- as a whole ----------------------------------------------------------------------------------------

    def begin_anew(self, offset: int) -> None:
        """Remove all, and go on at `offset`, which an empty file records if there is room for it. The log's
        start says so too."""
        # The newest goes first, so that a crash in between leaves a log without a gap.
        while self.segments:
            self.segments.pop().remove()
        empty = self._activate(offset)
        self.size_bytes = 0
        self.names_unsynced = True
        try:
            empty.make_file()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def sync_names(self) -> None:
        """Make the names of the files durable. Called without the log's lock, by its flush."""
        self._volume.files.sync_directory(self._directory)
        self._volume.files.sync_directory(self._directory.rpartition("/")[0])

    def close(self) -> None:
        """Release open files and the indexes in memory."""
        for segment in self.segments:
            self._volume.indexes.forget(segment)
            self._volume.open_files.forget(segment.log_path)


def _place_to_cut(segment: Segment, offset: int, files: LogFiles) -> tuple[int, int]:
    """The position at which a segment is to be cut, and the offset at which it ends then."""
    try:
        position, header = segment.locate(offset)
    except (BatchError, FileNotFoundError) as error:
        if not files.is_damage(error):
            raise
        position, end_offset = segment.whole_before(offset)
        files.damaged(error, segment.base_offset, end_offset)
        return position, offset
    return position, header.base_offset
