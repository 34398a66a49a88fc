"""Computes figures: percentiles and rates of a round, medians over rounds."""

import math
import statistics
from collections.abc import Mapping, Sequence

BYTES_PER_MB = 1_000_000
BYTES_PER_GB = 1_000_000_000
_WHOLE = ("records_per_s", "rows_per_s", "catch_up_rows_per_s")


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value that `percent` of the values do not exceed (nearest rank), None without values."""
    assert 0 < percent <= 100
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


def latency_figures(latencies_ms: Sequence[float]) -> dict[str, float | None]:
    """Return p50_ms, p99_ms and p999_ms of the latencies of one round; None without latencies."""
    return {
        "p50_ms": percentile(latencies_ms, 50),
        "p99_ms": percentile(latencies_ms, 99),
        "p999_ms": percentile(latencies_ms, 99.9),
    }


def rate_figures(
    *, records: int, size_bytes: int, elapsed_s: float, client_cpu_s: float, broker_cpu_s: float | None
) -> dict[str, float | None]:
    """Return the rates of one round, and the processor seconds of both sides for 10⁹ bytes of keys and
    values."""
    assert elapsed_s > 0
    gigabytes = size_bytes / BYTES_PER_GB
    return {
        "records_per_s": records / elapsed_s,
        "mb_per_s": size_bytes / BYTES_PER_MB / elapsed_s,
        "client_cpu_s_per_gb": client_cpu_s / gigabytes if gigabytes else None,
        "broker_cpu_s_per_gb": broker_cpu_s / gigabytes if gigabytes and broker_cpu_s is not None else None,
    }


def medians(rounds: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the median of each figure over the rounds. A round in which a figure is None does not count for
    it."""
    assert rounds
    merged: dict[str, float | None] = {}
    for name in rounds[0]:
        measured = [value for each in rounds if (value := each[name]) is not None]
        merged[name] = statistics.median(measured) if measured else None
    return merged


def rounded(figures: Mapping[str, float | None]) -> dict[str, float | int | None]:
    """Return the figures as they are printed: rates as whole numbers, the others with three decimals."""
    return {
        name: value if value is None else round(value) if name in _WHOLE else round(value, 3)
        for name, value in figures.items()
    }
