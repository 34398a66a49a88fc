"""What the services measure of themselves, from the text that they serve to Prometheus. Pure.

Counters become rates by two scrapes, and a histogram's sum and count become the mean since the last scrape.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_LINE: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{([^}]*)\})? (\S+)")
_METHOD: Final = re.compile(r'rpc_method="([^"]{1,200})"')
_SENT_BYTES: Final = "hightide_broker_sent_bytes_total"
_SENT_RECORDS: Final = "hightide_broker_sent_records_total"
_RECEIVED_BYTES: Final = "hightide_broker_received_bytes_total"
_RECEIVED_RECORDS: Final = "hightide_broker_received_records_total"
_CALL_SUM: Final = "rpc_server_call_duration_seconds_sum"
_CALL_COUNT: Final = "rpc_server_call_duration_seconds_count"
#: A service has a few dozen series of these; more is not what it is taken for.
_LINES_MAX: Final = 20_000
_METHODS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Scrape:
    """The counters of one server at a moment of a monotonic clock. `calls` has, by method, the seconds that
    its calls took together, and their number."""

    at_s: float
    received_bytes: float = 0.0
    received_records: float = 0.0
    sent_bytes: float = 0.0
    sent_records: float = 0.0
    calls: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """What moved between two scrapes of one server, a second; `latencies_ms` has the mean of each method that
    was called meanwhile."""

    received_bytes: float
    received_records: float
    sent_bytes: float
    sent_records: float
    latencies_ms: Mapping[str, float]


def scrape_of(text: str, at_s: float) -> Scrape:
    """Read the text of one server. Lines that are no samples are left out."""
    totals = dict.fromkeys((_RECEIVED_BYTES, _RECEIVED_RECORDS, _SENT_BYTES, _SENT_RECORDS), 0.0)
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    for line in text.split("\n", _LINES_MAX)[:_LINES_MAX]:
        found = _LINE.match(line)
        if found is None:
            continue
        name, labels, written = found.groups()
        value = _number(written)
        if name in totals:
            totals[name] += value
        elif name in (_CALL_SUM, _CALL_COUNT):
            method = _METHOD.search(labels or "")
            kept = sums if name == _CALL_SUM else counts
            if method is not None and (method[1] in kept or len(kept) < _METHODS_MAX):
                kept[method[1]] = kept.get(method[1], 0.0) + value
    calls = {method: (sums.get(method, 0.0), count) for method, count in counts.items()}
    return Scrape(
        at_s,
        totals[_RECEIVED_BYTES],
        totals[_RECEIVED_RECORDS],
        totals[_SENT_BYTES],
        totals[_SENT_RECORDS],
        calls,
    )


def figures_between(before: Scrape, now: Scrape) -> ServerFigures | None:
    """What moved from one scrape to the next; None where no time has passed, or the server was started anew
    between them, so that its counters began again."""
    seconds = now.at_s - before.at_s
    pairs = (
        (before.received_bytes, now.received_bytes),
        (before.received_records, now.received_records),
        (before.sent_bytes, now.sent_bytes),
        (before.sent_records, now.sent_records),
    )
    if seconds <= 0 or any(then > after for then, after in pairs):
        return None
    latencies = {}
    for method, (took_s, count) in now.calls.items():
        before_s, before_count = before.calls.get(method, (0.0, 0.0))
        if count > before_count:
            latencies[method] = max(0.0, took_s - before_s) / (count - before_count) * 1000
    received_bytes, received_records, sent_bytes, sent_records = (
        (after - then) / seconds for then, after in pairs
    )
    return ServerFigures(received_bytes, received_records, sent_bytes, sent_records, latencies)


def _number(written: str) -> float:
    """The value of a sample; what is no finite number counts as nothing."""
    try:
        value = float(written)
    except ValueError:
        return 0.0
    return value if abs(value) < float("inf") else 0.0
