"""What is written down of a log outside of it, for the next life to compare with what it finds: its mark, its
entry in the checkpoints, and where it begins."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

from hightide.batch.header import NO_EPOCH

from hightide_broker.storage.checkpoints.checkpoint import PartitionCheckpoint
from hightide_broker.storage.checkpoints.leader_epochs import LeaderEpochs
from hightide_broker.storage.checkpoints.log_marks import UNLIMITED, LogMark, MarkOfLog
from hightide_broker.storage.checkpoints.start_file import StartFile
from hightide_broker.storage.errors import DiskFull
from hightide_broker.storage.settings import Flush, LogSettings
from hightide_broker.storage.volume.log_files import LogFiles

__all__ = ["LogPromises"]


class PromisedLog(Protocol):
    """A log, as seen from here."""

    settings: LogSettings
    epochs: LeaderEpochs
    recovery_point_checkpoint: int

    @property
    def log_end_offset(self) -> int:
        """See `Log`."""
        ...

    @property
    def durable_end_offset(self) -> int:
        """See `Log`."""
        ...

    @property
    def sizes(self) -> tuple[int, int, int]:
        """See `Log`."""
        ...


class LogPromises:
    """Of one log, which calls all but `checkpoint` and `settle` under its lock."""

    __slots__ = ("_acks_are_synced", "_files", "_lock", "_log", "_sync_to", "mark", "start_file")

    def __init__(
        self, log: PromisedLog, lock: threading.RLock, files: LogFiles, start_file: StartFile, mark: MarkOfLog
    ) -> None:
        self._log = log
        self._lock = lock
        self._files = files
        self.mark = mark
        self.start_file = start_file
        # What is open is on disk up to its end.
        self._acks_are_synced = log.settings.flush is Flush.FSYNC
        self._sync_to = 0

    def prepare(self) -> None:
        """Before an append: from here on, writing the mark needs no room. Raises OSError."""
        if not self.mark.exists:
            self.mark.note(self._as_mark())

    def cutting(self, begins_at: int | None = None) -> None:
        """Before anything is cut off: until `note`, nothing is promised but that the log begins where it did,
        or `begins_at`, which may be earlier. Raises OSError."""
        start_offset = self.start_file.recorded if begins_at is None else begins_at
        self.mark.note(LogMark(start_offset, 0, NO_EPOCH, recovery_limit=0))

    def note(self) -> None:
        """After something was appended, cut or begun. Where there is no room it says less, which is not
        wrong. Raises StorageFailed."""
        try:
            with self._files:
                self.mark.note(self._as_mark())
        except DiskFull:
            return

    def note_start(self) -> None:
        """There is no room to write down where the log begins. Its mark has room for it, and outlives a kill.
        Raises StorageFailed."""
        self.start_file.noted = self.start_file.wanted
        if self.mark.exists:
            self.note()

    def renew(self) -> None:
        """Something else than the end may have moved. Called on any thread. Raises StorageFailed."""
        with self._lock:
            if self.mark.exists:
                self.note()

    def flush_changes(self, flush: Flush) -> None:
        """Records that were acknowledged before flush=fsync are on disk when a flush has covered them."""
        if flush is not self._log.settings.flush:
            self._acks_are_synced, self._sync_to = False, self._log.log_end_offset

    @property
    def acks_are_synced(self) -> bool:
        """Whether all that was ever acknowledged is on disk."""
        if self._log.settings.flush is Flush.FSYNC and self._log.durable_end_offset >= self._sync_to:
            self._acks_are_synced = True
        return self._acks_are_synced

    def checkpoint(self, high_watermark: int, latest: int | None, *, is_clean: bool) -> PartitionCheckpoint:
        """What to write into the checkpoints. Called by the data directory, which then does.

        `latest` is the log's latest epoch when the high watermark was read; None if that was just now.
        """
        log = self._log
        with self._lock:
            # A cut comes before the promise, which then is lower, or after it: then it is synced.
            durable = log.durable_end_offset
            log.recovery_point_checkpoint = max(log.recovery_point_checkpoint, durable)
            known_end = log.log_end_offset
            if latest is not None:
                known_end = log.epochs.kept_below(known_end, latest)
            return PartitionCheckpoint(
                durable, min(high_watermark, known_end), self.start_file.recorded, log.epochs.latest_written,
                *log.sizes, is_clean=is_clean, is_synced=self.acks_are_synced,
                is_damaged=self._files.is_damaged,
            )  # fmt: skip

    def settle(self) -> None:
        """What the log lost has been acted on: from here on it need not have more than it has. Called by the
        data directory. Raises StorageFailed."""
        with self._lock:
            self.mark.is_held = False
            if self.mark.exists or self._log.log_end_offset > 0:
                self.note()
                if not self.mark.exists:
                    with suppress(DiskFull), self._files:  # Without room for the file there is none.
                        self.mark.disown()

    def _as_mark(self) -> LogMark:
        log = self._log
        durable = log.durable_end_offset
        limit = durable if durable < log.recovery_point_checkpoint else UNLIMITED
        return LogMark(self.start_file.recorded, log.log_end_offset, log.epochs.latest_written, limit)
