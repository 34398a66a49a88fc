"""The report on the clusters of a failed test: the warnings in the logs of their processes, and a sentence
for each failover. It is needed where the logs are deleted after the tests, as in CI.

Each process and each cluster calls `note_log` or `note_traces` when it is made, so that the report also has
those that ended before the test. Nothing slow is imported here, since every run of pytest on a machine with
this package imports it.
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
"""The report reads at most this much of a log, from its end."""
_SPAN_FILE_BYTES_MAX: Final = 2 << 20
_KNOWN_MAX: Final = 200
"""The number of logs, and of trace directories, that are remembered. The oldest are forgotten first."""

# The services write the level after the time, ZooKeeper after the thread.
_LEVEL: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:.*? )?(DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL) ")
_BELOW_WARNING: Final = frozenset({"DEBUG", "INFO"})
_JAVA_FRAME: Final = "\tat "

# By path, the newest at the end: dictionaries keep their order.
_logs: dict[Path, str] = {}
_trace_directories: dict[Path, None] = {}


@dataclass(frozen=True, slots=True)
class TestStart:
    """The start of a test: the wall clock in microseconds, and the size of each known log."""

    time_us: int
    sizes_bytes: Mapping[Path, int]


def note_log(name: str, path: Path) -> None:
    """Remember the log of the process with this name. ManagedProcess calls it."""
    _logs.pop(path, None)
    _logs[path] = name
    if len(_logs) > _KNOWN_MAX:
        del _logs[next(iter(_logs))]


def note_traces(directory: Path) -> None:
    """Remember the trace directory of a cluster. LocalCluster calls it."""
    _trace_directories.pop(directory, None)
    _trace_directories[directory] = None
    if len(_trace_directories) > _KNOWN_MAX:
        del _trace_directories[next(iter(_trace_directories))]


def now() -> TestStart:
    """The present moment, for `report_since`. The pytest plugin calls it before each test."""
    return TestStart(time.time_ns() // 1000, {path: _size_bytes(path) for path in list(_logs)})


def report_since(began: TestStart) -> str:
    """The report since a moment: warnings, at most LINES_MAX lines, and a sentence for each of the latest
    failovers. Empty if there were none. The pytest plugin calls it for a test that failed."""
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
    sentences = list(_failovers(began.time_us))
    if sentences:
        lines += [
            "failovers since the test began:",
            *(f"  {sentence}" for sentence in sentences[-_FAILOVERS_MAX:]),
        ]
    return "\n".join(lines)


def _warnings(text: str) -> Iterator[str]:
    """The lines of level WARNING and above with their continuation lines, and lines without a level, such as
    a traceback at the end of an interpreter. The frames of Java exceptions are left out."""
    is_shown = True
    for line in text.splitlines():
        if found := _LEVEL.match(line):
            is_shown = found[1] not in _BELOW_WARNING
        elif not line.startswith((" ", "\t")):
            # Only in Java does such a line continue the one before, and Java logs only warnings here.
            is_shown = True
        if is_shown and line.strip() and not line.startswith(_JAVA_FRAME):
            yield line[:_LINE_CHARACTERS_MAX]


def _failovers(since_us: int) -> Iterator[str]:
    """A sentence for each failover that ended after this time, the oldest first within a cluster."""
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
        return 0  # The process has not started yet, or its directory was deleted.


def _changed_us(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1000
    except OSError:
        return 0


def _text_from(path: Path, begin_bytes: int) -> str:
    """The text of a log from `begin_bytes` on; of a long text the end."""
    try:
        with path.open("rb") as log:
            size_bytes = log.seek(0, os.SEEK_END)
            log.seek(max(begin_bytes, size_bytes - _READ_BYTES_MAX))
            return log.read(_READ_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""  # Its directory was deleted.
