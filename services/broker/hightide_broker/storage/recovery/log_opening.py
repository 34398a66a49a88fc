"""Opening a log: without reading it if it was closed cleanly, otherwise by recovery."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hightide_broker.storage.checkpoints.checkpoint import PartitionCheckpoint
from hightide_broker.storage.checkpoints.leader_epochs import EpochStart, LeaderEpochs
from hightide_broker.storage.checkpoints.log_marks import NOTHING, UNLIMITED, MarkOfLog
from hightide_broker.storage.checkpoints.start_file import StartFile
from hightide_broker.storage.errors import CorruptFile, DamagedLog
from hightide_broker.storage.log.answers import OpenedLog
from hightide_broker.storage.log.log import Log
from hightide_broker.storage.recovery.cut_tail import CutTail
from hightide_broker.storage.recovery.recovery import open_clean, recover
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.settings import LogSettings
from hightide_broker.storage.volume.log_files import LogFiles
from hightide_broker.storage.volume.volume import Volume

__all__ = ["open_log"]

log = logging.getLogger(__name__)

_EPOCHS_NAME = "leader_epochs"


def open_log(
    volume: Volume,
    directory: str,
    topic_id: bytes,
    partition: int,
    topic_name: str,
    settings: LogSettings,
    checkpoint: PartitionCheckpoint,
    mark: MarkOfLog,
    may_have_directory: bool,
) -> Log:
    """The log in `directory`, or a new one where that is not there, which may be known beforehand. Called by
    the data directory, once a log.

    `checkpoint` and `mark` are what the last process left. Where it has less than they say it has
    `lost_data`, and the mark stays as it is until that is settled. Raises StorageFailed, DiskFull,
    DamagedLog.
    """
    opening = _Opening(
        volume, directory, topic_id, partition, topic_name, settings, mark, may_have_directory,
        checkpoint.recovery_point,
    )  # fmt: skip
    limit = UNLIMITED if mark.promised is None else mark.promised.recovery_limit
    if checkpoint.recovery_point > limit:
        checkpoint = replace(checkpoint, recovery_point=limit)
    try:
        return opening.open(checkpoint)
    except DamagedLog as damage:
        # A part that need not be read is damaged, too: so all of it is read, and truncated before the damage.
        log.error("%s; the log is recovered from its start", damage)
        return opening.open(replace(checkpoint, recovery_point=0, is_clean=False))


@dataclass(slots=True)
class _Opening:
    """One log that is being opened."""

    volume: Volume
    directory: str
    topic_id: bytes
    partition: int
    topic_name: str
    settings: LogSettings
    mark: MarkOfLog
    may_have_directory: bool
    recovery_point: int
    """In the file of checkpoints, which a power cut makes count again, whatever the mark says now."""
    may_hold_cuts: bool = False
    gaps: Sequence[tuple[int, int]] = ()
    """Both: see OpenedLog."""
    unkept: CutTail | None = None
    """See RecoveryFindings."""

    def open(self, checkpoint: PartitionCheckpoint) -> Log:
        """Raises StorageFailed, DiskFull, DamagedLog."""
        volume = self.volume
        files = LogFiles(
            volume.files, volume.disk, volume.path, self.topic_name, self.topic_id, self.partition,
            volume.damage.ring,
        )  # fmt: skip
        with files:
            has_directory = self.may_have_directory and volume.files.exists(self.directory)
            epochs = LeaderEpochs(volume.files, files, f"{self.directory}/{_EPOCHS_NAME}", has_directory)
            lost_data = is_recovered = False
            promised = self.mark.promised if self.mark.promised is not None else NOTHING
            start_file = StartFile(volume.files, self.directory)
            if has_directory:
                clean = open_clean(volume, self.directory, checkpoint)
                is_recovered = clean is None
                is_current = self.mark.is_current or checkpoint.is_clean
                start_file.load(promised.start_offset, is_current=is_current, may_be_unsynced=is_recovered)
                if clean is not None:
                    segments = clean
                    _load_epochs(epochs, segments, segments[-1].next_offset, (), promised.latest_epoch)
                else:
                    segments, lost_data = self._recovered(checkpoint, epochs, start_file.recorded)
                if self.mark.promised is None and is_current:
                    # The process wrote it to its end, and knew no other start. After a power cut the first
                    # segments may be those that are gone.
                    start_file.begin_at(max(start_file.recorded, segments[0].base_offset))
                if not self.may_hold_cuts:
                    start_file.sync()  # As all that recovery has read.
            else:
                segments = [Segment(volume, self.directory, 0, 0, 0, exists=False)]
                segments[0].activate()
            base_offset, end_offset = segments[0].base_offset, segments[-1].next_offset
            lacks_front = base_offset > start_file.recorded
            if lacks_front or end_offset < promised.end_offset:
                lost_data = True
                self._tell_of_loss(start_file.recorded, base_offset, end_offset, promised.end_offset)
            self.mark.is_held = lost_data
            # A truncation lowers no checkpoint: other records may have come since.
            committed = epochs.kept_below(checkpoint.high_watermark, checkpoint.latest_epoch)
            opened = OpenedLog(
                files, segments, epochs, has_directory,
                high_watermark=max(base_offset, min(committed, end_offset)),
                recovery_point=self.recovery_point,
                lost_data=lost_data,
                start_file=start_file,
                start_offset=start_file.recorded,
                mark=self.mark,
                may_hold_cuts=self.may_hold_cuts,
                gaps=self.gaps,
            )  # fmt: skip
            files.is_damaged = checkpoint.is_damaged
            files.unkept = None if self.unkept is None else self.unkept.keep
            made = Log(
                volume, self.directory, self.topic_id, self.partition, self.topic_name, self.settings, opened
            )
            if made.log_start_offset > end_offset:
                # The power failed, and records are lost that durably were not wanted any more.
                log.warning("%r has lost its end at %d: it begins anew, empty", made, end_offset)
                made.truncate_and_start_at(made.log_start_offset)
                made.flush()
            if is_recovered:
                # Now, on a thread that may wait, and not at the first append.
                assert made.producers is not None
            if has_directory:
                made.promises.note()
            return made

    def _recovered(
        self, checkpoint: PartitionCheckpoint, epochs: LeaderEpochs, start_offset: int
    ) -> tuple[list[Segment], bool]:
        """The segments after recovery, and whether that cut off more than a torn write."""
        latest = -1 if self.mark.promised is None else self.mark.promised.latest_epoch
        recovered = recover(
            self.volume,
            self.directory,
            self.topic_id,
            self.partition,
            checkpoint.recovery_point,
            start_offset,
            self.settings.index_interval_bytes,
        )
        self.gaps, self.unkept = recovered.gaps, recovered.unkept
        for segment in recovered.segments:
            # Unsynced files may have a time of a wall clock that was wrong.
            if segment.exists and (recovered.cut_because or segment.next_offset > checkpoint.recovery_point):
                segment.was_appended_after(self.volume.clock.written_us)
        _load_epochs(epochs, recovered.segments, recovered.scanned_from, recovered.epochs, latest)
        end_offset = recovered.segments[-1].next_offset
        if recovered.cut_because or end_offset != checkpoint.recovery_point:
            # Everything that was read is on disk now. No truncated record can come back, and no epoch.
            epochs.sync(anyway=True)
        else:
            self.may_hold_cuts = True
            for segment in recovered.segments:
                segment.is_cut = segment.exists and segment.next_offset == end_offset
        return recovered.segments, recovered.lost_data

    def _tell_of_loss(self, start: int, base_offset: int, end_offset: int, promised_end: int) -> None:
        lacks = [f"records {start} to {base_offset - 1}"] * (base_offset > start)
        lacks += [f"records {end_offset} to {promised_end - 1}"] * (end_offset < promised_end)
        log.error(
            "%s-%d has lost %s, which it had: its files were cut or removed",
            self.topic_name, self.partition, " and ".join(lacks),
        )  # fmt: skip


def _load_epochs(
    epochs: LeaderEpochs,
    segments: list[Segment],
    scanned_from: int,
    seen: Sequence[EpochStart],
    latest_promised: int,
) -> None:
    """Read the epochs' file; from `scanned_from` on, what the batches say counts more.

    Where the file is of no use, or lacks what was in it, the headers of all batches are read. Raises
    BatchError, OSError.
    """
    base_offset, end_offset = segments[0].base_offset, segments[-1].next_offset
    try:
        epochs.load()
        if epochs.entries and epochs.entries[0].start_offset > base_offset:
            # A power cut brought back segments that retention had removed.
            raise CorruptFile("the leader epochs' file starts behind the log")
        # Of an empty log the file alone says anything.
        if end_offset > base_offset and (epochs.latest < latest_promised or not (epochs.entries or seen)):
            raise CorruptFile(
                f"the leader epochs' file ends with {epochs.latest}, the log had {latest_promised}"
            )
        entries = [entry for entry in epochs.entries if entry.start_offset < scanned_from]
        latest = epochs.entries[-1:]
        before_latest = epochs.entries[-2].epoch if len(epochs.entries) > 1 else -1
    except CorruptFile as error:
        log.warning("reading the leader epochs from the log, since %s", error)
        entries, latest, before_latest = [], (), -1
        for segment in segments:
            for _, header in segment.batches():
                if not entries or header.leader_epoch > entries[-1].epoch:
                    entries.append(EpochStart(header.leader_epoch, header.base_offset))
    for entry in (*seen, *latest):
        # The last epoch of all may have no batch yet; it starts at the log's end then, behind the epoch that
        # the file names before it. Behind another the file is of other records: a cut of the log came undone.
        is_empty_epoch = entry in latest and entry not in seen
        newest = entries[-1].epoch if entries else -1
        if entry.epoch > newest and (
            not is_empty_epoch or (entry.start_offset == end_offset and newest == before_latest)
        ):
            entries.append(entry)
    epochs.rebuild(entries)
