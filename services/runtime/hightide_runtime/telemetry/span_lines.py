"""Spans as JSON lines, for a machine without a collector; `hightide trace show` reads them."""

import json
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

from hightide_runtime.telemetry.appended_lines import AppendedLines


class JsonLinesExporter(SpanExporter):
    """Appends a line for each span to a file of this process, whose size is limited.

    Fields: trace_id, span_id, parent_id (hexadecimal; parent_id empty for a root), name, service, instance,
    start_us and end_us (wall clock), ok, attributes.
    """

    def __init__(self, path: Path, service: str, instance: str) -> None:
        self._lines = AppendedLines(path)
        self._service = service
        self._instance = instance

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the lines of ended spans. The span processor calls it. A full disk only loses spans."""
        lines = "".join(json.dumps(self._fields(span), separators=(",", ":")) + "\n" for span in spans)
        try:
            self._lines.append(lines)
        except (OSError, ValueError):
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file."""
        self._lines.close()

    def _fields(self, span: ReadableSpan) -> dict[str, object]:
        context = span.get_span_context()
        assert context is not None
        assert span.start_time is not None
        assert span.end_time is not None
        return {
            "trace_id": f"{context.trace_id:032x}",
            "span_id": f"{context.span_id:016x}",
            "parent_id": f"{span.parent.span_id:016x}" if span.parent is not None else "",
            "name": span.name,
            "service": self._service,
            "instance": self._instance,
            "start_us": span.start_time // 1000,
            "end_us": span.end_time // 1000,
            "ok": span.status.status_code is not StatusCode.ERROR,
            "attributes": dict(span.attributes or {}),
        }
