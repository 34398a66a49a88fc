"""What the demo's group consumers report of themselves: one line of JSON for each thing that happened."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Given:
    """A partition was given to the consumer. Times are milliseconds of the machine's monotonic clock."""

    at_ms: float
    partition: int
    generation: int
    """The group's generation in which the partition was given away: the fence of its owner's commits."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A partition is not the consumer's any more: it gave it back, or heard that it had lost it."""

    at_ms: float
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Consecutive records of one partition were handed out and are processed."""

    at_ms: float
    partition: int
    generation: int
    first_offset: int
    next_offset: int


GroupReport: TypeAlias = Given | Taken | HandedOut

_KINDS: Final[dict[str, type[Given] | type[Taken] | type[HandedOut]]] = {
    "given": Given,
    "taken": Taken,
    "handed_out": HandedOut,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class ReportDamagedError(Exception):
    """A line of a report is none that a consumer writes."""


def report_line(report: GroupReport) -> bytes:
    """Write a report as a line. Called by the consumer, which appends it to its file in one write."""
    document = {"what": _NAMES[type(report)], **asdict(report)}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def parse_report(line: bytes) -> GroupReport:
    """Read a line back. Raises ReportDamagedError."""
    try:
        document: dict[str, Any] = json.loads(line)
        return _KINDS[document.pop("what")](**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportDamagedError(f"{line!r} is no line of a consumer's report") from error


class ReportFile:
    """The report of one consumer, read while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_bytes = 0

    def follow(self) -> list[GroupReport]:
        """Return what was written since the last time. Raises ReportDamagedError.

        A line without an end is being written, or its consumer died writing it: nothing of it is committed.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                written = file.read()
        except FileNotFoundError:
            return []  # The consumer has not begun yet.
        whole = written[: written.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return [parse_report(line) for line in whole.splitlines()]
