"""The disk of a simulated replica: what survives a crash, and what a power cut takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from sim.messages import GONE, Record

UNKNOWN_EPOCH: Final = 2**31 - 1
"""Later than any."""


@dataclass(frozen=True)
class Contents:
    """What the files of a log hold."""

    log: tuple[Record, ...]
    epochs: tuple[tuple[int, int], ...]
    """What `leader_epochs` holds, in order."""
    durable_end_offset: int


@dataclass(frozen=True)
class PowerCut:
    """What a power cut takes, and what it brings back."""

    lost_records: int = 0
    """So many at the end of the log."""
    log_before_cut: bool = False
    """The log is as it was before its first cut that was not synced; `lost_records` are lost of that."""
    epochs_before_cut: bool = False
    """So is the file `leader_epochs`."""
    loses_epochs: bool = False
    """Of that file only what was synced is left."""


@dataclass
class Disk:
    """What survives a crash.

    The records and the file `leader_epochs` reach the disk each at its time. Recovery takes the epochs of
    records from the records; of the file only the last entry counts, where it begins at the log's end, behind
    the epoch that the file names before it.
    """

    log: list[Record] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    durable_end_offset: int = 0
    high_watermark_checkpoint: int = 0
    checkpoint_epoch: int = -1
    """The latest epoch of the log when that was written; a cut lowers neither."""
    first_offset: int = 0
    """Where the first segment begins: nothing before is there."""
    log_start: int = 0
    log_start_written: int = 0
    """As far as it is written down."""
    is_doubtful: bool = False
    """The power went, and with it records that others may count on."""
    has_directory: bool = False
    """Before the first record there is none, and epochs are only in memory."""
    synced_epochs: dict[int, int] = field(default_factory=dict)
    """What of `leader_epochs` no power cut takes."""
    before_cut: Contents | None = None
    """What the files held before the first cut that is not known to be on disk."""
    cut_epoch: int = -1
    """The latest epoch that such a cut took something of."""
    syncs_cuts: bool = True
    """What storage does: a cut of committed records is synced, and any other before records of an older epoch
    than it took are appended. As long as it is not, no log start is written down beyond what is durable. Off
    in tests that show why."""
    compares_epochs: bool = True
    """What storage does: a high watermark that was written down holds as far as the log has no epoch that is
    newer than its latest one then, and has that. Off in tests that show why."""

    def open(self) -> None:
        """A process finds what is there; the log is durable to its end then."""
        self.log_start = max(self.first_offset, self.log_start_written)
        if len(self.log) < self.log_start:
            self.begin_at(self.log_start)
        if not self.has_directory:
            self.epochs = {}
        if self.durable_end_offset < len(self.log):
            self._sync_files()  # Recovery read it.
        elif self.before_cut is not None:
            # What an earlier process cut is not known: whatever is appended next is older.
            self.cut_epoch = UNKNOWN_EPOCH
        self.durable_end_offset = len(self.log)
        self.synced_epochs |= self._epochs_of_records()
        self.checkpoint(min(self._kept_below(self.high_watermark_checkpoint), len(self.log)))

    def _kept_below(self, offset: int) -> int:
        latest = self.checkpoint_epoch
        if not self.compares_epochs:
            return offset
        if latest not in self.epochs and latest != -1:
            return 0
        return min([offset, *(start for epoch, start in self.epochs.items() if epoch > latest)])

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note where an epoch begins; not synced. One that has no record makes place."""
        self.epochs = {e: at for e, at in self.epochs.items() if at < start_offset or e == epoch}
        self.epochs.setdefault(epoch, start_offset)

    def forget_empty_epochs(self) -> None:
        """The process dies: an epoch is in memory only until its first record writes it."""
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start < len(self.log)}

    def append(self, records: Sequence[Record]) -> None:
        """Records come behind those that are here; not synced."""
        if self.syncs_cuts and records and records[0][0] < self.cut_epoch:
            self._sync_files()
        self.has_directory = True
        self.log += records

    def sync(self) -> None:
        """As far as the log goes it is put on disk, and the epochs with it. A log that has nothing new is
        left alone, and so is its last epoch."""
        if self.durable_end_offset < len(self.log):
            self.durable_end_offset = len(self.log)
            self._sync_files()

    def checkpoint(self, high_watermark: int) -> None:
        """Write down the high watermark, and of which records it is."""
        self.high_watermark_checkpoint = high_watermark
        self.checkpoint_epoch = max(self.epochs, default=-1)

    def write_log_start(self) -> None:
        """Write down where the log begins. Where a cut may come undone, what lies before is put on disk
        first: else it would be other records than those that were deleted."""
        if self.before_cut is not None and self.syncs_cuts and self.durable_end_offset < self.log_start:
            self.sync()
        self.log_start_written = self.log_start

    def _sync_files(self) -> None:
        self.synced_epochs = dict(self.epochs)
        self.before_cut, self.cut_epoch = None, -1

    def begin_at(self, offset: int) -> None:
        """The log is thrown away, and begins anew."""
        self.log = [GONE] * offset
        self.epochs = {}
        self.first_offset = self.log_start = self.durable_end_offset = offset
        self.log_start_written = min(self.log_start_written, offset)
        self.has_directory = self.has_directory or offset > 0
        self._sync_files()

    def cut(self, offset: int, *, durable: bool = False) -> None:
        """The log ends there; synced where committed records go."""
        latest = max(self.epochs, default=-1)
        if self.has_directory and (offset < len(self.log) or self.epochs.get(latest, -1) >= offset):
            if self.before_cut is None:
                self.before_cut = self._contents()
            self.cut_epoch = max(self.cut_epoch, latest)
        del self.log[offset:]
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start < offset}
        self.durable_end_offset = min(self.durable_end_offset, offset)
        if durable and self.syncs_cuts:
            self._sync_files()

    @property
    def is_untouched(self) -> bool:
        """Nothing of the partition is here: it never was, or it is gone."""
        return not self.log and not self.epochs

    def replace(self) -> None:
        """Another disk is put in its place."""
        self.begin_at(0)
        self.log_start_written = self.high_watermark_checkpoint = 0
        self.checkpoint_epoch = -1

    def lose(self, power: PowerCut) -> None:
        """The power goes. What is there afterwards is what recovery makes of the files."""
        now, before = self._contents(), self.before_cut
        log = (before if before is not None and power.log_before_cut else now).log
        file = (before if before is not None and power.epochs_before_cut else now).epochs
        if power.loses_epochs:
            file = tuple(sorted(self.synced_epochs.items()))
        self.log = list(log[: len(log) - power.lost_records])
        self.epochs = self._epochs_of_records()
        epoch, start_offset = file[-1] if file else (-1, -1)
        epoch_before = file[-2][0] if len(file) > 1 else -1
        newest = max(self.epochs, default=-1)
        if start_offset == len(self.log) and epoch > newest == epoch_before:
            self.epochs[epoch] = start_offset
        self.durable_end_offset = len(self.log)
        self._sync_files()

    def power_cut(self, rng: Random) -> PowerCut:
        """One of the ways in which the power may go now."""
        comes_back = self.before_cut is not None and rng.random() < 0.5
        contents = self.before_cut if comes_back and self.before_cut is not None else self._contents()
        unsynced = max(0, len(contents.log) - contents.durable_end_offset)
        return PowerCut(rng.randint(0, unsynced), comes_back, rng.random() < 0.5, rng.random() < 0.3)

    def _contents(self) -> Contents:
        return Contents(tuple(self.log), tuple(sorted(self.epochs.items())), self.durable_end_offset)

    def _epochs_of_records(self) -> dict[int, int]:
        starts: dict[int, int] = {}
        for offset, record in enumerate(self.log):
            if record != GONE:
                starts.setdefault(record[0], offset)
        return starts
