"""Reads logs on disk without changing anything, for `hightide dump-log`.

Works on a directory that a broker has open, and on damaged files.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hightide.batch.errors import BatchError
from hightide.batch.header import BatchHeader

from hightide_broker.storage.segments.batch_scan import scan
from hightide_broker.storage.segments.segment import LOG_SUFFIX

__all__ = ["InspectedBatch", "InspectedDamage", "inspect"]


@dataclass(frozen=True, slots=True)
class InspectedBatch:
    """A batch, and its place."""

    path: Path
    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class InspectedDamage:
    """The place at which a file stops being readable, and the reason."""

    path: Path
    position: int
    reason: str


def inspect(path: Path) -> Iterator[InspectedBatch | InspectedDamage]:
    """Every batch of a segment file, or of all segments under a directory. It checks the CRC, that the offset
    follows the one before, that the leader epoch does not go back, and that no segment is missing between
    two.

    A file that is damaged ends with one InspectedDamage. Raises OSError, also if there is none: a mistyped
    directory is not one without damage.
    """
    paths = sorted(path.rglob(f"*{LOG_SUFFIX}")) if path.is_dir() else [path]
    if not paths:
        raise FileNotFoundError(errno.ENOENT, f"no segment (*{LOG_SUFFIX}) is here or below", str(path))
    before: tuple[Path, BatchHeader] | None = None
    for segment_path in paths:
        base_offset = int(segment_path.stem) if segment_path.stem.isdigit() else None
        last = before[1] if before is not None and before[0] == segment_path.parent else None
        if last is not None and base_offset not in (None, last.next_offset):
            yield InspectedDamage(
                segment_path, 0, f"the segment in front of it ends at offset {last.next_offset}"
            )
        before = None
        for found in _inspect_file(segment_path, base_offset):
            if isinstance(found, InspectedDamage):
                before = None
                yield found
                continue
            header = found.header
            if last is not None and header.leader_epoch < last.leader_epoch:
                reason = (
                    f"it begins with leader epoch {header.leader_epoch}, and the segment in front of it ends "
                    f"with {last.leader_epoch}: one of the two is changed"
                )
                yield InspectedDamage(segment_path, 0, reason)
            yield found
            last, before = None, (segment_path.parent, header)


def _inspect_file(path: Path, base_offset: int | None) -> Iterator[InspectedBatch | InspectedDamage]:
    with path.open("rb") as file:
        size = file.seek(0, 2)

        def read(wanted: int, position: int) -> bytes:
            file.seek(position)
            return file.read(wanted)

        end = 0
        try:
            for position, header in scan(read, 0, size, verify=True, next_offset=base_offset):
                yield InspectedBatch(path, position, header)
                end = position + header.size_bytes
        except BatchError as error:
            yield InspectedDamage(path, end, str(error))
