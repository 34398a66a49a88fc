"""Metrics of a service: OTLP when an endpoint is set, JSON lines in HIGHTIDE_TRACE_DIR otherwise, and
Prometheus where --prometheus-listen says so; else none, and then they cost nothing.

A service declares its metrics once (`MetricDeclaration`) and hands over one function that reads them all.
It is called when they are exported, every OTEL_METRIC_EXPORT_INTERVAL milliseconds, or when Prometheus comes.
Reading happens on a thread of the exporter: the function may look at what the loop changes, a number or a
length; what it walks over it copies first, by one `tuple(...)`, and it walks over what is frozen.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hightide_runtime.addresses import HostPort
from hightide_runtime.telemetry.exporters import (
    COLLECTOR,
    METRICS,
    export_target,
    resource_of,
    shut_down_within,
)
from hightide_runtime.telemetry.metric_declarations import Measure, MetricDeclaration
from hightide_runtime.telemetry.metric_source import MetricSource

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader

    from hightide_runtime.telemetry.prometheus import PrometheusEndpoint

__all__ = ["Metrics"]


class Metrics:
    """The reporter of a process's figures. Mains build one by `set_up` and pass it to the parts that have
    figures."""

    def __init__(
        self,
        sources: list[MetricSource],
        readers: "Sequence[MetricReader]",
        prometheus: "PrometheusEndpoint | None" = None,
    ) -> None:
        """For `set_up` and `off`."""
        self._sources = sources
        self._readers = readers
        self._prometheus = prometheus

    @classmethod
    def set_up(cls, service: str, instance: str, prometheus_listen: HostPort | None = None) -> "Metrics":
        """Read the OTEL_* and HIGHTIDE_TRACE_DIR variables. `service`: "broker"; `instance`: its id.

        Raises StartupError where they ask for what there is not, or nobody can listen at `prometheus_listen`.
        """
        target = export_target(METRICS)
        if target is None and prometheus_listen is None:
            return cls.off()
        from hightide_runtime.telemetry import metric_readers

        sources: list[MetricSource] = []
        collect = metric_readers.Collection(sources, resource_of(service, instance))
        # First, since it may be refused, while what exports has a thread from the start.
        prometheus = None if prometheus_listen is None else collect.to_prometheus(prometheus_listen)
        readers = [] if target is None else [collect.to_exporter(_exporter(target, service, instance))]
        return cls(sources, readers, prometheus)

    @classmethod
    def off(cls) -> "Metrics":
        """No metrics at all; for tests."""
        return cls([], ())

    @property
    def enabled(self) -> bool:
        """Whether any exporter reads the figures: work that only they need is not done otherwise."""
        return bool(self._readers) or self._prometheus is not None

    @property
    def prometheus_address(self) -> HostPort | None:
        """The address that Prometheus scrapes; the port is the real one if 0 was asked for."""
        return None if self._prometheus is None else self._prometheus.address

    def report(self, figures: Sequence[MetricDeclaration], measure: Measure) -> None:
        """Export these figures from now on. `measure` returns a reading for each of them."""
        if self.enabled:
            self._sources.append(MetricSource(figures, measure))

    def shut_down(self) -> None:
        """Export once more. Mains call it last; a collector that is dead holds it up for 2 s at most."""
        if self._prometheus is not None:
            self._prometheus.close()
        for reader in self._readers:
            shut_down_within(reader.shutdown)


def _exporter(target: str, service: str, instance: str) -> "MetricExporter":
    if target == COLLECTOR:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter()
    from hightide_runtime.telemetry.metric_lines import MetricLinesExporter

    return MetricLinesExporter(Path(target, f"{service}-{instance}.metrics"), service, instance)
