"""What is told of the clusters with a test that failed: the warnings that their processes logged meanwhile,
and what became of the failovers. Where tests run on somebody else's machine, the logs are thrown away.

Processes and clusters say where they log as they are made, also those that end before the test does. Nothing
slow is imported here, since every run of pytest on a machine with this package imports it.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LINES_PER_PROCESS_MAX: Final = 20
LINES_MAX: Final = 200
_LINE_CHARACTERS_MAX: Final = 400
_FAILOVERS_MAX: Final = 20
_READ_BYTES_MAX: Final = 1 << 20
"""Of one log, from its end."""
_SPAN_FILE_BYTES_MAX: Final = 2 << 20
_KNOWN_MAX: Final = 200
"""Logs, and directories of traces, that were made last."""

# Our own services put the level behind the time, ZooKeeper behind the thread.
_LEVEL: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:.*? )?(DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) ")
_BELOW_WARNING: Final = frozenset({"DEBUG", "INFO"})
_JAVA_FRAME: Final = "\tat "

# By path, the one made last at the end; dictionaries keep their order.
_logs: dict[Path, str] = {}
_trace_directories: dict[Path, None] = {}


@dataclass(frozen=True, slots=True)
class Moment:
    """When a test began: `time_us` by the wall clock, and how long each log that was known was then."""

    time_us: int
    sizes_bytes: Mapping[Path, int]


def note_log(name: str, path: Path) -> None:
    """A process of this name logs there. ManagedProcess calls it."""
    _logs.pop(path, None)
    _logs[path] = name
    if len(_logs) > _KNOWN_MAX:
        del _logs[next(iter(_logs))]


def note_traces(directory: Path) -> None:
    """The processes of a cluster write their spans there. LocalCluster calls it."""
    _trace_directories.pop(directory, None)
    _trace_directories[directory] = None
    if len(_trace_directories) > _KNOWN_MAX:
        del _trace_directories[next(iter(_trace_directories))]


def now() -> Moment:
    """What `report_since` starts from. The pytest plugin calls it before each test."""
    return Moment(time.time_ns() // 1000, {path: _size_bytes(path) for path in list(_logs)})


def report_since(began: Moment) -> str:
    """The lines to show, at most LINES_MAX of logs, and a sentence for each of the latest failovers; empty
    where nothing was amiss."""
    lines: list[str] = []
    for path, name in reversed(list(_logs.items())):
        warnings = list(_warnings(_text_from(path, began.sizes_bytes.get(path, 0))))
        if not warnings:
            continue
        shown = warnings[-LINES_PER_PROCESS_MAX:]
        more = f", the last {len(shown)} of {len(warnings)} lines" if len(shown) < len(warnings) else ""
        lines += [f"warnings of {name} ({path}){more}:", *(f"  {line}" for line in shown)]
        if len(lines) > LINES_MAX:
            lines = [*lines[:LINES_MAX], "and so on"]
            break
    told = list(_failovers(began.time_us))
    if told:
        lines += [
            "failovers since the test began:",
            *(f"  {sentence}" for sentence in told[-_FAILOVERS_MAX:]),
        ]
    return "\n".join(lines)


def _warnings(text: str) -> Iterator[str]:
    """Lines of the level WARNING and above with what belongs to them, and lines of no level, such as those of
    an interpreter that dies. Of a Java exception only the message: its frames are in the log."""
    is_shown = True
    for line in text.splitlines():
        if found := _LEVEL.match(line):
            is_shown = found[1] not in _BELOW_WARNING
        elif not line.startswith((" ", "\t")):
            # An unindented line belongs to the one before only in Java, which shows warnings alone here.
            is_shown = True
        if is_shown and line.strip() and not line.startswith(_JAVA_FRAME):
            yield line[:_LINE_CHARACTERS_MAX]


def _failovers(since_us: int) -> Iterator[str]:
    """A sentence each, the oldest first within a cluster."""
    if not _trace_directories:
        return
    from hightide_local.traces.span_files import read_spans
    from hightide_local.traces.trace_accounts import account_of
    from hightide_local.traces.trace_lookup import FAILOVER_KINDS, traces_of

    for directory in list(_trace_directories):
        if not any(_changed_us(path) >= since_us for path in directory.glob("*.jsonl")):
            continue
        for trace in traces_of(read_spans(directory, _SPAN_FILE_BYTES_MAX)):
            account = account_of(trace) if trace.kind in FAILOVER_KINDS and trace.end_us >= since_us else None
            if account is not None:
                reason = trace.root.attributes.get("reason", "no reason told")
                yield f"{trace.kind} {trace.trace_id} ({reason}): {account.sentence}"


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # Nothing was started yet, or its directory is gone.


def _changed_us(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1000
    except OSError:
        return 0


def _text_from(path: Path, begin_bytes: int) -> str:
    """What a log has grown by; of a long one its end."""
    try:
        with path.open("rb") as log:
            size_bytes = log.seek(0, os.SEEK_END)
            log.seek(max(begin_bytes, size_bytes - _READ_BYTES_MAX))
            return log.read(_READ_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""  # Its directory is gone.
