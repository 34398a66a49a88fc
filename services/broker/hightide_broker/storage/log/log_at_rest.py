"""The files of one log on disk: checking them piece by piece, and repairing damage.

Theory of operation. Disks change and lose bytes without an error; a check finds damage before the records are
needed (`check`). A damaged segment is written anew beside the old one (`SegmentMend`), batch by batch: from
the old file if that is whole, otherwise from what a peer sent. A batch is the same on every replica, byte for
byte.
So the result is what was once written, and replaces the old file in one step. The old file stays in
quarantine for a day. Nothing is deleted before its replacement is on disk. So this replica may be the last
copy of everything else, may lead, and may be written to meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hightide.batch.errors import BatchError, CorruptBatch
from hightide.batch.header import HEADER_SIZE_BYTES, Buffer, parse

from hightide_broker.storage.checkpoints.leader_epochs import LeaderEpochs
from hightide_broker.storage.errors import LogClosed
from hightide_broker.storage.files.open_files import FileLease
from hightide_broker.storage.files.sealed_file import TEMPORARY_SUFFIX
from hightide_broker.storage.log.reading import SequentialReads
from hightide_broker.storage.segments.batches_at_rest import BatchesAtRest
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.segments.segment_row import SegmentRow
from hightide_broker.storage.volume.log_files import LogFiles
from hightide_broker.storage.volume.volume import Volume

__all__ = ["BatchPlace", "LogAtRest", "SegmentMend"]

_PIECE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """A batch of a log at rest: the base offset of its segment, its position in the segment, and its own
    offset."""

    segment: int
    position: int
    offset: int


class LogAtRest:
    """The files of one log. Made by `Log`, and under its lock where it looks at what changes. Call it in a
    thread."""

    __slots__ = (
        "_about",
        "_directory",
        "_epochs",
        "_files",
        "_gaps",
        "_locks",
        "_reads",
        "_row",
        "_start_offset",
        "_volume",
    )

    def __init__(
        self,
        volume: Volume,
        directory: str,
        files: LogFiles,
        row: SegmentRow,
        epochs: LeaderEpochs,
        reads: SequentialReads,
        locks: tuple[threading.RLock, threading.Lock],
        about: tuple[str, bytes, int],
        start_offset: Callable[[], int],
        gaps: Sequence[tuple[int, int]],
    ) -> None:
        """`locks` are the log's own and that of its flushes; `about` is topic, topic id and partition.
        `start_offset` is below which nobody may read, so that what is there need not be whole. `gaps` as in
        `OpenedLog`."""
        self._volume = volume
        self._directory = directory
        self._files = files
        self._row = row
        self._epochs = epochs
        self._reads = reads
        self._locks = locks
        self._about = about
        self._start_offset = start_offset
        self._gaps = gaps

    def report_gaps(self) -> bool:
        """Report as damage what the log was found to lack in the middle when it was opened, and damage that
        was known before, and say whether there is any. Called once a replica uses the log, which was opened
        before to look at it."""
        for segment, offset in self._gaps:
            self._files.damaged("it does not end where the next segment begins", segment, offset)
        if front := self.missing_front():
            self._files.damaged("it begins later than it should", front[1], front[0])
        if self._files.is_damaged and not self._gaps and not front:
            self._files.damaged("it was damaged when it was closed")
        return bool(self._gaps) or bool(front) or self._files.is_damaged

    def note_damage(self, *, is_damaged: bool) -> None:
        """Take note that the log is damaged, or whole again, so that the next life of the broker knows it.
        Called by whoever mends it."""
        self._files.is_damaged = is_damaged

    @property
    def expected(self) -> BatchesAtRest:
        """The properties that its batches must have."""
        _, topic_id, partition = self._about
        return BatchesAtRest(topic_id, partition, self._epochs.entries)

    def segments(self) -> list[int]:
        """The base offsets of all segments."""
        with self._locks[0]:
            return sorted(self._row.base_offsets())

    def missing_front(self) -> tuple[int, int] | None:
        """Where the log should begin, and where its first segment does, if its oldest records are missing.
        No repair brings them back: it fetches what is in a segment. It ends when they are deleted."""
        with self._locks[0]:
            start, base = self._start_offset(), self._row.base_offset
            return (start, base) if start < base else None

    def restore_epochs(self) -> None:
        """Write the file of the leader epochs again if it is gone. Raises LogClosed, StorageFailed,
        DiskFull."""
        with self._locks[0], self._files:
            self._check_open()
            if self._volume.files.exists(self._directory):
                self._epochs.restore_file()

    def lacking(self) -> list[int]:
        """The base offsets of segments whose files are gone, or have another size than they should. Raises
        StorageFailed."""
        with self._locks[0]:
            sizes = [(each, each.size_bytes, each.is_active) for each in self._row.segments if each.exists]
        found = []
        for segment, size_bytes, is_active in sizes:
            with self._volume.disk:
                try:
                    self._check_size(segment, size_bytes, is_active)
                except (BatchError, FileNotFoundError) as error:
                    if not self._files.is_damage(error):
                        raise
                    found.append(segment.base_offset)
        return found

    def check(self, place: BatchPlace | None, max_bytes: int) -> tuple[BatchPlace | None, int]:
        """Check the batches from a place on, or from the start of the log, up to so many bytes, but at least
        one; those that nobody may read any more need not be whole. Gives where to go on, None at the end of
        the log, and the bytes that were read.

        What is appended meanwhile is left for the next time. Raises DamagedLog, LogClosed, StorageFailed.
        """
        with self._locks[0]:
            self._check_open()
            segment = self._segment_from(0 if place is None else place.segment)
            if segment is None:
                return None, 0
            if segment.next_offset <= self._start_offset() and not segment.is_active:
                return BatchPlace(segment.next_offset, 0, segment.next_offset), 0
            if place is None or place.segment != segment.base_offset:
                place = BatchPlace(segment.base_offset, 0, segment.base_offset)
            size_bytes, end_offset, is_active = segment.size_bytes, segment.next_offset, segment.is_active
            version = self._reads.forgotten
        behind = None if is_active else BatchPlace(end_offset, 0, end_offset)
        if place.position >= size_bytes:
            return behind, 0
        reached = place
        failure: BatchError | FileNotFoundError | None = None
        with self._volume.disk:
            try:
                self._check_size(segment, size_bytes, is_active)
                with self._volume.open_files.lease(segment.log_path) as fd:
                    data = self._read(fd, place.position, size_bytes, max_bytes)
                for position, offset in _walk(data, place.offset, self.expected):
                    reached = BatchPlace(place.segment, place.position + position, offset)
                if reached.position == size_bytes and reached.offset != end_offset:
                    raise CorruptBatch(f"its last offset is {reached.offset - 1}, and not {end_offset - 1}")
            except (BatchError, FileNotFoundError) as error:
                failure = error
                if not self._files.is_damage(error):
                    raise
        if failure is not None:
            with self._locks[0]:
                self._check_open()
                if version != self._reads.forgotten:
                    return behind, 0  # The log was truncated meanwhile: the bytes there are others now.
                if (needed := self._first_needed(segment, reached.offset)) is not None:
                    return needed, reached.position - place.position
            raise self._files.damaged(failure, reached.segment, reached.offset) from failure
        return (reached if reached.position < size_bytes else behind), reached.position - place.position

    def _first_needed(self, segment: Segment, damaged: int) -> BatchPlace | None:
        """Where the log begins in a segment, if the batch that is damaged lies before it, and that can be
        found. Under the log's lock."""
        start = self._start_offset()
        if not segment.base_offset <= damaged < start:
            return None
        if start >= segment.next_offset:
            return BatchPlace(segment.base_offset, segment.size_bytes, segment.next_offset)
        with self._volume.disk:
            try:
                position, header = segment.locate(start)
            except (BatchError, FileNotFoundError):
                return None
        if header.base_offset <= damaged:
            return None
        return BatchPlace(segment.base_offset, position, header.base_offset)

    def _read(self, fd: int, position: int, end: int, max_bytes: int) -> bytes:
        """Bytes that begin with a batch, which is whole if it is whole in the file."""
        files = self._volume.files
        data = files.read_at(fd, min(max(max_bytes, HEADER_SIZE_BYTES), end - position), position)
        size_bytes = parse(data).size_bytes
        if size_bytes > end - position:
            raise CorruptBatch(f"the batch is said to have {size_bytes} bytes; {end - position} are left")
        return data if size_bytes <= len(data) else files.read_at(fd, size_bytes, position)

    def _check_size(self, segment: Segment, size_bytes: int, is_active: bool) -> None:
        """The file has to be opened by its name, because an open file could be read although it is gone."""
        found = self._volume.files.size(segment.log_path)
        if found < size_bytes or (found > size_bytes and not is_active):
            raise CorruptBatch(f"{segment.log_path} has {found} bytes, and not {size_bytes}")

    def _segment_from(self, base_offset: int) -> Segment | None:
        for segment in self._row.segments:
            if segment.base_offset >= base_offset:
                return segment
        return None

    def _check_open(self) -> None:
        if self._files.is_closed:
            raise LogClosed(f"{self._about[0]}-{self._about[2]} is closed")

    def mend(self, base_offset: int) -> SegmentMend | None:
        """Begin to write a segment anew; None if the segment does not exist any more. The result must be
        closed.

        Raises LogClosed, StorageFailed, DiskFull.
        """
        with self._locks[0], self._files:
            self._check_open()
            self._files.check_changeable()
            segment = self._segment_from(base_offset)
            if segment is None or segment.base_offset != base_offset:
                return None
            if not self._volume.files.exists(self._directory):
                topic, topic_id, partition = self._about
                self._row.make_directory({"topic": topic, "topic_id": topic_id.hex(), "partition": partition})
            self._epochs.restore_file()
            return SegmentMend(self, segment, self._reads.forgotten)

    def put_in_place(self, mend: SegmentMend, segment: Segment, version: int) -> bool:
        """Replace a segment's file by the new one. Called by `SegmentMend`."""
        log_lock, flush_lock = self._locks
        # A flush under way vouches for the old file.
        with flush_lock, log_lock, self._files:
            self._check_open()
            if version != self._reads.forgotten or segment not in self._row.segments:
                return False
            if mend.go_on() is not None:
                return False  # Records that were appended meanwhile are damaged, too.
            mend.publish(self._directory)
            self._row.size_bytes += mend.size_bytes - segment.size_bytes
            segment.mended(mend.size_bytes)
            self._reads.forget()
            return True

    def lease(self, segment: Segment) -> FileLease | None:
        """The damaged file, kept open; None if it is missing."""
        with self._volume.disk:
            try:
                return self._volume.open_files.lease(segment.log_path)
            except FileNotFoundError:
                return None

    @property
    def volume(self) -> Volume:
        """What all logs of the directory share."""
        return self._volume


class SegmentMend:
    """One segment that is written anew: `go_on`, `take` what it asks for, and so on; then `finish`."""

    def __init__(self, log: LogAtRest, segment: Segment, version: int) -> None:
        """Called by `LogAtRest.mend`, under the log's lock."""
        self._log = log
        self._volume = log.volume
        self._segment = segment
        self._version = version
        self._path = segment.log_path + TEMPORARY_SUFFIX
        self._fd = self._volume.files.open(self._path, create=True)
        self._volume.files.truncate(self._fd, 0)
        self._old = log.lease(segment)
        self._offset = segment.base_offset
        self._copied_bytes = 0
        self.size_bytes = 0
        """Bytes of the new file so far."""
        self.taken = 0
        """How many batches came from peers."""
        self.kept_at: str | None = None
        """Where the old file is kept; None before `finish`, and if it is missing, all of it was copied, or it
        is not kept (`Quarantine.keep_damaged`)."""

    @property
    def end_offset(self) -> int:
        """Where the segment ends; the active one may grow."""
        return self._segment.next_offset

    def go_on(self) -> int | None:
        """Copy what is whole in the old file; the offset of the first batch that is not, None where nothing
        is missing. Raises StorageFailed, DiskFull."""
        with self._volume.disk:
            while self._offset < self._segment.next_offset:
                if not self._copy():
                    return self._offset
        return None

    def _copy(self) -> bool:
        """Copy a piece; returns whether there was a whole batch."""
        end = self._segment.size_bytes
        if self._old is None or self.size_bytes >= end:
            return False
        files, size = self._volume.files, min(_PIECE_BYTES, end - self.size_bytes)
        data = files.read_at(self._old.fd, size, self.size_bytes)
        with suppress(BatchError):
            size_bytes = parse(data).size_bytes
            if len(data) < size_bytes <= end - self.size_bytes:
                data = files.read_at(self._old.fd, size_bytes, self.size_bytes)
        before = self.size_bytes
        self._write(data)
        self._copied_bytes += self.size_bytes - before
        return self.size_bytes > before

    def take(self, batches: Buffer) -> int:
        """Add a peer's batches at the offset that `go_on` returned; returns how many of them fit. Raises
        StorageFailed, DiskFull."""
        with self._volume.disk:
            count = self._write(batches)
        self.taken += count
        return count

    def _write(self, data: Buffer) -> int:
        """Write the whole batches at the start of some bytes, as far as they go on from the last; how
        many."""
        at = count = 0
        with suppress(BatchError):
            for at_next, offset in _walk(data, self._offset, self._log.expected):
                if offset > self._segment.next_offset:
                    break
                at, count, self._offset = at_next, count + 1, offset
        written = 0
        while written < at:
            piece = memoryview(data)[written:at]
            written += self._volume.files.write_at(self._fd, [piece], self.size_bytes + written)
        self.size_bytes += at
        return count

    def finish(self) -> bool:
        """Put the new file in the place of the old one, durably. False where the log was cut at either end
        meanwhile, or more of it is damaged: it is to be begun again. Raises LogClosed, StorageFailed,
        DiskFull."""
        with self._volume.disk:
            self._volume.files.sync(self._fd)  # Most of it now, while no caller waits for the log's lock.
        return self._log.put_in_place(self, self._segment, self._version)

    def publish(self, directory: str) -> None:
        """Called with the log's lock held. Raises OSError."""
        files = self._volume.files
        files.sync(self._fd)
        self._keep_old()
        files.replace(self._path, self._segment.log_path)
        self._volume.open_files.forget(self._segment.log_path)
        files.sync_directory(directory)

    def _keep_old(self) -> None:
        """Keep the old file, if there is anything in it that the new one does not have."""
        path, volume = self._segment.log_path, self._volume
        try:
            size_bytes = volume.files.size(path)
        except FileNotFoundError:
            return
        if size_bytes != self._copied_bytes:
            self.kept_at = volume.quarantine.keep_damaged(path, volume.clock.now_us())

    def close(self) -> None:
        """Close both files; a new file that was not put in place is deleted. Once. Raises StorageFailed."""
        if self._old is not None:
            self._old.release()
        self._volume.files.close(self._fd)
        with self._volume.disk, suppress(FileNotFoundError):
            self._volume.files.remove(self._path)


def _walk(data: Buffer, offset: int, expected: BatchesAtRest) -> Iterator[tuple[int, int]]:
    """Where each whole batch ends, and the offset after it; the first begins at `offset`. A last one that is
    not whole is left. Raises BatchError at the first that is not what it must be."""
    at = 0
    while at == 0 or len(data) - at >= HEADER_SIZE_BYTES:
        if at > 0 and parse(data, at).size_bytes > len(data) - at:
            return
        header = expected.check_next(data, at, offset)
        at += header.size_bytes
        offset = header.next_offset
        yield at, offset
