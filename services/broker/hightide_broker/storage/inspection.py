"""Looks into logs on disk without changing anything: what `hightide dump-log` prints.

Works on a directory that a broker has open, and on damaged files.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hightide.batch.errors import BatchError
from hightide.batch.header import BatchHeader

from hightide_broker.storage.batch_scan import scan
from hightide_broker.storage.segment import LOG_SUFFIX

__all__ = ["InspectedBatch", "InspectedDamage", "inspect"]


@dataclass(frozen=True, slots=True)
class InspectedBatch:
    """A batch, and where it is."""

    path: Path
    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class InspectedDamage:
    """Where a file stops being readable, and why."""

    path: Path
    position: int
    reason: str


def inspect(path: Path) -> Iterator[InspectedBatch | InspectedDamage]:
    """Every batch of a segment file, or of all segments under a directory, with its CRC checked.

    A file that is damaged ends with one InspectedDamage. Raises OSError, also where there is none: a mistyped
    directory is not one without damage.
    """
    paths = sorted(path.rglob(f"*{LOG_SUFFIX}")) if path.is_dir() else [path]
    if not paths:
        raise FileNotFoundError(errno.ENOENT, f"no segment (*{LOG_SUFFIX}) is here or below", str(path))
    for segment_path in paths:
        yield from _inspect_file(segment_path)


def _inspect_file(path: Path) -> Iterator[InspectedBatch | InspectedDamage]:
    with path.open("rb") as file:
        size = file.seek(0, 2)

        def read(wanted: int, position: int) -> bytes:
            file.seek(position)
            return file.read(wanted)

        end = 0
        try:
            for position, header in scan(read, 0, size, verify=True):
                yield InspectedBatch(path, position, header)
                end = position + header.size_bytes
        except BatchError as error:
            yield InspectedDamage(path, end, str(error))
