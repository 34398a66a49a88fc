"""The end of a log that recovery cuts off: it is kept aside first, since it may be the last copy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hightide_broker.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    offset_name,
)
from hightide_broker.storage.volume.volume import Volume

__all__ = ["CutTail"]

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CutTail:
    """What lies behind the end of a log in its directory."""

    volume: Volume
    directory: str
    kept_at: str
    """The directory in which it is kept."""
    cut: Segment | None
    """The segment in which the log ends; None if no part of a segment is cut off."""
    kept_bytes: int
    """How much of its file is kept: nothing of a write that a crash tore."""
    behind: Sequence[int]
    """The base offsets of the segments that follow."""

    def has_records(self) -> bool:
        """Whether it is more than a write that a crash tore. Raises OSError."""
        return self.kept_bytes > 0 or any(
            self.volume.files.size(f"{self.directory}/{offset_name(base)}{LOG_SUFFIX}")
            for base in self.behind
        )

    def keep(self) -> None:
        """Keep it aside, then cut it off. May be called again after an OSError: nothing was lost then."""
        if self.cut is not None and self.kept_bytes:
            self._copy(self.cut)
        # The newest goes first, so that a crash in between leaves what can be cut again.
        for base in reversed(self.behind):
            self._move(base)
        self._sync_kept()
        if self.cut is not None:
            with self.volume.open_files.lease(self.cut.log_path) as fd:
                self.volume.files.truncate(fd, self.cut.size_bytes)
                self.volume.files.sync(fd)
        self.volume.files.sync_directory(self.directory)

    def _sync_kept(self) -> None:
        """Let no power cut take what is kept. Nothing else has it from here on."""
        files = self.volume.files
        if files.exists(self.kept_at):
            quarantine = self.kept_at.rpartition("/")[0]
            for each in (self.kept_at, quarantine, self.volume.path):
                files.sync_directory(each)

    def _copy(self, segment: Segment) -> None:
        """Copy what is about to be truncated from a segment."""
        files = self.volume.files
        files.make_directory(self.kept_at)
        target = f"{self.kept_at}/{offset_name(segment.next_offset)}.cut"
        fd = files.open(target, create=True)
        try:
            written = 0
            while written < self.kept_bytes:
                size = min(_COPY_BYTES, self.kept_bytes - written)
                piece = segment.read_at(size, segment.size_bytes + written)
                written += files.write_at(fd, [piece], written)
            files.sync(fd)
        except OSError:
            with suppress(OSError):
                files.remove(target)  # Its room may be what others need.
            raise
        finally:
            files.close(fd)
        log.error("what is cut off offset %d is kept at %s", segment.next_offset, target)

    def _move(self, base: int) -> None:
        """Move a whole segment; delete one that is empty."""
        files, path = self.volume.files, f"{self.directory}/{offset_name(base)}"
        if not files.exists(path + LOG_SUFFIX):
            return  # By an earlier attempt.
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if files.exists(path + suffix):
                files.remove(path + suffix)
        self.volume.open_files.forget(path + LOG_SUFFIX)
        if files.size(path + LOG_SUFFIX) == 0:
            files.remove(path + LOG_SUFFIX)
            return
        files.make_directory(self.kept_at)
        files.replace(path + LOG_SUFFIX, f"{self.kept_at}/{offset_name(base)}{LOG_SUFFIX}")
        log.error("segment %d lies behind a cut and is kept at %s", base, self.kept_at)
