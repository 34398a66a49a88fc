"""The layout of an archive: names, the ranges of a log's files, and plans to publish and to merge. No I/O.

Theory of operation. A log is a folder, `topic=…/topic_id=…/partition=…`. The folder has the topic's id, so
that a topic that was created again under the same name is another log. A file holds the records [start, end)
and is named by them. So a range that is written twice is one file, and the names alone show missing or
duplicate records. Records never change, so if one file covers another, only the covering one counts, and the
other is a remainder of a crash.
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
        """Its folder, relative to the archive. Without `0x` Spark would take some ids for numbers."""
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
    """The records [start, end) of a log that one file holds."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.start < self.end, (self.start, self.end)

    @property
    def file_name(self) -> str:
        """The file's name. Names sort in the order of offsets."""
        return f"{self.start:020d}-{self.end:020d}.parquet"

    @property
    def record_count(self) -> int:
        """The number of records that the file must hold: a log has no gaps."""
        return self.end - self.start

    @classmethod
    def of_file_name(cls, name: str) -> "FileRange | None":
        """The range of a file's name; None for a name that no archive gives."""
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
    """The files of one log: the valid ones, in order, and the problems with them."""

    counting: tuple[FileRange, ...]
    covered: tuple[FileRange, ...]
    """Files whose records another file holds as well, left by an interrupted merge."""
    gaps: tuple[FileRange, ...]
    overlaps: tuple[FileRange, ...]
    """Offsets in two files of which neither covers the other."""

    @property
    def record_count(self) -> int:
        """The number of different records in the files."""
        return sum(each.record_count for each in self.counting) - sum(
            each.record_count for each in self.overlaps
        )


def tile(files: Iterable[FileRange]) -> Tiling:
    """Sort the ranges of a log's files into valid and covered ones, gaps and overlaps. The scan of an archive
    calls it for each log."""
    counting: list[FileRange] = []
    covered, gaps, overlaps = [], [], []
    for each in sorted(set(files), key=lambda found: (found.start, -found.end)):
        # Valid files have rising ends, so only the last one can cover or overlap this one.
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
    """The steps that bring the files of a micro-batch into a log: rename first, then remove and discard."""

    remove: tuple[FileRange, ...]
    """Files of an earlier attempt at the micro-batch, which was cut in another way."""
    rename: tuple[FileRange, ...]
    discard: tuple[FileRange, ...]
    """Written files whose records are already in a longer file."""


def plan_publication(
    log: ArchivedLog, existing: Iterable[FileRange], written: Sequence[FileRange]
) -> Publication:
    """Decide what to do with written files, given the existing ones. Called once for each log and
    micro-batch.

    Raises ArchiveOverlapError if an existing file holds a part of the written records and other records, too:
    without it records would be lost, and with it some would be there twice.
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
    """Join adjacent ones of sorted ranges."""
    joined: list[FileRange] = []
    for each in ranges:
        if joined and joined[-1].end == each.start:
            joined[-1] = FileRange(joined[-1].start, each.end)
        else:
            joined.append(each)
    return joined


def plan_merges(sizes: Mapping[FileRange, int], target_bytes: int) -> list[tuple[FileRange, ...]]:
    """Group adjacent files, so that each group can become one file of up to `target_bytes`.

    `sizes` are the sizes in bytes of the valid files of one log. The compaction calls it for each log.
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
