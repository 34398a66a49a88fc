"""One segment of a log: a file of batches back to back, with its offset index and time index.

A segment holds the offsets from its base offset to before its next offset; the next segment's base offset is
this one's next offset. Files are `<base offset, 20 digits>.log`, `.index` and `.timeindex`. The file of a
segment is made by its first write. Not thread-safe: the log that owns it calls it under its lock, but for
`read` and `read_at`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from hightide.batch.errors import BatchError, CorruptBatch
from hightide.batch.header import HEADER_SIZE_BYTES, BatchHeader, Buffer, parse

from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.files.sealed_file import TEMPORARY_SUFFIX, read_file, write_whole
from hightide_broker.storage.index.offset_index import OffsetIndex
from hightide_broker.storage.index.time_index import TimeIndex
from hightide_broker.storage.segments.batch_scan import scan
from hightide_broker.storage.segments.batches_at_rest import BatchesAtRest
from hightide_broker.storage.volume.volume import Volume

__all__ = ["INDEX_SUFFIX", "LOG_SUFFIX", "TIME_INDEX_SUFFIX", "Segment", "offset_name"]

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
# From an index entry to the batch that is wanted there is about one index interval.
_LOCATE_PIECE_BYTES: Final = 8 * 1024
_REBUILT_INTERVAL_BYTES: Final = 4096
_WALL_TOLERANCE_US: Final = 60 * 1_000_000
"""How far a correct wall clock may differ from the directory's, by drift or by slewing, in the days between
boots."""


def offset_name(offset: int) -> str:
    """An offset as it is written in file names."""
    assert offset >= 0
    return f"{offset:020d}"


class Segment:
    """One segment. `is_active` while it is the last one, whose indexes are only in memory."""

    __slots__ = (
        "_appended_us",
        "_indexed_to",
        "_offset_index",
        "_path",
        "_time_index",
        "_volume",
        "base_offset",
        "exists",
        "is_active",
        "is_cut",
        "next_offset",
        "opened_us",
        "size_bytes",
        "synced_bytes",
    )

    def __init__(
        self,
        volume: Volume,
        directory: str,
        base_offset: int,
        next_offset: int,
        size_bytes: int,
        exists: bool,
    ) -> None:
        assert next_offset >= base_offset
        assert (next_offset > base_offset) == (size_bytes > 0)
        self._volume = volume
        self._path = f"{directory}/{offset_name(base_offset)}"
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.size_bytes = size_bytes
        self.synced_bytes = size_bytes
        # Whether the file was cut since it was synced, also by a process before: a power cut may bring back
        # what lay behind its end.
        self.is_cut = False
        # Whether the .log file was made.
        self.exists = exists
        self.is_active = False
        # When it was last appended to; None where only its file tells.
        self._appended_us: int | None = None
        # When retention first saw a batch in it; segment_ms counts from here.
        self.opened_us: int | None = None
        empty = size_bytes == 0
        self._offset_index = OffsetIndex() if empty else None
        self._time_index = TimeIndex() if empty else None
        # Position of the last batch in the offset index.
        self._indexed_to = 0

    @property
    def log_path(self) -> str:
        """The file of batches."""
        return self._path + LOG_SUFFIX

    @property
    def is_unsynced(self) -> bool:
        """Whether a power cut may change the file."""
        return self.is_cut or self.synced_bytes < self.size_bytes

    @property
    def latest_us(self) -> int:
        """The latest timestamp in the segment; -1 where it is empty. May read the time index."""
        return self._loaded()[1].latest_us

    # --- age -----------------------------------------------------------------------------------------------

    def appended_us(self) -> int:
        """The time of the last append, by the directory's clock, which is never before it. A time in the
        future was written while the wall clock was wrong, and such a segment would never be old enough.
        Raises OSError."""
        if self._appended_us is None:
            now_us = self._volume.clock.now_us()
            stamped_us = self._volume.files.modified_us(self.log_path)
            self._appended_us = min(stamped_us, now_us)
            if stamped_us > now_us:
                self.stamp_age()
        return self._appended_us

    def was_appended_after(self, moment_us: int) -> None:
        """Note that its file may have been written to under a wrong wall clock, but not before this moment.
        Called by recovery. Raises OSError."""
        self._appended_us = max(self.appended_us(), moment_us)
        self.stamp_age()

    def stamp_age(self) -> None:
        """Set the file's time to that of the last append, if the wall clock said something else. Called
        before the append counts as durable, because a restart knows nothing but the files. Raises OSError."""
        if self._appended_us is None:
            return
        files = self._volume.files
        if abs(files.modified_us(self.log_path) - self._appended_us) > _WALL_TOLERANCE_US:
            files.set_modified_us(self.log_path, self._appended_us)

    # --- reading -------------------------------------------------------------------------------------------

    def read_at(self, size: int, position: int) -> bytes:
        """Bytes of the file. Raises OSError."""
        with self._volume.open_files.lease(self.log_path) as fd:
            return self._volume.files.read_at(fd, size, position)

    def read(
        self,
        fd: int,
        position: int,
        offset: int,
        max_bytes: int,
        end_offset: int,
        expected: BatchesAtRest,
        first_bytes_max: int | None = None,
    ) -> tuple[memoryview, int]:
        """Whole batches from the one at `position` on, which begins at `offset`, as `Log.read_file` says, and
        the offset after them; `fd` is leased. Ends before a batch that is damaged.

        May be called without the log's lock. A cut meanwhile can make nonsense of it. Raises BatchError where
        the first one is damaged, OSError.
        """
        left = max(0, self.size_bytes - position)
        data = self._volume.files.read_at(fd, min(max(max_bytes, _LOCATE_PIECE_BYTES), left), position)
        header = parse(data)
        if header.size_bytes > len(data):
            if first_bytes_max is not None and header.size_bytes > first_bytes_max:
                return memoryview(b""), offset
            # More than there is would be read in vain, and may be any number.
            data = self._volume.files.read_at(fd, min(header.size_bytes, left), position)
        header = expected.check_next(data, 0, offset)
        at = 0
        next_offset = offset
        # The first batch is given however large it is.
        limit = max(header.size_bytes, min(max_bytes, len(data)))
        while header.next_offset <= end_offset:
            at += header.size_bytes
            next_offset = header.next_offset
            if limit - at < HEADER_SIZE_BYTES:
                break
            try:
                header = parse(data, at)
                if at + header.size_bytes > limit:
                    break
                expected.check_next(data, at, next_offset)
            except BatchError:
                break  # Whoever reads on from there hears of it.
        return memoryview(data)[:at], next_offset

    def batches(self, position: int = 0, base_offset: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on, where the batch with `base_offset` begins, or
        from the first on. Raises BatchError, OSError."""
        assert (position == 0) == (base_offset is None)
        first_offset = self.base_offset if base_offset is None else base_offset
        return scan(self.read_at, position, self.size_bytes, False, next_offset=first_offset)

    def locate(self, offset: int) -> tuple[int, BatchHeader]:
        """Position and header of the batch that contains `offset`. Raises BatchError where the file is
        damaged."""
        try:
            return self._located(offset)
        except BatchError:
            # The index may be wrong although its seal is whole, for instance restored from a backup.
            self._rebuild_indexes()
            return self._located(offset)

    def check_end(self) -> None:
        """Check that the segment's last batch ends where the segment does, in bytes and in offsets. Raises
        BatchError, OSError."""
        position, header = self.locate(self.next_offset - 1)
        if (position + header.size_bytes, header.next_offset) != (self.size_bytes, self.next_offset):
            raise CorruptBatch(f"its last batch ends at offset {header.next_offset}, not {self.next_offset}")

    def _located(self, offset: int) -> tuple[int, BatchHeader]:
        """The same as `locate`. Raises BatchError, also if the file does not have what the index or the name
        says."""
        relative_offset, start = self._loaded()[0].entry_before(offset - self.base_offset)
        batches = scan(
            self.read_at, start, self.size_bytes, False, _LOCATE_PIECE_BYTES,
            next_offset=self.base_offset + relative_offset,
        )  # fmt: skip
        for position, header in batches:
            if header.next_offset > offset:
                if header.base_offset > offset:
                    break
                return position, header
        raise CorruptBatch(f"{self.log_path} has no batch with offset {offset}")

    def whole_before(self, offset: int) -> tuple[int, int]:
        """Of a damaged segment: the position and the offset at which its whole batches in front of `offset`
        end. Its indexes know these from then on. Raises OSError."""
        self.forget_indexes()
        position, end_offset = 0, self.base_offset
        try:
            for at, header in self.batches():
                if header.next_offset > offset:
                    break
                self._index(at, header, _REBUILT_INTERVAL_BYTES)
                position, end_offset = at + header.size_bytes, header.next_offset
        except FileNotFoundError:
            self.exists = False
        except BatchError:
            pass
        return position, end_offset

    def batches_from(self, timestamp_us: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from the first that can have this timestamp or a later one, or from before it."""
        offset_index, time_index = self._loaded()
        relative_offset, position = offset_index.entry_at(time_index.position_from(timestamp_us))
        return self.batches(position, self.base_offset + relative_offset if position else None)

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer], size_bytes: int) -> None:
        """Append bytes to the file: all of them or, with an OSError, none. Usually this is one call of the
        operating system."""
        # Now, since they may have to be rebuilt from the file, which is to hold no more than is noted.
        self._loaded()
        files = self._volume.files
        with self._volume.open_files.lease(self.log_path, create=not self.exists) as fd:
            self.exists = True
            try:
                written = files.write_at(fd, buffers, self.size_bytes)
                if written < size_bytes:
                    # Seldom: near the end of the space. What is left goes on until an error says why.
                    rest = b"".join(buffers)
                    while written < size_bytes:
                        written += files.write_at(fd, [rest[written:]], self.size_bytes + written)
            except OSError:
                self._cut_back(fd)
                raise
        self.size_bytes += size_bytes
        self._appended_us = self._volume.clock.now_us()

    def _cut_back(self, fd: int) -> None:
        """Undo a write that failed halfway. If even that fails, the directory takes no more writes."""
        try:
            self._volume.files.truncate(fd, self.size_bytes)
        except OSError as error:
            raise self._volume.disk.fail(error) from error

    def make_file(self) -> None:
        """Make the empty file, so that the log's position outlives a restart. Raises OSError."""
        with self._volume.open_files.lease(self.log_path, create=True):
            self.exists = True

    def note(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Update next offset and indexes for a batch at `position`; called in order."""
        self._index(position, header, index_interval_bytes)
        self.next_offset = header.next_offset

    def adopt(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Take in a batch that recovery found in the file; called in order, beginning with an empty
        segment."""
        assert position == self.size_bytes
        self.note(position, header, index_interval_bytes)
        self.size_bytes += header.size_bytes

    def _index(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        offset_index, time_index = self._loaded()
        if position - self._indexed_to >= index_interval_bytes:
            offset_index.append(header.base_offset - self.base_offset, position)
            time_index.append(position)
            self._indexed_to = position
        time_index.note(header.max_timestamp_us)

    def truncate(self, position: int, next_offset: int) -> None:
        """Cut the file at `position`, in front of the batch that starts at `next_offset`. Raises OSError."""
        assert position <= self.size_bytes
        offset_index, time_index = self._loaded()
        if self.exists:
            self.appended_us()  # A cut is no append.
            with self._volume.open_files.lease(self.log_path) as fd:
                self._volume.files.truncate(fd, position)
            self.is_cut = True
            self.stamp_age()
        self.size_bytes = position
        self.synced_bytes = min(self.synced_bytes, position)
        self.next_offset = next_offset
        self._remove_indexes()
        offset_index.truncate(position)
        time_index.truncate(position)
        self._indexed_to = offset_index.last_position

    def mended(self, size_bytes: int) -> None:
        """Note that the file was written anew, with the same batches; it is on disk. Raises OSError."""
        is_as_before = size_bytes == self.size_bytes
        self.exists = True
        self.size_bytes = self.synced_bytes = size_bytes
        self.is_cut = False
        self._remove_indexes()
        if not self.is_active:
            self._volume.indexes.forget(self)
            self.unload_indexes()
        elif not is_as_before:
            self._rebuild_indexes()

    def remove(self) -> None:
        """Remove the files. Raises OSError."""
        self._volume.indexes.forget(self)
        self._remove_indexes()
        self._volume.open_files.forget(self.log_path)
        if self.exists:
            with suppress(FileNotFoundError):  # An operator has deleted it, or a disk has lost it.
                self._volume.files.remove(self.log_path)

    def give_up_name(self) -> str:
        """Have the file bear another name, which recovery removes if nobody else does; returns that. Raises
        OSError."""
        self._volume.indexes.forget(self)
        self._remove_indexes()
        self._volume.open_files.forget(self.log_path)
        path = self.log_path + TEMPORARY_SUFFIX
        with suppress(FileNotFoundError):  # An operator has deleted it.
            self._volume.files.replace(self.log_path, path)
        return path

    # --- indexes -------------------------------------------------------------------------------------------

    def write_indexes(self) -> None:
        """Write both indexes; called when the segment or its log is closed. Raises OSError."""
        if not self.exists:
            return
        offset_index, time_index = self._loaded()
        write_whole(self._volume.files, self._path + INDEX_SUFFIX, offset_index.encode(), durable=False)
        write_whole(self._volume.files, self._path + TIME_INDEX_SUFFIX, time_index.encode(), durable=False)

    def write_indexes_if_room(self) -> None:
        """Write both indexes, which were made from the file. On a full disk they are made again when they are
        needed: neither opening a log nor reading from it needs room. Raises OSError."""
        try:
            self.write_indexes()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        self._volume.indexes.used(self)

    def drop_indexes(self) -> None:
        """Remove the files of both indexes, which are made again if they are needed. Raises OSError."""
        self._volume.indexes.forget(self)
        self.unload_indexes()
        self._remove_indexes()

    def unload_indexes(self) -> None:
        """Drop the indexes in memory; they are read again when used."""
        if not self.is_active:
            self._offset_index = self._time_index = None

    def activate(self) -> None:
        """Become the last segment: its indexes stay in memory from now on."""
        self.is_active = True
        self._volume.indexes.forget(self)

    def deactivate(self) -> None:
        """Note that a newer segment takes the appends from now on; the indexes were written."""
        self.is_active = False
        self._volume.indexes.used(self)

    def _loaded(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both indexes, which are read or rebuilt if they are not in memory."""
        offset_index, time_index = self._offset_index, self._time_index
        if offset_index is None or time_index is None:
            try:
                files = self._volume.files
                offset_index = OffsetIndex.decode(
                    read_file(files, self._path + INDEX_SUFFIX), self.size_bytes
                )
                time_index = TimeIndex.decode(
                    read_file(files, self._path + TIME_INDEX_SUFFIX), self.size_bytes
                )
            except (CorruptFile, FileNotFoundError):
                return self._rebuild_indexes()
            self._offset_index, self._time_index = offset_index, time_index
            self._indexed_to = offset_index.last_position
            if not self.is_active:
                self._volume.indexes.used(self)
        return offset_index, time_index

    def _rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Read every header of the segment."""
        self.forget_indexes()
        try:
            end_offset = self.base_offset
            for position, header in self.batches():
                self._index(position, header, _REBUILT_INTERVAL_BYTES)
                end_offset = header.next_offset
            if end_offset != self.next_offset:
                raise CorruptBatch(f"{self.log_path} ends at offset {end_offset}, not {self.next_offset}")
        except BatchError:
            self._offset_index = self._time_index = None
            raise
        offset_index, time_index = self._offset_index, self._time_index
        assert offset_index is not None
        assert time_index is not None
        if not self.is_active:
            self.write_indexes_if_room()
        return offset_index, time_index

    def forget_indexes(self) -> None:
        """Start with empty indexes; the caller goes on to `note` every batch. They are not given up before
        they are whole."""
        self._volume.indexes.forget(self)
        self._offset_index = OffsetIndex()
        self._time_index = TimeIndex()
        self._indexed_to = 0

    def _remove_indexes(self) -> None:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._volume.files.exists(self._path + suffix):
                self._volume.files.remove(self._path + suffix)
