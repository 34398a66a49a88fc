"""Spans of the control plane. Off unless OTEL_EXPORTER_OTLP_ENDPOINT or HIGHTIDE_TRACE_DIR is set.

A span's traceparent (W3C) travels in gRPC metadata, by channels opened with `traced=True`, and in the
znode. On the server side it is `current_traceparent()` while the handler runs. OpenTelemetry is imported
only where it is used: it takes longer to import than a broker takes to start.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from hightide_runtime.trace_context import CURRENT, current_traceparent, is_traceparent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OtelSpan

__all__ = ["Span", "Telemetry", "current_traceparent"]

#: The spans of a failover, after V3 "End-to-end latency during a broker failure".
FAILOVER = "failover"
BROKER_DOWN = "failover.broker_down"  # step 1, controller
BROKER_WATCHER_TRIGGERED = "failover.broker_watcher_triggered"  # step 2, controller
LEADERSHIP_CHANGE = "failover.leadership_change"  # step 3, controller
ZOOKEEPER_MULTI = "failover.zookeeper_multi"  # inside 3, one a multi
INFORM_BROKER = "failover.inform_broker"  # step 4, controller, one a broker
BECOME_LEADER = "failover.become_leader"  # broker, below inform_broker
FOLLOWERS_CONNECT = "failover.followers_connect"  # step 5, the new leader; ends at the first commit
FIRST_COMMIT = "failover.first_commit"  # the moment of the first commit under the new epoch
BECOME_FOLLOWER = "failover.become_follower"  # step 6, broker
TRUNCATE_LOG = "failover.truncate_log"  # inside 6
CONTROLLER_FAILOVER = "controller_failover"  # root: another controller took over
COORDINATOR_FAILOVER = "coordinator_failover"  # root: another coordinator took over a shard of the groups

Attribute: TypeAlias = str | int | float | bool
TRACE_DIRECTORY_VARIABLE = "HIGHTIDE_TRACE_DIR"
#: No path is empty, so that this is none.
COLLECTOR = ""
_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Span:
    """One span. Ends once, by `end` or by leaving its with-block; it costs nothing when tracing is off."""

    __slots__ = ("_span", "_token", "traceparent")

    def __init__(self, span: "OtelSpan | None") -> None:
        """For `Telemetry.span`; None is a span of a process that does not trace."""
        self._span = span
        self._token: Token[str] | None = None
        #: The span as a W3C traceparent, to be handed on; empty when tracing is off.
        self.traceparent = ""
        if span is not None:
            context = span.get_span_context()
            self.traceparent = (
                f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
            )

    def set(self, name: str, value: Attribute) -> None:
        """Set an attribute."""
        if self._span is not None:
            self._span.set_attribute(name, value)

    def end(self, end_time_us: int | None = None) -> None:
        """End it, now or at a wall-clock time. A second call does nothing."""
        if self._span is not None:
            self._span.end(None if end_time_us is None else end_time_us * 1000)
            self._span = None

    def __enter__(self) -> Self:
        """Make it the current span of this task, for `traced` channels and for spans started inside."""
        if self._span is not None:
            self._token = CURRENT.set(self.traceparent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, with status ERROR and the exception's text where there was one."""
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None
        if self._span is not None and error is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}"[:500])
        self.end()


class Telemetry:
    """Where a process sends its spans. Mains build one by `set_up` and hand it to the shell."""

    def __init__(self, provider: "TracerProvider | None") -> None:
        """For `set_up` and `off`."""
        self._provider = provider
        self._tracer = provider.get_tracer("hightide") if provider is not None else None

    @classmethod
    def set_up(cls, service: str, instance: str) -> "Telemetry":
        """Read the OTEL_* and HIGHTIDE_TRACE_DIR variables. `service`: "broker"; `instance`: its id."""
        target = export_target(_ENDPOINT_VARIABLES)
        if target is None:
            return cls.off()
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

        provider = TracerProvider(resource=resource_of(service, instance), shutdown_on_exit=False)
        if target == COLLECTOR:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        else:
            from hightide_runtime.span_lines import JsonLinesExporter

            # One at a time, as they end: a process that is killed has written all that it had to say.
            path = Path(target, f"{service}-{instance}.jsonl")
            provider.add_span_processor(SimpleSpanProcessor(JsonLinesExporter(path, service, instance)))
        return cls(provider)

    @classmethod
    def off(cls) -> "Telemetry":
        """No spans at all; for tests."""
        return cls(None)

    @property
    def enabled(self) -> bool:
        """Whether spans go anywhere."""
        return self._tracer is not None

    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        start_time_us: int | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Span:
        """Start a span, now or at a wall-clock time that has passed.

        `parent` is a traceparent; None means the current span of this task (or what the caller of the RPC
        sent), "" means a new trace. Use it as a with-block, or keep it and call `end`.
        """
        if self._tracer is None:
            return Span(None)
        context = _context_of(current_traceparent() if parent is None else parent)
        start_us = time.time_ns() // 1000 if start_time_us is None else start_time_us
        return Span(
            self._tracer.start_span(
                name, context=context, start_time=start_us * 1000, attributes=dict(attributes or {})
            )
        )

    @contextmanager
    def within(self, traceparent: str) -> Iterator[None]:
        """Make a span that lives elsewhere (in a znode, in another task) the current one."""
        token = CURRENT.set(traceparent)
        try:
            yield
        finally:
            CURRENT.reset(token)

    def shut_down(self) -> None:
        """Send what is left. Mains call it last."""
        if self._provider is not None:
            self._provider.shutdown()


def export_target(endpoint_variables: Sequence[str]) -> str | None:
    """Where telemetry goes: COLLECTOR where one of these variables names an endpoint, else the directory that
    HIGHTIDE_TRACE_DIR names; None: nowhere.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if any(os.environ.get(variable) for variable in endpoint_variables):
        return COLLECTOR
    return os.environ.get(TRACE_DIRECTORY_VARIABLE) or None


def resource_of(service: str, instance: str) -> "Resource":
    """Who a process is, on everything that it reports."""
    from opentelemetry.sdk.resources import Resource

    return Resource.create({"service.name": f"hightide-{service}", "service.instance.id": instance})


def _context_of(traceparent: str) -> "Context":
    """What OpenTelemetry takes as the parent; an empty context, and so a new trace, for no traceparent."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if not is_traceparent(traceparent):
        return Context()
    _, trace_id, span_id, flags = traceparent.split("-")
    parent = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())
