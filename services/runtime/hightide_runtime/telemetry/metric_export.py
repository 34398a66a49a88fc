"""The export of a service's metrics: by OTLP if an endpoint is set, else as JSON lines in HIGHTIDE_TRACE_DIR,
and to Prometheus if --prometheus-listen is set. Without any of these, metrics cost nothing.

A service declares its metrics once (`MetricDeclaration`) and gives one function that reads them all. It is
called for each export, every OTEL_METRIC_EXPORT_INTERVAL milliseconds, and for each scrape by Prometheus. It
runs on a thread of the exporter, while the loop changes the state. So it may read a number or a length, and
before it iterates over a collection it must copy it by one `tuple(...)`.
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
    """Exports the metrics of a process. Its main makes it by `set_up` and passes it to the parts that have
    metrics."""

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
        """Make the exporters from the OTEL_* and HIGHTIDE_TRACE_DIR variables. `service` is such as "broker",
        `instance` its id.

        Raises StartupError if the variables ask for something that does not exist, or if `prometheus_listen`
        cannot be used.
        """
        target = export_target(METRICS)
        if target is None and prometheus_listen is None:
            return cls.off()
        from hightide_runtime.telemetry import metric_readers

        sources: list[MetricSource] = []
        collect = metric_readers.MetricCollection(sources, resource_of(service, instance))
        # Prometheus first: its address may be refused, and the other exporter starts a thread.
        prometheus = None if prometheus_listen is None else collect.to_prometheus(prometheus_listen)
        readers = [] if target is None else [collect.to_exporter(_exporter(target, service, instance))]
        return cls(sources, readers, prometheus)

    @classmethod
    def off(cls) -> "Metrics":
        """An object that exports no metrics, also for tests."""
        return cls([], ())

    @property
    def enabled(self) -> bool:
        """Whether metrics are exported. Otherwise services skip work that only metrics need."""
        return bool(self._readers) or self._prometheus is not None

    @property
    def prometheus_address(self) -> HostPort | None:
        """The address for Prometheus, with the real port if port 0 was given; None without Prometheus."""
        return None if self._prometheus is None else self._prometheus.address

    def report(self, declarations: Sequence[MetricDeclaration], measure: Measure) -> None:
        """Export these metrics from now on. `measure` returns a reading for each of them."""
        if self.enabled:
            self._sources.append(MetricSource(declarations, measure))

    def shut_down(self) -> None:
        """Export once more, and stop. Mains call it last. A collector that does not answer delays it by at
        most 2 s."""
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
