"""The layout of an archive: names, how files tile a log, what to publish, what to merge.

Pure: no file is touched here. Theory of operation. A log is a folder, `topic=…/topic_id=…/partition=…`; the
topic's id stands in it, so that a topic that was created anew under its old name is a log of its own. A file
holds the records [start, end) and is named by them. So a range written twice is one file, and the names alone
show missing or double records. Records never change, so if one file covers another, the covering one counts,
and the other is rubbish that a crash has left.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hightide_spark.pipelines.errors import ArchiveNameError, ArchiveOverlapError

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}")
_FOLDER: Final = re.compile(r"topic=([^/]+)/topic_id=0x([^/]+)/partition=(0|[1-9][0-9]{0,9})")
_FILE: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class ArchivedLog:
    """One partition of a topic with one id; in an archive, a folder. `topic_id` is 32 hexadecimal digits."""

    topic: str
    topic_id: str
    partition: int

    def __post_init__(self) -> None:
        if _TOPIC.fullmatch(self.topic) is None or self.topic in (".", ".."):
            raise ArchiveNameError(
                f"topic {self.topic[:250]!r} is not 1 to 249 characters of [a-zA-Z0-9._-]; it is not archived"
            )
        if _TOPIC_ID.fullmatch(self.topic_id) is None or self.partition < 0:
            raise ArchiveNameError(
                f"topic {self.topic} has id {self.topic_id[:40]!r} and partition {self.partition}; an "
                "archive takes an id of 32 hexadecimal digits and partitions from 0"
            )

    @property
    def folder(self) -> str:
        """Its folder, relative to the archive. `0x` keeps Spark from taking ids for numbers."""
        return f"topic={self.topic}/topic_id=0x{self.topic_id}/partition={self.partition}"

    @classmethod
    def of_folder(cls, folder: str) -> "ArchivedLog | None":
        """The log of a relative folder; None for a folder that no archive has made."""
        found = _FOLDER.fullmatch(folder)
        if found is None:
            return None
        try:
            return cls(found[1], found[2], int(found[3]))
        except ArchiveNameError:
            return None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} (topic id {self.topic_id})"


@dataclass(frozen=True, slots=True, order=True)
class FileRange:
    """The records [start, end) of a log, as one file holds them."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.start < self.end, (self.start, self.end)

    @property
    def file_name(self) -> str:
        """The file's name; names sort as offsets do."""
        return f"{self.start:020d}-{self.end:020d}.parquet"

    @property
    def record_count(self) -> int:
        """The number of records that the file must hold: a log has no gaps."""
        return self.end - self.start

    @classmethod
    def of_file_name(cls, name: str) -> "FileRange | None":
        """Read a name; None for one that no archive has given."""
        found = _FILE.fullmatch(name)
        start, end = (int(found[1]), int(found[2])) if found is not None else (0, 0)
        return cls(start, end) if start < end else None

    def covers(self, other: "FileRange") -> bool:
        """Whether all of the other range lies in this one."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "FileRange") -> bool:
        """Whether both ranges share an offset."""
        return self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class Tiling:
    """The files of one log: those that count, in order, and the problems with them."""

    counting: tuple[FileRange, ...]
    covered: tuple[FileRange, ...]
    """Rubbish of an interrupted merge: another file holds all of it."""
    gaps: tuple[FileRange, ...]
    overlaps: tuple[FileRange, ...]
    """Offsets in two files of which neither covers the other."""

    @property
    def is_sound(self) -> bool:
        """Whether the files that are there hold each record from the first to the last once."""
        return not (self.covered or self.gaps or self.overlaps)

    @property
    def record_count(self) -> int:
        """How many different records the files hold."""
        return sum(each.record_count for each in self.counting) - sum(
            each.record_count for each in self.overlaps
        )


def tile(files: Iterable[FileRange]) -> Tiling:
    """Compare the ranges of files. Called by everything that reads an archive."""
    counting: list[FileRange] = []
    covered, gaps, overlaps = [], [], []
    for each in sorted(set(files), key=lambda found: (found.start, -found.end)):
        # Those that count have rising ends, so that only the last one can cover or overlap.
        last = counting[-1] if counting else None
        if last is not None and last.covers(each):
            covered.append(each)
            continue
        if last is not None and each.start > last.end:
            gaps.append(FileRange(last.end, each.start))
        if last is not None and each.start < last.end:
            overlaps.append(FileRange(each.start, last.end))
        counting.append(each)
    return Tiling(tuple(counting), tuple(covered), tuple(gaps), tuple(overlaps))


@dataclass(frozen=True, slots=True)
class Publication:
    """The steps by which the files of a micro-batch come into a log: rename, then remove."""

    remove: tuple[FileRange, ...]
    """Left by an earlier attempt at the micro-batch that was cut in another way."""
    rename: tuple[FileRange, ...]
    discard: tuple[FileRange, ...]
    """Written, but there already within a longer file."""


def plan_publication(
    log: ArchivedLog, existing: Iterable[FileRange], written: Sequence[FileRange]
) -> Publication:
    """Decide what to do with written files, given the existing ones. Called once for each log and
    micro-batch.

    Raises ArchiveOverlapError where a file would stick out of what was written: removing it would lose
    records, and keeping it would count some twice.
    """
    there = set(existing)
    new = sorted(set(written))
    discard = [each for each in new if any(other != each and other.covers(each) for other in there)]
    rename = [each for each in new if each not in discard]
    whole = _joined(rename)
    remove = []
    for other in sorted(there - set(rename)):
        if any(each.covers(other) for each in whole):
            remove.append(other)
            continue
        meeting = next((each for each in rename if other.overlaps(each)), None)
        if meeting is not None:
            raise ArchiveOverlapError(
                f"{log}: the records {meeting} were read again, and the archive's file {other} holds a part "
                "of them; its checkpoint is not the one it was made with: archive into a new directory"
            )
    return Publication(tuple(remove), tuple(rename), tuple(discard))


def _joined(ranges: Sequence[FileRange]) -> list[FileRange]:
    """Sorted ranges, with those that follow on each other made one."""
    joined: list[FileRange] = []
    for each in ranges:
        if joined and joined[-1].end == each.start:
            joined[-1] = FileRange(joined[-1].start, each.end)
        else:
            joined.append(each)
    return joined


def plan_merges(sizes: Mapping[FileRange, int], target_bytes: int) -> list[tuple[FileRange, ...]]:
    """Group small files that follow on each other, each group to become one file of up to `target_bytes`.

    `sizes` are the bytes of the files of one log that count. Called by the compaction.
    """
    groups: list[list[FileRange]] = []
    size_bytes = 0
    for each in sorted(sizes):
        follows = bool(groups) and groups[-1][-1].end == each.start
        if follows and size_bytes + sizes[each] <= target_bytes:
            groups[-1].append(each)
            size_bytes += sizes[each]
        else:
            groups.append([each])
            size_bytes = sizes[each]
    return [tuple(group) for group in groups if len(group) > 1]
