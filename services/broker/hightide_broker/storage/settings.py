"""What a topic's settings and a broker's configuration say to storage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

__all__ = ["DirectorySettings", "Flush", "LogSettings"]

_MIB = 1024 * 1024
_DAY_MS = 24 * 60 * 60 * 1000
# Positions in a segment are 32 bits wide, with the sign bit kept free.
SEGMENT_BYTES_MAX = 2**31 - 1
PRODUCERS_MAX: Final = 100_000
"""Of one log. A producer takes 200 bytes of memory and 48 of a snapshot, one that wrote five batches or more
280 and 128: 28 MB, and 20 ms to write a snapshot."""
RETRY_MS: Final = 60 * 60 * 1000
"""Producers of this SDK send nothing again that may have been appended 30 minutes ago
(`hightide.producing.producer_core`), and of what was under way then the network keeps nothing for as
long again."""


class Flush(Enum):
    """When an append counts as done (the topic's setting `flush`)."""

    # When every in-sync replica has it in memory or on disk: outlives the loss of all but one of them.
    REPLICATED = "replicated"
    # When every in-sync replica has it on disk: outlives a power cut of all of them.
    FSYNC = "fsync"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of one log, from the topic's. -1 in a retention means for ever."""

    segment_bytes: int = 512 * _MIB
    segment_ms: int = 7 * _DAY_MS
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    max_message_bytes: int = 4 * _MIB
    index_interval_bytes: int = 4096
    flush: Flush = Flush.REPLICATED

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes <= SEGMENT_BYTES_MAX, self.segment_bytes
        assert self.segment_ms > 0, self.segment_ms
        assert self.retention_ms >= -1, self.retention_ms
        assert self.retention_bytes >= -1, self.retention_bytes
        assert self.max_message_bytes > 0, self.max_message_bytes
        assert self.index_interval_bytes > 0, self.index_interval_bytes


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """Limits that all logs of a data directory share."""

    open_files_max: int = 512
    tail_bytes_max: int = 64 * _MIB
    tail_bytes_per_log_max: int = 8 * _MIB
    producers_per_log_max: int = PRODUCERS_MAX
    producer_expiry_ms: int = _DAY_MS
    quarantine_grace_ms: int = _DAY_MS

    def __post_init__(self) -> None:
        assert self.open_files_max > 0, self.open_files_max
        assert 0 <= self.tail_bytes_per_log_max <= self.tail_bytes_max, self.tail_bytes_max
        assert self.producers_per_log_max > 0, self.producers_per_log_max
        assert self.producer_expiry_ms >= RETRY_MS, self.producer_expiry_ms

    def share(self, directories: int) -> DirectorySettings:
        """What each of so many directories may take, so that together they take no more than one would."""
        tail_bytes_max = self.tail_bytes_max // directories
        return replace(
            self,
            open_files_max=max(1, self.open_files_max // directories),
            tail_bytes_max=tail_bytes_max,
            tail_bytes_per_log_max=min(self.tail_bytes_per_log_max, tail_bytes_max),
        )
