"""How a log is read: by offset, from memory or a file, and by timestamp."""

from __future__ import annotations

import threading

from hightide.batch.errors import BatchError
from hightide.batch.header import Buffer

from hightide_broker.storage.checkpoints.leader_epochs import LeaderEpochs
from hightide_broker.storage.errors import CorruptFile, LogClosed, OffsetOutOfRange
from hightide_broker.storage.files.open_files import FileLease
from hightide_broker.storage.log.answers import TimestampFound
from hightide_broker.storage.log.reading import SequentialReads, first_candidate, found_in, segment_with
from hightide_broker.storage.segments.batches_at_rest import BatchesAtRest
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.segments.segment_row import SegmentRow
from hightide_broker.storage.volume.log_files import LogFiles
from hightide_broker.storage.volume.tail import Tail
from hightide_broker.storage.volume.volume import Volume

__all__ = ["ReadableLog"]


class ReadableLog:
    """What reads a log. `Log`, its only subclass, changes it, and makes all that is named here."""

    topic_id: bytes
    partition: int
    epochs: LeaderEpochs
    _volume: Volume
    _files: LogFiles
    _row: SegmentRow
    _lock: threading.RLock
    _start_offset: int
    _end_offset: int
    _truncations: int
    _closed: bool
    _tail: Tail
    _reads: SequentialReads

    def read(self, offset: int, max_bytes: int, end_offset: int) -> list[Buffer]:
        """Whole batches from the one that contains `offset` on, all below `end_offset`.

        At most `max_bytes`, but always one batch where there is one; may end sooner, at the end of a
        segment. Pieces of batches in order, to be joined; a piece need not be a batch. Empty where `offset`
        is at or above `end_offset`. Raises OffsetOutOfRange below the log start offset or above the log end
        offset, and DamagedLog where the batch at `offset` is not what was written.
        """
        in_memory = self.read_memory(offset, max_bytes, end_offset)
        return self.read_file(offset, max_bytes, end_offset) if in_memory is None else in_memory

    def read_memory(self, offset: int, max_bytes: int, end_offset: int) -> list[Buffer] | None:
        """As `read`, but None if that needs a file: then call `read_file` in a thread."""
        self._files.check_usable()
        if not self._start_offset <= offset:
            return None
        in_memory = self._tail.read(offset, max_bytes, end_offset)
        if in_memory is None and not self._closed and offset == self._end_offset:
            return []
        return in_memory

    def read_file(
        self, offset: int, max_bytes: int, end_offset: int, first_bytes_max: int | None = None
    ) -> list[Buffer]:
        """As `read`, from the file; it waits for the disk without the log's lock. Also empty if the log was
        truncated meanwhile, or the first batch, of which the header is read, is over `first_bytes_max`."""
        with self._lock:
            self._check_open()
            if not self._start_offset <= offset <= self._end_offset:
                raise OffsetOutOfRange(offset, self._start_offset, self._end_offset)
            end_offset = min(end_offset, self._end_offset)
            if offset >= end_offset:
                return []
            segment, position, base_offset, lease = self._find(offset)
            truncations, forgotten = self._truncations, self._reads.forgotten
            expected = BatchesAtRest(self.topic_id, self.partition, self.epochs.entries)
        try:
            with self._volume.disk:
                sizes = (max_bytes, end_offset, expected, first_bytes_max)
                batches, next_offset = segment.read(lease.fd, position, base_offset, *sizes)
        except BatchError as error:
            if forgotten == self._reads.forgotten:
                raise self._files.damaged(error, segment.base_offset, offset) from error
            return []
        finally:
            lease.release()
        with self._lock:
            if truncations != self._truncations:
                return []
            if forgotten == self._reads.forgotten and next_offset < segment.next_offset:
                self._reads.note(next_offset, segment, position + len(batches))
        return [batches] if batches else []

    def _find(self, offset: int) -> tuple[Segment, int, int, FileLease]:
        """The segment with an offset, position and base offset of the batch that holds it, and the file, kept
        open."""
        with self._volume.disk:
            try:
                segment, position, base_offset = self._reads.find(self._row.segments, offset)
                return segment, position, base_offset, self._volume.open_files.lease(segment.log_path)
            except (BatchError, CorruptFile, FileNotFoundError) as error:
                if not self._files.is_damage(error):
                    raise
                base_offset = segment_with(self._row.segments, offset).base_offset
                raise self._files.damaged(error, base_offset, offset) from error

    def find_timestamp(self, timestamp_us: int, end_offset: int) -> TimestampFound | None:
        """The first record at or after a timestamp, below `end_offset`; None where there is none.

        Opens one batch by pyarrow, which is imported then. Call it in a thread. Raises DamagedLog, and
        BatchError where the batch was never one.
        """
        offset = self._start_offset
        while True:
            with self._lock:
                self._check_open()
                with self._files:
                    candidate = first_candidate(
                        self._row.segments, timestamp_us, max(offset, self._start_offset), end_offset
                    )
                    if candidate is not None:
                        expected = BatchesAtRest(self.topic_id, self.partition, self.epochs.entries)
                        expected.check(candidate[1], 0, candidate[0])
            if candidate is None:
                return None
            found = found_in(*candidate, timestamp_us, self._start_offset)
            if found is not None:
                return found
            # The header promised more than the records hold; search after it.
            offset = candidate[0].next_offset

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self!r} is closed")
