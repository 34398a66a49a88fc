"""The reports of the demo's consumers: one line of JSON for each event."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class PartitionGiven:
    """A partition was given to the consumer. Times are milliseconds of the machine's monotonic clock."""

    at_ms: float
    partition: int
    generation: int
    """The group's generation in which the partition was given to it, which fences the owner's commits."""


@dataclass(frozen=True, slots=True)
class PartitionTaken:
    """The consumer no longer owns a partition: it was revoked, or the consumer learned that it was lost."""

    at_ms: float
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class HandedOut:
    """The consumer was handed out consecutive records of one partition, which it processes."""

    at_ms: float
    partition: int
    generation: int
    first_offset: int
    next_offset: int


GroupReport: TypeAlias = PartitionGiven | PartitionTaken | HandedOut

_KINDS: Final[dict[str, type[PartitionGiven] | type[PartitionTaken] | type[HandedOut]]] = {
    "given": PartitionGiven,
    "taken": PartitionTaken,
    "handed_out": HandedOut,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class ReportDamagedError(Exception):
    """A line of a report is not one that a consumer writes."""


def report_line(report: GroupReport) -> bytes:
    """Return a report as a line. The consumer calls it, and appends the line to its file in one write."""
    document = {"what": _NAMES[type(report)], **asdict(report)}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def parse_report(line: bytes) -> GroupReport:
    """Return the report of a line. Raises ReportDamagedError."""
    try:
        document: dict[str, Any] = json.loads(line)
        return _KINDS[document.pop("what")](**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportDamagedError(f"{line!r} is no line of a consumer's report") from error


class ReportFile:
    """Reads the reports of one consumer while it writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_bytes = 0

    def follow(self) -> list[GroupReport]:
        """Return the reports since the last call. Raises ReportDamagedError.

        A line without an end is left out. It is not complete yet, or its consumer died during the write and
        has not committed its records.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                written = file.read()
        except FileNotFoundError:
            return []  # The consumer has not started yet.
        whole = written[: written.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return [parse_report(line) for line in whole.splitlines()]
