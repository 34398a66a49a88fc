"""What of a log is written and not known to be on disk: gathered under the log's lock, synced without it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from hightide_broker.storage.directory.volume import Volume
from hightide_broker.storage.errors import LogClosed
from hightide_broker.storage.files.open_files import Lease, OpenFiles
from hightide_broker.storage.log.log_files import LogFiles
from hightide_broker.storage.log.segment import Segment
from hightide_broker.storage.log.segment_row import SegmentRow
from hightide_broker.storage.recovery.leader_epochs import LeaderEpochs

__all__ = ["UnsyncedSegments"]


@dataclass(frozen=True, slots=True)
class UnsyncedSegments:
    """The segments that hold more than is synced, with their sizes, kept open. To be released."""

    leased: tuple[tuple[Segment, int, Lease], ...]

    @classmethod
    def of(cls, segments: Iterable[Segment], open_files: OpenFiles) -> UnsyncedSegments:
        """Those of a log. Called by its flush, under its lock. Raises OSError."""
        leased: list[tuple[Segment, int, Lease]] = []
        try:
            for segment in segments:
                if segment.synced_bytes < segment.size_bytes:
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
        """What was there when they were gathered is on disk. Called under the log's lock, if nothing was cut
        meanwhile."""
        for segment, size_bytes, _ in self.leased:
            segment.synced_bytes = max(segment.synced_bytes, size_bytes)

    def release(self) -> None:
        """Let the files be closed; once."""
        for _, _, lease in self.leased:
            lease.release()
