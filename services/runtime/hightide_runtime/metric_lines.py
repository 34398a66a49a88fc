"""Metrics as JSON lines, for a machine without a collector."""

import json
import threading
from pathlib import Path
from typing import IO, Any

from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)


class MetricLinesExporter(MetricExporter):
    """Appends one line a metric and export to a file of this process alone.

    Fields: name, service, instance, time_us (wall clock), attributes where it has any; value, of a histogram
    count, sum, min, max, bounds and buckets.
    """

    def __init__(self, path: Path, service: str, instance: str) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._service = service
        self._instance = instance

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        """Called by the reader on its thread. A full disk loses figures and nothing else."""
        lines = [
            json.dumps(
                {
                    "name": metric.name,
                    "service": self._service,
                    "instance": self._instance,
                    "time_us": point.time_unix_nano // 1000,
                    **({"attributes": dict(point.attributes)} if point.attributes else {}),
                    **_values(point),
                },
                separators=(",", ":"),
            )
            for resource in metrics_data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]
        try:
            with self._lock:
                self._file.writelines(line + "\n" for line in lines)
                self._file.flush()
        except (OSError, ValueError):
            return MetricExportResult.FAILURE
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Nothing waits: every export is flushed."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


def _values(point: Any) -> dict[str, Any]:
    if not isinstance(point, HistogramDataPoint):
        return {"value": point.value}
    return {
        "count": point.count,
        "sum": point.sum,
        "min": point.min,
        "max": point.max,
        "bounds": list(point.explicit_bounds),
        "buckets": list(point.bucket_counts),
    }
