"""The part of a log that is written and not known to be on disk: gathered under the log's lock, synced
without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hightide.batch.header import NO_EPOCH, BatchHeader

from hightide_broker.storage.checkpoints.leader_epochs import LeaderEpochs
from hightide_broker.storage.errors import LogClosed
from hightide_broker.storage.files.open_files import FileLease, OpenFiles
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.segments.segment_row import SegmentRow
from hightide_broker.storage.volume.log_files import LogFiles
from hightide_broker.storage.volume.volume import Volume

__all__ = ["UnsyncedCuts", "UnsyncedSegments"]

_ANY_EPOCH: Final = 2**31 - 1
"""A number larger than any leader epoch."""


@dataclass(frozen=True, slots=True)
class UnsyncedSegments:
    """The segments that were written to or cut and are not synced, with their sizes, kept open. To be
    released."""

    leased: tuple[tuple[Segment, int, FileLease], ...]

    @classmethod
    def of(cls, segments: Iterable[Segment], open_files: OpenFiles) -> UnsyncedSegments:
        """Those of a log. Called by its flush, under its lock. Raises OSError."""
        leased: list[tuple[Segment, int, FileLease]] = []
        try:
            for segment in segments:
                if segment.is_unsynced:
                    lease = open_files.lease(segment.log_path)
                    leased.append((segment, segment.size_bytes, lease))
        except OSError:
            cls(tuple(leased)).release()
            raise
        return cls(tuple(leased))

    def sync(
        self, volume: Volume, log_files: LogFiles, epochs: LeaderEpochs, names: SegmentRow | None
    ) -> None:
        """Bring them to disk, with the log's epochs and, where `names` is given, which files there are; let
        the files be closed. Called without the log's lock. Whatever goes wrong here is final, but for what is
        not there any more. Raises LogClosed, DamagedLog, StorageFailed."""
        try:
            for segment, _, lease in self.leased:
                with suppress(FileNotFoundError):  # Retention was faster, or it is in quarantine by now.
                    segment.stamp_age()
                volume.files.sync(lease.fd)
            epochs.sync()
            if names is not None:
                names.sync_names()
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                if log_files.is_closed:
                    raise LogClosed("the log was put into quarantine while it was flushed") from error
                if log_files.is_damage(error):
                    raise log_files.damaged(error) from error
            raise volume.disk.fail(error) from error
        finally:
            self.release()

    def note_synced(self) -> None:
        """Take note that the gathered bytes are on disk. Called under the log's lock, if nothing was
        truncated meanwhile."""
        for segment, size_bytes, _ in self.leased:
            segment.synced_bytes = max(segment.synced_bytes, size_bytes)
            segment.is_cut = False

    def release(self) -> None:
        """Release the files; once."""
        for _, _, lease in self.leased:
            lease.release()


class UnsyncedCuts:
    """What was cut off a log, and may be there again after a power cut. The log calls it under its lock.

    Where it is, the follower asks its leader again, and cuts again: so a cut is not synced as a rule. But
    where the leader's log goes on behind the cut in an older epoch than was cut off, this log would seem
    newer than those that have all of these records, and an election among logs that lost their ends would
    choose it. So the log calls `sync` before it appends such records.

    An append that finds no room for all of its batches is cut off, too. What a leader then appends in the
    same epoch takes the place of a batch that may be there again, and no epoch tells them apart.
    """

    __slots__ = ("_directory", "_epochs", "_row", "_volume", "latest_epoch", "torn_epoch")

    def __init__(
        self, volume: Volume, directory: str, row: SegmentRow, epochs: LeaderEpochs, may_be: bool
    ) -> None:
        """`may_be`: a process before may have cut something."""
        self._volume = volume
        self._directory = directory
        self._row = row
        self._epochs = epochs
        self.latest_epoch = _ANY_EPOCH if may_be else NO_EPOCH
        """The latest epoch of which something was cut off; NO_EPOCH where nothing comes back."""
        self.torn_epoch = NO_EPOCH
        """The latest epoch of an append that found room for a part of its batches; NO_EPOCH if there was
        none."""

    @property
    def may_come_back(self) -> bool:
        """Whether, behind the durable end, other records may be there again. Any thread may ask."""
        return self.latest_epoch != NO_EPOCH

    def note(self) -> None:
        """Take note that something is about to be truncated."""
        self.latest_epoch = max(self.latest_epoch, self._epochs.latest)

    def note_torn(self, headers: Sequence[BatchHeader]) -> None:
        """Take note that an append of these found no room: their epochs are in the file, and all batches but
        the last one may have been written."""
        self.latest_epoch = max(self.latest_epoch, headers[-1].leader_epoch)
        if len(headers) > 1:
            self.torn_epoch = max(self.torn_epoch, headers[-1].leader_epoch)

    def sync_below(self, recovery_point: int, durable_end_offset: int) -> None:
        """Sync where the log has been truncated below the recovery point of the checkpoint: recovery trusts
        what lies before it without reading. Raises OSError.

        Called for the truncation, and before a segment is closed, for what was appended since, until the next
        checkpoint knows. It is rare: as a rule, what is truncated is younger than a checkpoint.
        """
        if durable_end_offset < recovery_point:
            self.sync()

    def sync(self) -> None:
        """Sync, so that no truncation can come undone. Waits for the disk. Raises OSError."""
        if not self._row.has_directory:
            return
        active = self._row.active
        if active.exists:
            with self._volume.open_files.lease(active.log_path) as fd:
                self._volume.files.sync(fd)
        self._epochs.cut_undone()
        self._epochs.sync(anyway=True)
        self._volume.files.sync_directory(self._directory)
        self.latest_epoch = self.torn_epoch = NO_EPOCH
