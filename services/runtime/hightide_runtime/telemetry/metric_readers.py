"""Converts readings to OpenTelemetry's data model, for its exporters.

All metrics of a service are read together for each export. OpenTelemetry's instruments are not used: they
would call a function for each metric, each of which would iterate over the same partitions, and their
histogram costs 5 us for each value on the data path.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricReader,
    MetricsData,
    NumberDataPoint,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from hightide_runtime.addresses import HostPort
from hightide_runtime.telemetry.metric_declarations import (
    Distribution,
    MetricDeclaration,
    MetricKind,
    Reading,
    Value,
)
from hightide_runtime.telemetry.metric_source import MetricSource

if TYPE_CHECKING:
    from hightide_runtime.telemetry.prometheus import PrometheusEndpoint

__all__ = ["MetricCollection"]

_SCOPE = InstrumentationScope("hightide")


class MetricCollection:
    """Reads all sources of a process for each export. `Metrics.set_up` makes it."""

    def __init__(self, sources: Sequence[MetricSource], resource: Resource) -> None:
        """`sources` may get more elements later."""
        self._sources = sources
        self._resource = resource
        self._started_ns = time.time_ns()

    def to_exporter(self, exporter: MetricExporter) -> MetricReader:
        """Export every OTEL_METRIC_EXPORT_INTERVAL milliseconds, from a new thread."""
        reader = PeriodicExportingMetricReader(exporter)
        reader._set_collect_callback(self._collect)
        return reader

    def to_prometheus(self, listen: HostPort) -> "PrometheusEndpoint":
        """Answer scrapes at this address. Raises StartupError if it cannot be used."""
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry

        from hightide_runtime.telemetry.prometheus import PrometheusEndpoint

        registry = CollectorRegistry()
        reader = PrometheusMetricReader(registry=registry, scope_info_enabled=False)
        reader._set_collect_callback(self._collect)
        return PrometheusEndpoint(listen, registry)

    def _collect(self, reader: MetricReader, timeout_millis: float = 0) -> MetricsData:
        """The metrics for a reader, which otherwise asks a MeterProvider. They are always cumulative, as OTLP
        allows."""
        now_ns = time.time_ns()
        metrics = []
        for source in self._sources:
            readings = source.read()
            for declaration in source.declarations:
                reading = readings.get(declaration.name)
                if reading is not None:
                    metrics.append(self._metric(declaration, reading, now_ns))
        scope = ScopeMetrics(_SCOPE, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], self._resource.schema_url)])

    def _metric(self, declaration: MetricDeclaration, reading: Reading, now_ns: int) -> Metric:
        if isinstance(reading, Mapping):
            points = [
                self._point(dict(zip(declaration.attributes, values, strict=True)), value, now_ns)
                for values, value in reading.items()
            ]
        else:
            assert not declaration.attributes, f"{declaration.name} is measured without its attributes"
            points = [self._point({}, reading, now_ns)]
        data: Any
        match declaration.kind:
            case MetricKind.GAUGE:
                data = Gauge(points)
            case MetricKind.COUNTER:
                data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
            case MetricKind.HISTOGRAM:
                data = Histogram(points, AggregationTemporality.CUMULATIVE)
        return Metric(declaration.name, declaration.description, declaration.unit, data)

    def _point(self, attributes: dict[str, str], value: Value, now_ns: int) -> Any:
        if not isinstance(value, Distribution):
            return NumberDataPoint(attributes, self._started_ns, now_ns, value)
        counts = tuple(value.counts)
        return HistogramDataPoint(
            attributes, self._started_ns, now_ns, sum(counts), value.total, counts, value.bounds,
            value.smallest if any(counts) else 0.0, value.largest,
        )  # fmt: skip
