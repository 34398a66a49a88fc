"""The declarations of a service's metrics: their names, kinds and units, and how they are counted.

A service has a table of `MetricDeclaration`s and one function that reads them all, off numbers that it keeps
anyhow. The
table is what documentation, dashboards and alarms are made from, without a service that runs; tests hold the
function to it both ways. This module imports no OpenTelemetry, so that a core of numbers costs no start.
"""

import enum
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

__all__ = [
    "MILLISECONDS_TO_MINUTE",
    "Distribution",
    "Kind",
    "Measure",
    "MetricDeclaration",
    "Reading",
    "Readings",
    "counter",
    "gauge",
    "histogram",
]

MILLISECONDS_TO_MINUTE: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Bounds in seconds: half a millisecond is a call between processes, a minute more than any deadline."""

#: How Prometheus exporters spell what UCUM abbreviates; what stands in braces is left out. Not UCUM's "1":
#: Python's exporter leaves it out, while a collector's calls such a gauge `…_ratio`.
_PROMETHEUS_UNITS: Final = {"s": "seconds", "By": "bytes"}


class Kind(enum.StrEnum):
    """What a figure is. A counter only grows, and begins at 0 with the process."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricDeclaration:
    """One metric, as it is declared. `unit` is UCUM's: "s", "By", "{record}"."""

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets but the last, which has none."""

    def __post_init__(self) -> None:
        assert self.unit.startswith("{") or self.unit in _PROMETHEUS_UNITS, (self.name, self.unit)
        assert (self.kind is Kind.HISTOGRAM) == bool(self.buckets), self.name
        assert all(low < high for low, high in pairwise(self.buckets)), self.name

    @property
    def prometheus_name(self) -> str:
        """The metric's name in Prometheus. A histogram has `_bucket`, `_sum` and `_count` after it."""
        name = self.name.replace(".", "_")
        unit = "" if self.unit.startswith("{") else _PROMETHEUS_UNITS[self.unit]
        if unit and not name.endswith(f"_{unit}"):
            name = f"{name}_{unit}"
        return f"{name}_total" if self.kind is Kind.COUNTER else name


def counter(name: str, unit: str, description: str, *attributes: str) -> MetricDeclaration:
    """Something that is counted, for a service's table."""
    return MetricDeclaration(name, Kind.COUNTER, unit, description, attributes)


def gauge(name: str, unit: str, description: str, *attributes: str) -> MetricDeclaration:
    """Something that goes up and down, for a service's table."""
    return MetricDeclaration(name, Kind.GAUGE, unit, description, attributes)


def histogram(
    name: str,
    unit: str,
    description: str,
    *attributes: str,
    buckets: tuple[float, ...] = MILLISECONDS_TO_MINUTE,
) -> MetricDeclaration:
    """How often something took how long, for a service's table."""
    return MetricDeclaration(name, Kind.HISTOGRAM, unit, description, attributes, buckets)


class Distribution:
    """The content of a histogram: the number of values in each bucket.

    One `record` costs 0.2 us, where OpenTelemetry's own histogram costs 5: so it may stand on the data path,
    once a call. Recorded on one thread, read on any.
    """

    __slots__ = ("bounds", "counts", "largest", "smallest", "total")

    def __init__(self, bounds: tuple[float, ...] = MILLISECONDS_TO_MINUTE) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.smallest = float("inf")
        self.largest = 0.0

    @classmethod
    def of_all(cls, parts: Sequence["Distribution"]) -> "Distribution":
        """All that these have counted, which have the same bounds; at least one of them."""
        whole = cls(parts[0].bounds)
        for part in parts:
            assert part.bounds == whole.bounds, "distributions by other bounds cannot be added"
            whole.counts = [known + more for known, more in zip(whole.counts, part.counts, strict=True)]
            whole.total += part.total
            whole.smallest = min(whole.smallest, part.smallest)
            whole.largest = max(whole.largest, part.largest)
        return whole

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def record(self, value: float) -> None:
        """Count a value that is not negative."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        if value > self.largest:
            self.largest = value
        if value < self.smallest:
            self.smallest = value


Value: TypeAlias = int | float | Distribution
#: One value, or one for each tuple of the values of the figure's attributes, in their order. An empty mapping
#: says that nothing is known, also of a figure without attributes.
Reading: TypeAlias = Value | Mapping[tuple[str, ...], Value]
#: By the figure's name: all that are declared, and no other.
Readings: TypeAlias = Mapping[str, Reading]
Measure: TypeAlias = Callable[[], Readings]
