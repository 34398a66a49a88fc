"""Reads the spans that processes write as JSON lines, a file for each process. The content is not trusted."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeAlias

from hightide_runtime.telemetry.appended_lines import FILE_BYTES_MAX

Attributes: TypeAlias = dict[str, str | int | float | bool]

#: At most this many files are read, those that were written last.
FILES_MAX: Final = 1_000
_TEXT_MAX: Final = 2_000
_ATTRIBUTES_MAX: Final = 64
_TIME_US_MAX: Final = 253_402_300_799_000_000
"""The end of the year 9999, beyond which no date can be printed."""


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One span. Times are wall-clock microseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    instance: str
    start_us: int
    end_us: int
    ok: bool = True
    attributes: Attributes = field(default_factory=dict)

    @property
    def duration_us(self) -> int:
        """The duration of the span, in microseconds."""
        return self.end_us - self.start_us


def read_spans(directory: Path, file_bytes_max: int = FILE_BYTES_MAX) -> list[SpanRecord]:
    """The spans in the files *.jsonl of a directory. Of a long file the last `file_bytes_max` bytes are read.
    Lines that are no spans, as after a kill during a write, are skipped."""
    files = sorted(directory.glob("*.jsonl"), key=_modified_at)[-FILES_MAX:]
    spans = []
    for path in sorted(files):
        for line in _last_lines(path, file_bytes_max):
            try:
                spans.append(_span_of(json.loads(line)))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
    return spans


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _last_lines(path: Path, bytes_max: int) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - bytes_max))
            if size_bytes > bytes_max:
                file.readline()  # The first line is not complete.
            content = file.read(bytes_max)
    except OSError:
        return  # The directory is being deleted.
    for line in content.split(b"\n"):
        if line:
            yield line.decode("utf-8", errors="replace")


def _span_of(fields: Any) -> SpanRecord:
    """The span of a line's JSON. Raises ValueError, KeyError, TypeError or OverflowError if it is not one."""
    if not isinstance(fields, dict):
        raise TypeError("a span is a JSON object")
    start_us, end_us = int(fields["start_us"]), int(fields["end_us"])
    if not 0 <= start_us <= _TIME_US_MAX or not 0 <= end_us <= _TIME_US_MAX:
        raise ValueError("a time that no clock shows")
    return SpanRecord(
        trace_id=_text(fields["trace_id"]),
        span_id=_text(fields["span_id"]),
        parent_id=_text(fields["parent_id"]),
        name=_text(fields["name"]),
        service=_text(fields["service"]),
        instance=_text(fields["instance"]),
        start_us=start_us,
        # The end is earlier than the start if the clock was set back.
        end_us=max(start_us, end_us),
        ok=bool(fields.get("ok", True)),
        attributes=_attributes(fields.get("attributes", {})),
    )


def _attributes(fields: Any) -> Attributes:
    if not isinstance(fields, dict):
        return {}
    named = list(fields.items())[:_ATTRIBUTES_MAX]
    return {
        # Python reads NaN and Infinity, which are not valid JSON for other programs.
        _text(name): value if isinstance(value, int) or _is_finite(value) else _text(value)
        for name, value in named
    }


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and isfinite(value)


def _text(value: object) -> str:
    """The value as text for terminals: printable, and not too long."""
    text = str(value)[:_TEXT_MAX]
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
