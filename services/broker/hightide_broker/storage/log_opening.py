"""Opens a log: without reading it where it was closed cleanly, else by recovery."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hightide_broker.storage.answers import OpenedLog
from hightide_broker.storage.checkpoint import PartitionCheckpoint
from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.leader_epochs import EpochStart, LeaderEpochs
from hightide_broker.storage.log import Log
from hightide_broker.storage.log_files import LogFiles
from hightide_broker.storage.recovery import open_clean, recover
from hightide_broker.storage.segment import Segment
from hightide_broker.storage.settings import LogSettings
from hightide_broker.storage.start_file import StartFile
from hightide_broker.storage.volume import Volume

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
    kept_at: str,
) -> Log:
    """The log in `directory`, or a new one where that is not there. Called by the data directory, once a log.

    `checkpoint` is what the last process left, `kept_at` where recovery puts what it cuts off. Raises
    StorageFailed, DiskFull, DamagedLog.
    """
    files = LogFiles(
        volume.files, volume.disk, volume.path, topic_name, topic_id, partition, volume.damage.ring
    )
    with files:
        has_directory = volume.files.exists(directory)
        epochs = LeaderEpochs(volume.files, files, f"{directory}/{_EPOCHS_NAME}", has_directory)
        segments = open_clean(volume, directory, checkpoint) if has_directory else None
        is_recovered = has_directory and segments is None
        lost_data = False
        if segments is not None:
            _load_epochs(epochs, segments, segments[-1].next_offset, ())
        elif has_directory:
            segments, lost_data = _recovered(
                volume, directory, topic_id, partition, settings, checkpoint, kept_at, epochs
            )
        else:
            segments = [Segment(volume, directory, 0, 0, 0, exists=False)]
            segments[0].activate()
        start_file = StartFile(volume.files, directory)
        if has_directory:
            start_file.load()
        end_offset = segments[-1].next_offset
        opened = OpenedLog(
            files,
            segments,
            epochs,
            has_directory,
            high_watermark=max(segments[0].base_offset, min(checkpoint.high_watermark, end_offset)),
            recovery_point=checkpoint.recovery_point,
            lost_data=lost_data,
            start_file=start_file,
        )
        made = Log(volume, directory, topic_id, partition, topic_name, settings, opened)
        if made.log_start_offset > end_offset:
            # The power went, and with it records of which it is durably known that nobody wants them.
            log.warning("%r has lost its end at %d: it begins anew, empty", made, end_offset)
            made.truncate_and_start_at(made.log_start_offset)
        if is_recovered:
            # Now, on a thread that may wait, and not at the first append.
            assert made.producers is not None
        return made


def _recovered(
    volume: Volume,
    directory: str,
    topic_id: bytes,
    partition: int,
    settings: LogSettings,
    checkpoint: PartitionCheckpoint,
    kept_at: str,
    epochs: LeaderEpochs,
) -> tuple[list[Segment], bool]:
    recovered = recover(
        volume,
        directory,
        topic_id,
        partition,
        checkpoint.recovery_point,
        settings.index_interval_bytes,
        kept_at,
    )
    for segment in recovered.segments:
        # What was not synced may bear a time of a wall clock that was wrong.
        if segment.exists and (recovered.cut_because or segment.next_offset > checkpoint.recovery_point):
            segment.was_appended_after(volume.clock.written_us)
    _load_epochs(epochs, recovered.segments, recovered.scanned_from, recovered.epochs)
    return recovered.segments, recovered.lost_data


def _load_epochs(
    epochs: LeaderEpochs,
    segments: list[Segment],
    scanned_from: int,
    seen: Sequence[EpochStart],
) -> None:
    """Read the epochs' file; from `scanned_from` on, what the batches say counts more.

    Where the file is of no use, the headers of all batches are read.
    """
    end_offset = segments[-1].next_offset
    try:
        epochs.load()
        if epochs.entries and epochs.entries[0].start_offset > segments[0].base_offset:
            # A power cut brought back segments that retention had removed.
            raise CorruptFile("the leader epochs' file starts behind the log")
        entries = [entry for entry in epochs.entries if entry.start_offset < scanned_from]
        latest = epochs.entries[-1:] if epochs.entries else ()
    except CorruptFile as error:
        log.warning("reading the leader epochs from the log, since %s", error)
        entries, latest = [], ()
        for segment in segments:
            for _, header in segment.batches():
                if not entries or header.leader_epoch > entries[-1].epoch:
                    entries.append(EpochStart(header.leader_epoch, header.base_offset))
    for entry in (*seen, *latest):
        # The last epoch of all may have no batch yet; it starts at the log's end then.
        is_empty_epoch = entry in latest and entry not in seen
        if (not entries or entry.epoch > entries[-1].epoch) and (
            not is_empty_epoch or entry.start_offset == end_offset
        ):
            entries.append(entry)
    epochs.rebuild(entries)
