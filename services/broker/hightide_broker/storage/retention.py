"""Which segments of a log have had their time."""

from __future__ import annotations

from collections.abc import Sequence

from hightide_broker.storage.segment import Segment
from hightide_broker.storage.settings import LogSettings

__all__ = ["expired_count"]


def expired_count(
    segments: Sequence[Segment],
    settings: LogSettings,
    now_us: int,
    high_watermark: int,
    leaders_log_start: int = 0,
) -> int:
    """How many segments, from the oldest on, may be deleted. Raises OSError.

    Never one that reaches above the high watermark. The active one goes by age only, when it has not been
    written to for as long as the retention. What the leader does not have any more goes in any case.
    """
    size_bytes = sum(segment.size_bytes for segment in segments)
    # All are asked, also those whose turn is later: the grace of what bears a time to come begins now.
    times_us = [segment.appended_us() if segment.size_bytes else 0 for segment in segments]
    count = 0
    appended_us = 0
    for segment, time_us in zip(segments, times_us, strict=True):
        if segment.size_bytes == 0 or segment.next_offset > high_watermark:
            break
        # Appends come in order: no segment is older than the one in front of it, whatever its file says.
        appended_us = max(appended_us, time_us)
        too_old = settings.retention_ms >= 0 and now_us - appended_us > settings.retention_ms * 1000
        too_much = (
            not segment.is_active
            and settings.retention_bytes >= 0
            and size_bytes - segment.size_bytes >= settings.retention_bytes
        )
        if not (too_old or too_much or segment.next_offset <= leaders_log_start):
            break
        size_bytes -= segment.size_bytes
        count += 1
    return count
