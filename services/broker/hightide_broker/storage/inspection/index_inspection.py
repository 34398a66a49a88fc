"""Reads the files beside the segments without changing anything, for `hightide dump-index`.

Works on a directory that a broker has open, and on damaged files. All of them can be rebuilt from the
segments, so that damage here costs time and no records.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from hightide_broker.storage.checkpoints.leader_epochs import decode as decode_epochs
from hightide_broker.storage.errors import CorruptFile
from hightide_broker.storage.index.offset_index import OffsetIndex
from hightide_broker.storage.index.time_index import TimeIndex
from hightide_broker.storage.log.producer_states import ProducerStates
from hightide_broker.storage.segments.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX

__all__ = ["IndexKind", "InspectedIndex", "inspect_indexes"]

IndexKind: TypeAlias = Literal["offset_index", "time_index", "leader_epochs", "producers"]

_KINDS: Final[dict[str, IndexKind]] = {
    INDEX_SUFFIX: "offset_index",
    TIME_INDEX_SUFFIX: "time_index",
    ".producers": "producers",
}
_EPOCHS_NAME: Final = "leader_epochs"
# Where the segment of an index is gone, any position may be one of it.
_ANY_SIZE: Final = 1 << 32
# The largest of these files is that of a full segment's offsets; what is larger is none of them.
_FILE_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class InspectedIndex:
    """One file. `entries` are rows with the columns of its kind. `damage` says why there are none or, for
    leader epochs, that the last one is torn."""

    path: Path
    kind: IndexKind
    columns: tuple[str, ...]
    entries: tuple[tuple[int, ...], ...]
    damage: str | None = None


def inspect_indexes(path: Path) -> Iterator[InspectedIndex]:
    """One file, or all of these files under a directory, in the order of their names. Raises OSError, also if
    there is none of them, and ValueError for a file whose name is of no such kind."""
    if not path.is_dir():
        kind = _kind_of(path)
        if kind is None:
            names = ", ".join(f"*{suffix}" for suffix in _KINDS)
            raise ValueError(
                f"{path} is named as none of the files beside a segment: {names}, {_EPOCHS_NAME}"
            )
        yield _inspect(path, kind)
        return
    named = ((each, _kind_of(each)) for each in sorted(path.rglob("*")) if each.is_file())
    found = [(each, kind) for each, kind in named if kind is not None]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no file beside a segment is here or below", str(path))
    for each, kind in found:
        yield _inspect(each, kind)


def _kind_of(path: Path) -> IndexKind | None:
    return "leader_epochs" if path.name == _EPOCHS_NAME else _KINDS.get(path.suffix)


def _inspect(path: Path, kind: IndexKind) -> InspectedIndex:
    columns: dict[IndexKind, tuple[str, ...]] = {
        "offset_index": ("offset", "position"),
        "time_index": ("timestamp_us", "position"),
        "leader_epochs": ("epoch", "start_offset"),
        "producers": (
            *("producer_id", "producer_epoch", "first_sequence"),
            *("first_offset", "next_sequence", "end_offset"),
        ),
    }
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
        if len(data) > _FILE_BYTES_MAX:
            raise CorruptFile(f"the file has more than {_FILE_BYTES_MAX} bytes")
        entries, damage = _entries(path, kind, data)
    except CorruptFile as error:
        entries, damage = (), str(error)
    return InspectedIndex(path, kind, columns[kind], entries, damage)


def _entries(path: Path, kind: IndexKind, data: bytes) -> tuple[tuple[tuple[int, ...], ...], str | None]:
    match kind:
        case "offset_index":
            base = _base_offset(path)
            index = OffsetIndex.decode(data, _segment_size(path))
            return tuple((base + offset, position) for offset, position in index.entries()), None
        case "time_index":
            return tuple(TimeIndex.decode(data, _segment_size(path)).entries()), None
        case "leader_epochs":
            epochs, is_torn = decode_epochs(data)
            return (
                epochs,
                "its last entry is torn, which the broker mends when it starts" if is_torn else None,
            )
        case "producers":
            states = ProducerStates()
            states.restore(data)
            return tuple(
                (
                    *(each.producer_id, each.producer_epoch, each.first_sequence),
                    *(each.first_offset, each.next_sequence, each.end_offset),
                )
                for each in states.describe(())
            ), None


def _base_offset(path: Path) -> int:
    if not (path.stem.isascii() and path.stem.isdigit()):
        raise CorruptFile(f"{path.name} is not named by an offset")
    return int(path.stem)


def _segment_size(path: Path) -> int:
    try:
        return path.with_suffix(LOG_SUFFIX).stat().st_size
    except FileNotFoundError:
        return _ANY_SIZE
