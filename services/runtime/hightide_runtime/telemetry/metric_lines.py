"""Metrics as JSON lines, for a machine without a collector."""

import json
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)

from hightide_runtime.telemetry.appended_lines import AppendedLines


class MetricLinesExporter(MetricExporter):
    """Appends a line for each metric and export to a file of this process, whose size is limited.

    Fields: name, service, instance, time_us (wall clock), attributes if there are any, and value; for a
    histogram count, sum, min, max, bounds and buckets instead of value.
    """

    def __init__(self, path: Path, service: str, instance: str) -> None:
        super().__init__()
        self._lines = AppendedLines(path)
        self._service = service
        self._instance = instance

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any
    ) -> MetricExportResult:
        """Write the lines of one export. The reader calls it on its thread. A full disk only loses lines."""
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
            self._lines.append("".join(line + "\n" for line in lines))
        except (OSError, ValueError):
            return MetricExportResult.FAILURE
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Do nothing, since every export is written at once."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Close the file."""
        self._lines.close()


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
