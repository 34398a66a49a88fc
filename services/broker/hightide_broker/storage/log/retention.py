"""Deciding which segments of a log are deleted, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hightide_broker.storage.segments.segment import Segment
from hightide_broker.storage.settings import LogSettings

__all__ = ["NO_REASONS", "DeletedRecords", "ExpiredRecords", "RetentionReason", "expired"]


class RetentionReason(Enum):
    """The reason why a segment is deleted; the value ends the sentence "so many bytes …"."""

    START = "below where the log begins"
    AGE = "older than retention.ms"
    SIZE = "more than retention.bytes"


NO_REASONS: Final[Mapping[int, RetentionReason]] = {}
"""No segment has one but that it is below where the log begins."""


@dataclass(frozen=True, slots=True)
class ExpiredRecords:
    """What may go from a log: all before an offset, if nothing was cut off since."""

    start_offset: int
    truncations: int
    """How often something had been cut off, as of `Log.truncations`."""
    reasons: Mapping[int, RetentionReason]
    """By the base offset of each segment."""


class DeletedRecords:
    """What was deleted from a log since the last report. Any thread."""

    __slots__ = ("segments", "sizes")

    def __init__(self) -> None:
        self.segments = 0
        self.sizes: dict[RetentionReason, int] = {}

    def note(self, size_bytes: int, why: RetentionReason) -> None:
        """Add a deleted segment. Called by the log."""
        self.segments += 1
        self.sizes[why] = self.sizes.get(why, 0) + size_bytes

    def add(self, other: DeletedRecords) -> None:
        """Add those of another log."""
        self.segments += other.segments
        for why, size_bytes in other.sizes.items():
            self.sizes[why] = self.sizes.get(why, 0) + size_bytes

    def take(self) -> DeletedRecords:
        """Return the content, which then counts as reported."""
        taken = DeletedRecords()
        taken.segments, self.segments = self.segments, 0
        taken.sizes, self.sizes = self.sizes, {}
        return taken


def expired(
    segments: Sequence[Segment],
    settings: LogSettings,
    now_us: int,
    high_watermark: int,
    leaders_log_start: int = 0,
) -> list[RetentionReason]:
    """The reasons for the segments that may be deleted, from the oldest on. Raises OSError.

    Never one that reaches above the high watermark. The active one is deleted by age only, when it has not
    been written to for as long as the retention. What the leader does not have any more is deleted in any
    case.
    """
    size_bytes = sum(segment.size_bytes for segment in segments)
    # All are asked, also those whose turn is later: the grace of what bears a time to come begins now.
    times_us = [segment.appended_us() if segment.size_bytes else 0 for segment in segments]
    reasons = []
    appended_us = 0
    for segment, time_us in zip(segments, times_us, strict=True):
        if segment.size_bytes == 0 or segment.next_offset > high_watermark:
            break
        # Appends come in order: no segment is older than the one in front of it, whatever its file says.
        appended_us = max(appended_us, time_us)
        too_low = segment.next_offset <= leaders_log_start
        too_old = settings.retention_ms >= 0 and now_us - appended_us > settings.retention_ms * 1000
        too_much = (
            not segment.is_active
            and settings.retention_bytes >= 0
            and size_bytes - segment.size_bytes >= settings.retention_bytes
        )
        if not (too_low or too_old or too_much):
            break
        size_bytes -= segment.size_bytes
        reasons.append(
            RetentionReason.START if too_low else RetentionReason.AGE if too_old else RetentionReason.SIZE
        )
    return reasons
