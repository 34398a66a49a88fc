"""The results of a log's methods, and what it is opened with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hightide.batch.header import BatchHeader

from hightide_broker.storage.checkpoints.leader_epochs import LeaderEpochs
from hightide_broker.storage.checkpoints.log_marks import MarkOfLog
from hightide_broker.storage.checkpoints.start_file import StartFile
from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.volume.log_files import LogFiles

__all__ = ["AppendInfo", "OpenedLog", "TimestampFound"]


@dataclass(frozen=True, slots=True)
class AppendInfo:
    """The result of an append. `end_offset` is the log end offset after it; `headers` are as appended, one
    for each batch."""

    base_offset: int
    end_offset: int
    size_bytes: int
    headers: tuple[BatchHeader, ...]
    # The append closed a segment: call `flush` in a thread soon, so that recovery after a crash stays short.
    rolled: bool


@dataclass(frozen=True, slots=True)
class TimestampFound:
    """The first record at or after a timestamp."""

    offset: int
    timestamp_us: int


@dataclass(slots=True)
class OpenedLog:
    """What `log_opening` found on disk. Not frozen, because a broker makes one for each of its many logs."""

    files: LogFiles
    segments: list[Segment]
    epochs: LeaderEpochs
    has_directory: bool
    high_watermark: int
    recovery_point: int
    lost_data: bool
    start_file: StartFile
    start_offset: int
    mark: MarkOfLog
    may_hold_cuts: bool = False
    """Whether the last process did not end in order, and may have truncated what is not synced."""
    gaps: Sequence[tuple[int, int]] = ()
    """Of each segment that does not end where the next one begins, its base offset and an offset that it
    lacks."""
