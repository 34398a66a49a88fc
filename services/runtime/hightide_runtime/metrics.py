"""Metrics of a service: OTLP when an endpoint is set, JSON lines in HIGHTIDE_TRACE_DIR otherwise, else none.

A service says once which figures it has and how each is read; they are read when they are exported, every
OTEL_METRIC_EXPORT_INTERVAL milliseconds, so that a figure costs nothing while nobody asks for it. Reading
happens on OpenTelemetry's own thread: a reader may look at what the loop changes, a number or a length, and
must not walk over it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hightide_runtime.telemetry import COLLECTOR, export_target, resource_of

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter

__all__ = ["Metrics"]

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")


class Metrics:
    """Where a process reports its figures. Mains build one by `set_up` and hand it to whoever has any."""

    def __init__(self, provider: "MeterProvider | None") -> None:
        """For `set_up` and `off`."""
        self._provider = provider
        self._meter = provider.get_meter("hightide") if provider is not None else None

    @classmethod
    def set_up(cls, service: str, instance: str) -> "Metrics":
        """Read the OTEL_* and HIGHTIDE_TRACE_DIR variables. `service`: "broker"; `instance`: its id."""
        target = export_target(_ENDPOINT_VARIABLES)
        if target is None:
            return cls.off()
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        exporter: MetricExporter
        if target == COLLECTOR:
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

            exporter = OTLPMetricExporter()
        else:
            from hightide_runtime.metric_lines import MetricLinesExporter

            path = Path(target, f"{service}-{instance}.metrics")
            exporter = MetricLinesExporter(path, service, instance)
        reader = PeriodicExportingMetricReader(exporter)
        return cls(MeterProvider([reader], resource=resource_of(service, instance), shutdown_on_exit=False))

    @classmethod
    def off(cls) -> "Metrics":
        """No metrics at all; for tests."""
        return cls(None)

    def gauge(self, name: str, description: str, read: Callable[[], int | float]) -> None:
        """A figure that goes up and down, such as `hightide.controller.complaints`."""
        if self._meter is None:
            return
        from opentelemetry.metrics import Observation

        def observe(options: "CallbackOptions") -> "Iterable[Observation]":
            return [Observation(read())]

        self._meter.create_observable_gauge(name, [observe], description=description)

    def shut_down(self) -> None:
        """Export once more. Mains call it last."""
        if self._provider is not None:
            self._provider.shutdown()
