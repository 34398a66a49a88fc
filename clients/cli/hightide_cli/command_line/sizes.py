"""Numbers of bytes as people write and read them: 10MB, 1.5 GiB, 800 kB."""

import re

_FACTORS: dict[str, int] = {
    **dict.fromkeys(("", "b"), 1),
    **{prefix + unit: 1000**power for power, prefix in enumerate("kmgt", 1) for unit in ("", "b")},
    **{prefix + unit: 1024**power for power, prefix in enumerate("kmgt", 1) for unit in ("i", "ib")},
}
# With as many digits as fit into 64 bits: no more are meant.
_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"
_UNITS = ("B", "kB", "MB", "GB", "TB")


def parse_size(text: str) -> int:
    """Bytes, from `800`, `10MB` (10,000,000) or `10MiB` (10,485,760), with or without `/s`. Raises
    ValueError."""
    found = re.fullmatch(rf"({_NUMBER})\s*([a-z]*?)(?:/s)?", text.strip().lower())
    if found is None or found[2] not in _FACTORS:
        raise ValueError(f"{text!r} is not a size like 800kB, 10MB or 1.5GiB")
    return round(float(found[1]) * _FACTORS[found[2]])


def size_text(size_bytes: float) -> str:
    """Bytes with three digits: `0 B`, `999 B`, `1.23 MB`."""
    value, unit = float(size_bytes), _UNITS[0]
    for following in _UNITS[1:]:
        if value < 999.5:
            break
        value, unit = value / 1000, following
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.3g} {unit}"


def duration_text(seconds: float) -> str:
    """`8 s`, `2 min 5 s`, `3 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def milliseconds_text(milliseconds: float) -> str:
    """`120 ms`, `2.5 s`, `45 s`, `2 min 5 s`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.3g} s"
    return duration_text(milliseconds / 1000)


_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Seconds, from `90s`, `15m`, `1.5h`, `7d`, or several as in `1h30m`. Raises ValueError."""
    parts = re.findall(rf"({_NUMBER})\s*(min|[smhd])", text.strip().lower())
    if not parts or not re.fullmatch(rf"(?:{_NUMBER}\s*(?:min|[smhd])\s*)+", text.strip().lower()):
        raise ValueError(f"{text!r} is not a time span like 90s, 15m, 1h30m or 7d")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
