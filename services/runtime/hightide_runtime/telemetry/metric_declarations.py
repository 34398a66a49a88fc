"""The declarations of a service's metrics: their names, kinds and units, and how they are counted.

A service has a table of `MetricDeclaration`s, and one function that reads all their values from its state.
Documentation, dashboards and alerts are made from the table, without a running service. Tests check that the
function returns exactly the declared metrics. This module does not import OpenTelemetry, which would slow
every start down.
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
    "Measure",
    "MetricDeclaration",
    "MetricKind",
    "Reading",
    "Readings",
    "counter",
    "gauge",
    "histogram",
]

MILLISECONDS_TO_MINUTE: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Bounds in seconds, from half a millisecond, the time of a call between processes, to a minute, which is
longer than any deadline."""

#: The names of UCUM's units in Prometheus. Units in braces have none. UCUM's "1" is not used: Python's
#: exporter adds nothing for it, while a collector's exporter adds `_ratio`.
_PROMETHEUS_UNITS: Final = {"s": "seconds", "By": "bytes"}


class MetricKind(enum.StrEnum):
    """The kind of a metric. A counter only grows, and begins at 0 with the process."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricDeclaration:
    """The declaration of one metric. `unit` is a UCUM unit: "s", "By", or such as "{record}"."""

    name: str
    kind: MetricKind
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets, except the last bucket, which has none."""

    def __post_init__(self) -> None:
        assert self.unit.startswith("{") or self.unit in _PROMETHEUS_UNITS, (self.name, self.unit)
        assert (self.kind is MetricKind.HISTOGRAM) == bool(self.buckets), self.name
        assert all(low < high for low, high in pairwise(self.buckets)), self.name

    @property
    def prometheus_name(self) -> str:
        """The metric's name in Prometheus. A histogram has `_bucket`, `_sum` and `_count` after it."""
        name = self.name.replace(".", "_")
        unit = "" if self.unit.startswith("{") else _PROMETHEUS_UNITS[self.unit]
        if unit and not name.endswith(f"_{unit}"):
            name = f"{name}_{unit}"
        return f"{name}_total" if self.kind is MetricKind.COUNTER else name


def counter(name: str, unit: str, description: str, *attributes: str) -> MetricDeclaration:
    """Declare a counter, for a service's table."""
    return MetricDeclaration(name, MetricKind.COUNTER, unit, description, attributes)


def gauge(name: str, unit: str, description: str, *attributes: str) -> MetricDeclaration:
    """Declare a gauge, for a service's table."""
    return MetricDeclaration(name, MetricKind.GAUGE, unit, description, attributes)


def histogram(
    name: str,
    unit: str,
    description: str,
    *attributes: str,
    buckets: tuple[float, ...] = MILLISECONDS_TO_MINUTE,
) -> MetricDeclaration:
    """Declare a histogram, for a service's table."""
    return MetricDeclaration(name, MetricKind.HISTOGRAM, unit, description, attributes, buckets)


class Distribution:
    """The content of a histogram: the number of values in each bucket.

    A `record` costs 0.2 us, and OpenTelemetry's own histogram 5 us, so the data path can use it for each
    call. One thread records, any thread reads.
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
        """The sum of these distributions, which have the same bounds. There must be at least one."""
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
        """The number of values."""
        return sum(self.counts)

    def record(self, value: float) -> None:
        """Count a value, which must not be negative."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        if value > self.largest:
            self.largest = value
        if value < self.smallest:
            self.smallest = value


Value: TypeAlias = int | float | Distribution
#: One value, or a value for each tuple of attribute values, in the order of the metric's attributes. An empty
#: mapping means that the value is not known, also for a metric without attributes.
Reading: TypeAlias = Value | Mapping[tuple[str, ...], Value]
#: The readings of all declared metrics, and no others, by name.
Readings: TypeAlias = Mapping[str, Reading]
Measure: TypeAlias = Callable[[], Readings]
