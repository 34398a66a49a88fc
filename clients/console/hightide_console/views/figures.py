"""Figures as people read them. Pure."""

from datetime import UTC, datetime

from hightide_cli.command_line.sizes import duration_text, milliseconds_text, size_text

__all__ = ["ago", "count", "duration_text", "moment", "rate", "share", "size_rate", "size_text", "took"]

UNKNOWN = "–"


def count(number: float | None) -> str:
    """A whole number with separators."""
    return UNKNOWN if number is None else f"{round(number):,}"


def rate(per_s: float | None) -> str:
    """Something a second; small rates keep a digit behind the point."""
    if per_s is None:
        return UNKNOWN
    return f"{per_s:.1f}" if 0 < per_s < 10 else f"{round(per_s):,}"


def size_rate(bytes_per_s: float | None) -> str:
    """Bytes a second."""
    return UNKNOWN if bytes_per_s is None else f"{size_text(bytes_per_s)}/s"


def took(milliseconds: float | None) -> str:
    """A duration of a call."""
    if milliseconds is None:
        return UNKNOWN
    return f"{milliseconds:.2g} ms" if milliseconds < 10 else milliseconds_text(milliseconds)


def share(part: float, whole: float) -> int:
    """Whole per cent, from 0 to 100."""
    return 0 if whole <= 0 else round(100 * min(1.0, max(0.0, part / whole)))


def moment(at_ms: float) -> str:
    """A moment in UTC, to the millisecond. What no calendar has is shown as the number it is."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms:.0f} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}Z"


def ago(since_ms: int, now_ms: int) -> str:
    """How long something has lasted."""
    return duration_text(max(0, now_ms - since_ms) / 1000)
