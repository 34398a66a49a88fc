"""Finds the end of a log that was not closed cleanly, and its segments.

Theory of operation. Below the recovery point everything is on disk and was checked, so reading starts with
the segment that holds it. Every batch from there on must have its CRC, belong to the partition, follow on
the one in front without a gap, and not go back in leader epoch. The log ends in front of the first batch
that does not. A write that a crash tore is cut off and that is that: it was never acknowledged by this
replica alone. Where whole batches follow the cut, the disk lost or changed something in the middle; what is
cut off then is kept aside, since it may be the last copy (`CutTail`). Where that finds no room, the log ends
in front of it all the same, and takes no record before it is kept.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from hightide.batch.errors import BatchError, CorruptBatch
from hightide.batch.header import HEADER_SIZE_BYTES, BatchHeader

from hightide_broker.storage.checkpoints.checkpoint import PartitionCheckpoint
from hightide_broker.storage.checkpoints.leader_epochs import EpochStart
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import TEMPORARY_SUFFIX
from hightide_broker.storage.recovery.cut_tail import CutTail
from hightide_broker.storage.segments.batch_scan import OverlongBatch, TornBatch, check_order, scan
from hightide_broker.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    offset_name,
)
from hightide_broker.storage.volume.volume import Volume

__all__ = ["RecoveryFindings", "open_clean", "recover"]

log = logging.getLogger(__name__)

_OFFSET_DIGITS: Final = 20
_PIECE_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class RecoveryFindings:
    """What recovery found; filled while it reads."""

    topic_id: bytes
    partition: int
    index_interval_bytes: int
    segments: list[Segment] = field(default_factory=list)
    # Where reading started, and the epochs of the batches from there on.
    scanned_from: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    # Why the log was cut, and whether more than a torn write was lost.
    cut_because: str = ""
    lost_data: bool = False
    # The base offset of each segment that does not end where the next one begins, and an offset it lacks.
    gaps: list[tuple[int, int]] = field(default_factory=list)
    # The names of the indexes that were there.
    indexes: set[str] = field(default_factory=set)
    # What is cut off, if there was no room to keep it aside.
    unkept: CutTail | None = None

    def check(self, header: BatchHeader, expected_offset: int) -> None:
        """Check that a batch is this partition's and the next one. Raises CorruptBatch."""
        if (header.topic_id, header.partition) != (self.topic_id, self.partition):
            raise CorruptBatch(f"the batch belongs to {header.topic_id.hex()}-{header.partition}")
        check_order(header, expected_offset, self.epochs[-1].epoch if self.epochs else -1)
        if not self.epochs or header.leader_epoch > self.epochs[-1].epoch:
            self.epochs.append(EpochStart(header.leader_epoch, header.base_offset))


def _bases_in(names: Iterable[str]) -> list[int]:
    """Base offsets of the segments among the names in a log's directory, in order."""
    bases = []
    for name in names:
        stem, dot, suffix = name.partition(".")
        if dot + suffix == LOG_SUFFIX and len(stem) == _OFFSET_DIGITS and stem.isascii() and stem.isdigit():
            bases.append(int(stem))
    return bases


def open_clean(volume: Volume, directory: str, checkpoint: PartitionCheckpoint) -> list[Segment] | None:
    """The segments of a log that was closed cleanly, without reading them; None where it was not.

    Called with the checkpoint of a clean shutdown. Sizes and number must be what they were then.
    """
    if not checkpoint.is_clean:
        return None
    bases = _bases_in(volume.files.names(directory))
    if not bases:
        return None
    sizes = [volume.files.size(f"{directory}/{offset_name(base)}{LOG_SUFFIX}") for base in bases]
    ends = [*bases[1:], checkpoint.recovery_point]
    found = (sum(sizes), sizes[-1], len(sizes))
    if found != (checkpoint.size_bytes, checkpoint.active_size_bytes, checkpoint.segment_count) or any(
        (end > base) != (size > 0) for base, end, size in zip(bases, ends, sizes, strict=True)
    ):
        return None
    segments = [
        Segment(volume, directory, base, end, size, exists=True)
        for base, end, size in zip(bases, ends, sizes, strict=True)
    ]
    segments[-1].activate()
    return segments


def recover(
    volume: Volume,
    directory: str,
    topic_id: bytes,
    partition: int,
    recovery_point: int,
    start_offset: int,
    index_interval_bytes: int,
) -> RecoveryFindings:
    """Read the log from the recovery point on and cut it where it cannot be used. Segments that end before
    its start are no part of it.

    Called when a log is opened that was not closed cleanly; takes as long as reading the bytes. What is cut
    off and was more than a torn write goes into quarantine. Raises OSError.
    """
    log_name = directory.rpartition("/")[2]
    kept_at = volume.quarantine.place_for(f"{log_name}.cut", volume.clock.now_us())
    recovered = RecoveryFindings(topic_id, partition, index_interval_bytes)
    # Listed once: after a crash a broker recovers ten thousand logs before it registers.
    names = volume.files.names(directory)
    bases = _without_deleted(volume.files, directory, _bases_in(names), start_offset)
    _remove_leftovers(volume.files, directory, names, bases)
    recovered.indexes.update(name for name in names if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)))
    if not bases:
        recovered.segments.append(Segment(volume, directory, start_offset, start_offset, 0, exists=False))
    first = _trust(volume, directory, bases, recovery_point, recovered)
    expected = recovered.scanned_from = bases[first] if bases else 0
    for place in range(first, len(bases)):
        if bases[place] != expected:
            recovered.cut_because = f"segment {bases[place]} does not follow on offset {expected}"
            _cut_off(CutTail(volume, directory, kept_at, None, 0, bases[place:]), recovered)
            break
        segment, kept_bytes = _read_segment(volume, directory, bases[place], recovered)
        recovered.segments.append(segment)
        expected = segment.next_offset
        if recovered.cut_because:
            _cut_off(CutTail(volume, directory, kept_at, segment, kept_bytes, bases[place + 1 :]), recovered)
            break
    recovered.segments[-1].activate()
    _make_durable(volume, directory, recovered, recovery_point)
    return recovered


def _without_deleted(files: Files, directory: str, bases: list[int], start_offset: int) -> list[int]:
    """Remove segments that were deleted before. A power cut can bring one back, and not the one behind it;
    what lies behind the gap would be cut off."""
    while len(bases) > 1 and bases[1] <= start_offset:
        files.remove(f"{directory}/{offset_name(bases[0])}{LOG_SUFFIX}")
        bases = bases[1:]
    return bases


def _trust(
    volume: Volume, directory: str, bases: list[int], recovery_point: int, recovered: RecoveryFindings
) -> int:
    """Take over the segments in front of the one with the recovery point; tell from which place on to
    read."""
    first = max((place for place, base in enumerate(bases) if base <= recovery_point), default=0)
    sizes = {
        base: volume.files.size(f"{directory}/{offset_name(base)}{LOG_SUFFIX}") for base in bases[:first]
    }
    for base in (base for base, size in sizes.items() if size == 0):
        # Nothing is left of it, as if its file was gone. It had records, since others follow.
        _remove_indexes(volume.files, directory, base, recovered)
        volume.files.remove(f"{directory}/{offset_name(base)}{LOG_SUFFIX}")
    for base, end in pairwise([*(base for base, size in sizes.items() if size), *bases[first : first + 1]]):
        segment = Segment(volume, directory, base, end, sizes[base], exists=True)
        try:
            segment.check_end()
        except BatchError as error:
            # It was truncated, or the next one is gone. What follows may be the last copy and stays; other
            # replicas have what is missing (`log_at_rest`).
            log.error("%s does not end where the next segment begins: %s", segment.log_path, error)
            recovered.lost_data = True
            recovered.gaps.append((segment.base_offset, segment.next_offset - 1))
        recovered.segments.append(segment)
    return first


def _read_segment(
    volume: Volume, directory: str, base: int, recovered: RecoveryFindings
) -> tuple[Segment, int]:
    """Read one segment, which ends before the first batch that cannot be used; tell also how many bytes
    behind that are to be kept."""
    _remove_indexes(volume.files, directory, base, recovered)
    segment = Segment(volume, directory, base, base, 0, exists=True)
    segment.synced_bytes = kept_bytes = 0
    segment.forget_indexes()
    size = volume.files.size(segment.log_path)
    try:
        for position, header in scan(segment.read_at, 0, size, verify=True):
            recovered.check(header, segment.next_offset)
            segment.adopt(position, header, recovered.index_interval_bytes)
    except BatchError as error:
        recovered.cut_because = f"at byte {segment.size_bytes} of {segment.log_path}: {error}"
        is_torn = isinstance(error, TornBatch)
        if isinstance(error, OverlongBatch):
            is_torn = not _has_batch_behind(segment, size, recovered.topic_id)
        if not is_torn:
            kept_bytes = size - segment.size_bytes
        log.warning("cutting the log at offset %d: %s", segment.next_offset, recovered.cut_because)
    assert recovered.cut_because or segment.size_bytes == size
    return segment, kept_bytes


def _has_batch_behind(segment: Segment, size: int, topic_id: bytes) -> bool:
    """Whether the header of another batch seems to lie behind the one at the end of a segment: its topic id
    does. Nothing follows a torn write. If a record holds the same bytes, a tail is kept that need not be."""
    position, before = segment.size_bytes + HEADER_SIZE_BYTES, b""
    while position < size:
        piece = segment.read_at(min(_PIECE_BYTES, size - position), position)
        if topic_id in before + piece:
            return True
        position, before = position + len(piece), piece[-len(topic_id) :]
    return False


def _cut_off(tail: CutTail, recovered: RecoveryFindings) -> None:
    recovered.lost_data |= tail.has_records()
    try:
        tail.keep()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        log.error("what is cut off %s is kept aside when there is room: %s", tail.directory, error)
        tail.volume.disk.was_full = True
        recovered.unkept = tail


def _make_durable(volume: Volume, directory: str, recovered: RecoveryFindings, recovery_point: int) -> None:
    """Bring what was read to disk, so that a log that is open is durable up to its end; write the indexes."""
    if recovered.segments[-1].next_offset == recovery_point and not recovered.cut_because:
        for segment in recovered.segments:
            segment.synced_bytes = segment.size_bytes
        return
    for segment in recovered.segments:
        # The one in front of those that were read may have been cut where they begin.
        if segment.exists and segment.next_offset >= recovered.scanned_from:
            with volume.open_files.lease(segment.log_path) as fd:
                volume.files.sync(fd)
            if not segment.is_active and segment.next_offset > recovered.scanned_from:
                segment.write_indexes_if_room()
        segment.synced_bytes = segment.size_bytes
    if volume.files.exists(directory):
        volume.files.sync_directory(directory)
        # Its creator may have been killed before its name was durable.
        volume.files.sync_directory(directory.rpartition("/")[0])


def _remove_indexes(files: Files, directory: str, base: int, recovered: RecoveryFindings) -> None:
    """Indexes that were written before what is read now; they would say too little."""
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        if (name := offset_name(base) + suffix) in recovered.indexes:
            files.remove(f"{directory}/{name}")


def _remove_leftovers(files: Files, directory: str, names: Iterable[str], bases: list[int]) -> None:
    """Remove what a crash between two steps left: files half written, indexes without a segment."""
    stems = {offset_name(base) for base in bases}
    for name in names:
        stem, dot, suffix = name.partition(".")
        is_orphan = dot + suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and stem not in stems
        if is_orphan or name.endswith(TEMPORARY_SUFFIX):
            files.remove(f"{directory}/{name}")
