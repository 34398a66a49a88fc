"""One partition's log: appending, reading, truncating at either end, and syncing.

Theory of operation. A log is a row of segments (`segment_row`). An append is one write at its end; then the
offsets in memory move. A write that fails is truncated, so the log is always whole batches. Appending syncs
nothing: `flush` syncs from a thread what was written so far (`unsynced`), and `durable_end_offset` follows.
`log_opening` opens and recovers a log, `tail` keeps the last batches in memory, `reading` finds the others,
and `retention` decides which segments may be deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from hightide.batch.header import BatchHeader, Buffer

from hightide_broker.storage.checkpoints.leader_epochs import EpochStart
from hightide_broker.storage.errors import DamagedLog, DiskFull
from hightide_broker.storage.log.answers import AppendInfo, OpenedLog, TimestampFound
from hightide_broker.storage.log.log_at_rest import LogAtRest
from hightide_broker.storage.log.log_promises import LogPromises
from hightide_broker.storage.log.producer_states import ProducerState, ProducerStates
from hightide_broker.storage.log.readable_log import ReadableLog
from hightide_broker.storage.log.reading import SequentialReads
from hightide_broker.storage.log.replicated_batches import ExpectedBatches
from hightide_broker.storage.log.retention import (
    NO_REASONS,
    DeletedRecords,
    ExpiredRecords,
    RetentionReason,
    expired,
)
from hightide_broker.storage.log.snapshots import ProducerSnapshots
from hightide_broker.storage.log.stamping import stamped
from hightide_broker.storage.log.unsynced import UnsyncedCuts, UnsyncedSegments
from hightide_broker.storage.segments.segment_row import SegmentRow
from hightide_broker.storage.settings import LogSettings
from hightide_broker.storage.volume.tail import Tail, TailBatch, worth_keeping
from hightide_broker.storage.volume.volume import Volume

__all__ = ["AppendInfo", "Log", "TimestampFound"]


class Log(ReadableLog):
    """One partition's log; made by `DataDirectory.log`.

    Any thread may call any method. A lock inside keeps them apart, and is never held over an fsync or a
    deletion. Calls are meant for the event loop (tens of microseconds, a page-cache write or read), except
    `flush`, those about retention, `find_timestamp` and `close`, which belong in a thread. Every method that
    reads or writes raises StorageFailed after the data directory's first I/O error, LogClosed once closed,
    and DamagedLog if the bytes on disk are not what was written.
    """

    def __init__(
        self,
        volume: Volume,
        directory: str,
        topic_id: bytes,
        partition: int,
        topic_name: str,
        settings: LogSettings,
        opened: OpenedLog,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.topic_name = topic_name
        self.settings = settings
        self.high_watermark_checkpoint = opened.high_watermark  # of the start; 0 where there was none
        self.recovery_point_checkpoint = opened.recovery_point  # kept up to date by the data directory
        self.lost_data = opened.lost_data  # it has less than it had
        self._gaps = opened.gaps
        self.lacks_front = opened.segments[0].base_offset > opened.start_offset  # its oldest are missing
        self.epochs = opened.epochs
        self.deleted = DeletedRecords()  # by retention
        self._volume = volume
        self._files = opened.files
        self._directory = directory
        self._row = SegmentRow(volume, directory, opened.segments, has_directory=opened.has_directory)
        self._lock = threading.RLock()
        self._flush_lock = threading.Lock()
        self._start_file = opened.start_file
        self.promises = LogPromises(self, self._lock, opened.files, opened.start_file, opened.mark)
        self._end_offset = self._durable_end_offset = opened.segments[-1].next_offset
        self._start_offset = opened.start_offset
        # Counts truncations, so that a flush that was under way does not vouch for what came after one.
        self._truncations = 0
        self.cuts = UnsyncedCuts(volume, directory, self._row, opened.epochs, opened.may_hold_cuts)
        self._changed = self._closed = False
        self._tail = Tail(volume.tails)
        self._reads = SequentialReads()
        self._snapshots = ProducerSnapshots(volume.files, directory, opened.epochs)
        self._producers: ProducerStates | None = None

    def __repr__(self) -> str:
        return f"<Log {self.topic_name}-{self.partition} {self.log_start_offset}..{self.log_end_offset}>"

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read. The batch that holds it may begin before it."""
        return self._start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will have."""
        return self._end_offset

    @property
    def durable_end_offset(self) -> int:
        """The offset below which all records are on disk (fsynced)."""
        return self._durable_end_offset

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return self._row.size_bytes

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Sizes of all segments and of the active one, and how many there are; for the checkpoint."""
        return self._row.size_bytes, self._row.active.size_bytes, len(self._row.segments)

    @property
    def data_directory(self) -> str:
        """The path of the data directory that it lives in."""
        return self._volume.path

    @property
    def is_closed(self) -> bool:
        """Whether the log is closed."""
        return self._closed

    @property
    def producers(self) -> ProducerStates:
        """The producers' states; read from disk on first use, and after a truncation."""
        with self._lock, self._files:
            if self._producers is None:
                self._producers = self._restore_producers()
            return self._producers

    def describe_producers(self, producer_ids: Collection[int]) -> list[ProducerState]:
        """The state of these producers, or of all if none is named. Call it in a thread."""
        with self._lock:
            self._check_open()
            return self.producers.describe(producer_ids)

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that were silent for long; `now_ms` is of a clock that cannot jump. Call it in a
        thread."""
        with self._lock:
            if self._producers is not None:
                self._producers.expire(now_ms, self._volume.settings.producer_expiry_ms)

    @property
    def at_rest(self) -> LogAtRest:
        """The files of the log on disk. Made anew: kept, those of ten thousand logs would take megabytes."""
        about = (self.topic_name, self.topic_id, self.partition)
        return LogAtRest(
            self._volume, self._directory, self._files, self._row, self.epochs, self._reads,
            (self._lock, self._flush_lock), about, lambda: self._start_offset, self._gaps,
        )  # fmt: skip

    # --- appending -----------------------------------------------------------------------------------------

    def append_as_leader(
        self, batches: Buffer, headers: Sequence[BatchHeader], leader_epoch: int
    ) -> AppendInfo:
        """Stamp and append batches that `check_from_producer` and `producers.check_all` have passed.

        `headers` are what `check_from_producer(batches, …)` returned. One write call. The log may keep
        `batches` alive for its tail; it never changes them. Raises DiskFull (nothing was appended),
        StorageFailed.
        """
        assert headers
        assert leader_epoch >= self.epochs.latest, (leader_epoch, self.epochs.latest)
        with self._lock:
            if leader_epoch <= self.cuts.torn_epoch:
                with self._files:
                    self.cuts.sync()
            offset, ours = self._end_offset, []
            for header in headers:
                ours.append(header.stamped(offset, leader_epoch))
                offset += header.record_count
            to_disk, in_tail = stamped(batches, ours)
            return self._append(to_disk, in_tail, tuple(ours), len(batches))

    def append_as_follower(self, batches: Buffer) -> AppendInfo:
        """Append what a leader sent, as it is. Checks CRCs, where it starts, and that epochs rise.

        Assigns leader epochs as they appear in the batches. Raises BatchError, AppendOutOfOrder, DiskFull,
        StorageFailed; in all cases nothing was appended.
        """
        view = memoryview(batches)
        with self._lock:
            headers = ExpectedBatches(
                repr(self), self.topic_id, self.partition, self._end_offset, self.epochs.latest
            ).check(view)
            if headers and headers[0].leader_epoch < self.cuts.latest_epoch:
                with self._files:
                    self.cuts.sync()
            if not worth_keeping(view):
                view = memoryview(bytes(view))
            in_tail, at = [], 0
            for header in headers:
                piece = view[at : at + header.size_bytes]
                in_tail.append(TailBatch(header.base_offset, header.next_offset, len(piece), (piece,)))
                at += header.size_bytes
            return self._append([view], in_tail, headers, len(view))

    def _append(
        self,
        to_disk: Sequence[Buffer],
        in_tail: Sequence[TailBatch],
        headers: tuple[BatchHeader, ...],
        size_bytes: int,
    ) -> AppendInfo:
        """Write stamped and checked batches; if that worked, move the log end."""
        with self._files:
            rolled = self._make_ready(size_bytes, headers[-1].next_offset)
            states = self._producers if self._producers is not None else self._restore_producers()
            self._producers = states
            position = self._row.active.size_bytes
            epochs = self.epochs.entries
            self.epochs.begin(EpochStart(each.leader_epoch, each.base_offset) for each in headers)
            try:
                segment = self._row.write(to_disk, size_bytes)
            except OSError:
                self.epochs.undo(epochs)
                self.cuts.note_torn(headers)
                raise
            for header in headers:
                segment.note(position, header, self.settings.index_interval_bytes)
                position += header.size_bytes
                states.update(header)
        assert position == segment.size_bytes
        base_offset, self._end_offset = self._end_offset, segment.next_offset
        self.promises.note()
        if size_bytes <= self._volume.tails.bytes_per_log_max:
            self._tail.append(in_tail)
        return AppendInfo(base_offset, self._end_offset, size_bytes, headers, rolled)

    def _make_ready(self, size_bytes: int, end_offset: int) -> bool:
        """Before an append: make sure that there is a directory, and room in the segment. Returns whether it
        rolled."""
        self._check_changeable()
        self._changed = True
        self._make_directory()
        self.promises.prepare()
        if self._row.has_room_for(size_bytes, end_offset, self.settings.segment_bytes):
            return False
        self._roll()
        return True

    def _make_directory(self) -> None:
        """Make the log's directory if it does not exist yet."""
        if not self._row.has_directory:
            self._row.make_directory(
                {"topic": self.topic_name, "topic_id": self.topic_id.hex(), "partition": self.partition}
            )
        self.epochs.directory_made()

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note where an epoch starts; called on becoming leader, before it appends. The first append of the
        epoch writes it, so that an election waits for no disk. On a disk that was full it is written at once:
        who cannot take a record is not to lead. Raises DiskFull, StorageFailed."""
        with self._lock:
            self._check_changeable()
            assert start_offset >= self._end_offset, (start_offset, self._end_offset)
            if self._files.was_full and self._row.has_directory:
                with self._files:
                    self.epochs.begin((EpochStart(leader_epoch, start_offset),))
                self._files.has_room()
            else:
                self.epochs.assign(leader_epoch, start_offset)

    # --- cutting off ---------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, *, durable: bool = False) -> int:
        """Truncate everything from `offset` on; return the new log end. Called by a follower.

        `durable` waits for the disk: no power cut brings the records back.

        If `offset` is inside a batch, the whole batch goes; below the log start offset, everything goes and
        the start stays. At or above the log end no record goes, only epochs that begin there.
        """
        with self._lock:
            self._check_changeable()
            base_offset = self._row.base_offset  # After the start if the front is missing.
            if (
                offset <= self._start_offset < self._end_offset and self._start_offset > base_offset
            ) or self._start_offset <= offset < base_offset:
                self.truncate_and_start_at(max(offset, self._start_offset))
                return self._end_offset
            try:
                with self._files:
                    self.cuts.note()
                    if offset >= self._end_offset:
                        self.epochs.truncate_to(offset)
                    else:
                        self.promises.cutting()
                        self._cut(offset)
                        if self._end_offset < self._start_offset:  # Both were in one batch.
                            self.truncate_and_start_at(self._start_offset)
                        if durable and self.cuts.may_come_back:
                            self.cuts.sync()
            finally:
                self.promises.note()
            return self._end_offset

    def _cut(self, offset: int) -> None:
        self._note_cut()
        self._end_offset = self._row.truncate_to(offset, self._files)
        self._durable_end_offset = min(self._durable_end_offset, self._end_offset)
        self._tail.truncate_to(self._end_offset)
        self.epochs.truncate_to(self._end_offset)
        self.cuts.sync_below(self.recovery_point_checkpoint, self._durable_end_offset)
        self._snapshots.prune(self._row.base_offsets(), self._end_offset)

    def truncate_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at `offset`; called by a follower that ends below its leader's start. No
        power cut brings the records back. The start is durable, as anything, after the next `flush`."""
        assert offset >= 0
        with self._lock, self._start_file.lock:
            self._check_changeable()
            with self._files:
                self._make_directory()
                self.promises.cutting(offset)
                try:
                    self._start_file.begin_at(offset)
                except OSError:
                    self.promises.note()  # All is as it was.
                    raise
                self._note_cut()
                self.cuts.note()
                self._snapshots.prune((), -1)
                self._row.begin_anew(offset)
                self._start_offset = self._end_offset = offset
                self._durable_end_offset = offset if self._start_file.is_durable else 0
                self._tail.clear()
                self.epochs.rebuild(())
                self._producers = ProducerStates(self._volume.settings.producers_per_log_max)
            self.promises.note()

    def move_start(self, offset: int) -> None:
        """Allow no reads below `offset` from now on, which touches no file and cannot fail. `persist_start`
        makes it durable; `delete_before_start` also deletes the segments below. It never moves the start
        back."""
        with self._lock:
            assert offset <= self._end_offset, (offset, self._end_offset)
            self._start_offset = self._start_file.wanted = max(self._start_offset, offset)

    def persist_start(self) -> None:
        """Store durably where `move_start` has let the log begin. Call it in a thread. Raises LogClosed,
        StorageFailed, DiskFull."""
        self._check_writable()
        if self.cuts.may_come_back and self._durable_end_offset < self._start_file.wanted:
            self.flush()  # Else a power cut leaves other records below it than those that were deleted.
        with self._files:
            self._start_file.write()
        self.promises.renew()

    def _note_cut(self) -> None:
        self._changed = True
        self._truncations += 1
        self._reads.forget()
        self._producers = None

    # --- durability ----------------------------------------------------------------------------------------

    def flush(self) -> int:
        """Sync everything appended so far; return the durable end offset. Call it in a thread.

        A failed fsync is final for the data directory: StorageFailed, now and from every later write.
        """
        with self._flush_lock:
            with self._files:
                self._start_file.sync()
            with self._lock:
                self._check_writable()
                if self._durable_end_offset == self._end_offset and not self._row.is_unsynced:
                    return self._durable_end_offset
                end_offset, truncations = self._end_offset, self._truncations
                with self._files:
                    unsynced = UnsyncedSegments.of(self._row.segments, self._volume.open_files)
                names_unsynced, self._row.names_unsynced = self._row.names_unsynced, False
            try:
                unsynced.sync(self._volume, self._files, self.epochs, self._row if names_unsynced else None)
            except DamagedLog:
                with self._lock:
                    self._row.names_unsynced |= names_unsynced
                raise
            with self._lock:
                # After a truncation meanwhile, the present bytes may not be those that were synced.
                if truncations == self._truncations and self._start_file.is_durable:
                    unsynced.note_synced()
                    self._durable_end_offset = max(self._durable_end_offset, end_offset)
                return self._durable_end_offset

    @property
    def truncations(self) -> int:
        """How often something was cut off, or the log began anew."""
        return self._truncations

    def find_expired(
        self, now_us: int, high_watermark: int, leaders_log_start: int = 0
    ) -> ExpiredRecords | None:
        """What may go by age and size, none with an offset at or above `high_watermark`; None if that is
        nothing, and nothing is left to do. What ends at or before the log start may go in any case, and for a
        follower, what ends at or before `leaders_log_start`.

        `now_us` is of the data directory's clock (`ageing`). Age counts from the last append to a segment,
        not from the records' timestamps: old records that are loaded today are kept as long as new ones. Also
        closes a segment that is older than segment_ms. Call it in a thread.

        It changes no offset: its caller does, who knows what is committed then, if `truncations` is as it
        was (`move_start`). After that, `delete_before_start`.
        """
        with self._lock:
            self._check_writable()
            with self._files:
                self._close_if_old(now_us)
                lowest = max(leaders_log_start, self._start_offset)
                reasons = expired(self._row.segments, self.settings, now_us, high_watermark, lowest)
            gone = self._row.segments[: len(reasons)]
            if not gone and self._start_file.wanted <= self._start_file.offset:
                return None
            start_offset = max([self._start_offset, *(segment.next_offset for segment in gone)])
            by_segment = zip((segment.base_offset for segment in gone), reasons, strict=True)
            return ExpiredRecords(start_offset, self._truncations, dict(by_segment))

    def _close_if_old(self, now_us: int) -> None:
        active = self._row.active
        if active.opened_us is None and active.size_bytes:
            active.opened_us = now_us
        elif active.opened_us is not None and now_us - active.opened_us > self.settings.segment_ms * 1000:
            try:
                with self._files:
                    self._roll()
            except DiskFull:
                return  # Others make room perhaps, and retention asks again.

    def delete_before_start(self, reasons: Mapping[int, RetentionReason] = NO_REASONS) -> None:
        """Store durably where the log begins, and delete the segments that end there or before. Call it in a
        thread. Raises LogClosed, StorageFailed; DiskFull where that is not stored and nothing was deleted.

        `reasons` are those of segments, by their base offsets.
        """
        unwritten = self._start_unwritten()
        if unwritten is not None:
            # Their room is enough as a rule. Else a power cut could leave a log that seems to lack its front.
            with self._lock, self._files:
                self._row.drop_indexes_before(self._start_offset)
            unwritten = self._start_unwritten()
        with self._lock:
            self._check_writable()
            count = sum(1 for _ in self._row.ending_before(self._start_offset))
            if count == 0:
                if unwritten is not None:
                    raise unwritten
                return
            with self._files:
                self._changed = True
                if count == len(self._row.segments):
                    count -= self._could_not_roll(count)
                if self._row.hold_place() or unwritten is not None:
                    self._volume.files.sync_directory(self._directory)
            if unwritten is not None:
                # A first segment that begins later than is written down says that one is missing.
                self.promises.note_start()
        while count and self._delete_oldest(reasons):
            count -= 1
        # These need room, which may have come with the segments only. A log can do without: epochs that begin
        # before it are true, and the start is written by a later round.
        with self._lock, suppress(DiskFull), self._files:
            if not self._closed:  # It may be in quarantine by now.
                self._snapshots.prune(self._row.base_offsets(), self._end_offset)
                self.epochs.begin_at(self._row.base_offset)
        if unwritten is not None:
            self._start_unwritten()

    def _delete_oldest(self, reasons: Mapping[int, RetentionReason]) -> bool:
        """Delete the oldest segment; False if it is not before the log start any more.

        Its file loses its name under the lock, which is quick. A log that begins anew makes a file of the
        same name, perhaps.
        """
        with self._lock:
            oldest = next(iter(self._row.ending_before(self._start_offset)), None)
            if self._closed or oldest is None or oldest.is_active:
                return False
            with self._files:
                path = self._row.let_go(oldest)
            self.deleted.note(oldest.size_bytes, reasons.get(oldest.base_offset, RetentionReason.START))
            self._reads.forget()
        with self._files, suppress(FileNotFoundError):  # It may be in quarantine by now.
            self._volume.files.remove(path)
        return True

    def _start_unwritten(self) -> DiskFull | None:
        """Store where the log begins; a full disk may prevent it until retention makes room."""
        try:
            self.persist_start()
        except DiskFull as full:
            return full
        return None

    def _could_not_roll(self, expired: int) -> bool:
        """Close the active segment, so that all may go. On a full disk it stays if others make room."""
        try:
            with self._files:
                self._roll()
        except DiskFull:
            if expired == 1:
                raise
            return True
        return False

    def roll(self) -> None:
        """Close the active segment; the next append starts a new one. Does nothing if it is empty."""
        with self._lock:
            self._check_writable()
            with self._files:
                self._roll()

    def _roll(self) -> None:
        active = self._row.active
        if active.size_bytes == 0:
            return
        self._check_changeable()
        # If any of this fails for want of space, the log stays as it was.
        self.cuts.sync_below(self.recovery_point_checkpoint, self._durable_end_offset)
        if self.cuts.may_come_back:
            # Else a power cut may leave what was cut off, and behind it what followed its replacement.
            self.cuts.sync()
        active.write_indexes()
        self._snapshots.write(active.next_offset, self.producers)
        self._row.begin_segment()
        self._snapshots.prune(self._row.base_offsets(), self._end_offset)

    @property
    def takes_nothing_yet(self) -> bool:
        """Whether it takes nothing before `keep_aside` has found room."""
        return self._files.unkept is not None

    def keep_aside(self) -> None:
        """Keep aside what recovery cut off, if there was no room for it. Call it in a thread. Raises
        LogClosed, StorageFailed, DiskFull."""
        self._check_writable()
        self._files.keep_aside()

    def update_settings(self, settings: LogSettings) -> None:
        """Apply changed settings from the next call on."""
        with self._lock:
            self.promises.flush_changes(settings.flush)
            self.settings = settings

    def close(self) -> None:
        """Flush, write indexes and the producer snapshot, and close files. May be called twice."""
        if self._closed:
            return
        if self._row.has_directory:
            self.flush()
            # No caller was told that this start is durable, for which there was no room. The records above it
            # matter.
            self._start_unwritten()
            with self._lock, self._files:
                self.epochs.sync(anyway=self.cuts.may_come_back)
                if self._changed:
                    self._row.active.write_indexes()
                    self._snapshots.write(self._end_offset, self.producers)
                    self._snapshots.prune(self._row.base_offsets(), self._end_offset)
                    # Else a power cut may bring back the indexes of an earlier stop, which lack the end.
                    self._volume.files.sync_directory(self._directory)
        self.abandon()

    def abandon(self) -> None:
        """Close files without writing anything; called if the disk failed or the data is to be deleted."""
        with self._lock:
            self._closed = self._files.is_closed = True
            self._tail.clear()
            self._row.close()

    # -------------------------------------------------------------------------------------------------------

    def _restore_producers(self) -> ProducerStates:
        """The states as of the log end: the newest snapshot and the headers behind it."""
        states = ProducerStates(self._volume.settings.producers_per_log_max)
        if self._row.has_directory:
            self._snapshots.restore(states, self._row.segments)
        return states

    def _check_writable(self) -> None:
        self._check_open()
        self._files.check_usable()

    def _check_changeable(self) -> None:
        self._check_writable()
        self._files.check_changeable()
