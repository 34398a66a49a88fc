"""A collector of OTLP by gRPC, in the process of the test: keeps what services send it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: OtlpCollector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the RPC
        """Called by exporters of spans."""
        for resource in request.resource_spans:
            who = _text_attributes(resource.resource)
            spans = [span.name for scope in resource.scope_spans for span in scope.spans]
            self._collector.take_spans(who, spans)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: OtlpCollector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the RPC
        """Called by exporters of metrics."""
        for resource in request.resource_metrics:
            who = _text_attributes(resource.resource)
            names = [metric.name for scope in resource.scope_metrics for metric in scope.metrics]
            self._collector.take_metrics(who, names)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class OtlpCollector:
    """Listens on a free port of this machine; a with-block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.spans: set[tuple[str, str]] = set()
        """(service.name, name of the span)."""
        self.metrics: set[tuple[str, str]] = set()
        self.resources: dict[str, dict[str, str]] = {}
        """By service.name, of the last that came."""
        self._server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="otlp-collector"))
        add_traces: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add_metrics: Any = metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server
        add_traces(_Traces(self), self._server)
        add_metrics(_Metrics(self), self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def take_spans(self, who: dict[str, str], names: list[str]) -> None:
        """Keep them; called on gRPC's threads."""
        with self._lock:
            self.resources[who["service.name"]] = who
            self.spans |= {(who["service.name"], name) for name in names}

    def take_metrics(self, who: dict[str, str], names: list[str]) -> None:
        """Keep them; called on gRPC's threads."""
        with self._lock:
            self.resources[who["service.name"]] = who
            self.metrics |= {(who["service.name"], name) for name in names}

    def stop(self) -> None:
        """Be gone at once: from here on nobody listens at the port."""
        self._server.stop(None).wait()

    def __enter__(self) -> OtlpCollector:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _text_attributes(resource: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in resource.attributes}
