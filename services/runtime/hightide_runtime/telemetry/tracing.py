"""Spans of the control plane. Off unless OTEL_EXPORTER_OTLP_ENDPOINT or HIGHTIDE_TRACE_DIR is set.

Calls of the control plane carry a span's traceparent (W3C) in their metadata, and some znodes have one. In a
server's handler it is `current_traceparent()`. OpenTelemetry is only imported if it is used, since its import
takes longer than the start of a broker.

`exporters` has the targets of spans, `span_kinds` their names. A collector that does not answer does no harm:
spans wait in a bounded queue on another thread, and are dropped if it is full.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from hightide_runtime.telemetry.exporters import (
    COLLECTOR,
    TRACES,
    export_target,
    resource_of,
    shut_down_within,
)
from hightide_runtime.telemetry.trace_context import CURRENT, current_traceparent, is_traceparent

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OtelSpan

    from hightide_runtime.telemetry.span_ids import RootIds

__all__ = ["Attribute", "Span", "Telemetry"]

Attribute: TypeAlias = str | int | float | bool


class Span:
    """One span. It ends once, by `end` or at the end of its with-block. It costs nothing if tracing is
    off."""

    __slots__ = ("_span", "_token", "traceparent")

    def __init__(self, span: "OtelSpan | None") -> None:
        """`Telemetry.span` makes it. None is a span of a process that does not trace."""
        self._span = span
        self._token: Token[str] | None = None
        #: The W3C traceparent of the span, for its children; empty if tracing is off.
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
        """End the span, now or at this wall-clock time. A second call does nothing."""
        if self._span is not None:
            self._span.end(None if end_time_us is None else end_time_us * 1000)
            self._span = None

    def __enter__(self) -> Self:
        """Make it the current span of this task, for calls and spans within the block."""
        if self._span is not None:
            self._token = CURRENT.set(self.traceparent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, with status ERROR and the exception's text if there was an exception."""
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None
        if self._span is not None and error is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}"[:500])
        self.end()


class Telemetry:
    """Exports the spans of a process. Its main makes it by `set_up` and passes it to the shell."""

    def __init__(self, provider: "TracerProvider | None", ids: "RootIds | None" = None) -> None:
        """For `set_up` and `off`."""
        self._provider = provider
        self._ids = ids
        self._tracer = provider.get_tracer("hightide") if provider is not None else None

    @classmethod
    def set_up(cls, service: str, instance: str, *, directory: Path | None = None) -> "Telemetry":
        """Make the exporter from the OTEL_* and HIGHTIDE_TRACE_DIR variables. `service` is such as "broker",
        `instance` its id. Spans go to `directory` instead, if it is given.

        Raises StartupError if the variables ask for something that does not exist.
        """
        target = str(directory) if directory is not None else export_target(TRACES)
        if target is None:
            return cls.off()
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

        from hightide_runtime.telemetry.span_ids import RootIds

        ids = RootIds()
        provider = TracerProvider(
            resource=resource_of(service, instance), shutdown_on_exit=False, id_generator=ids
        )
        if target == COLLECTOR:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        else:
            from hightide_runtime.telemetry.span_lines import JsonLinesExporter

            # Each span is written when it ends, so that spans survive a kill of the process.
            path = Path(target, f"{service}-{instance}.jsonl")
            provider.add_span_processor(SimpleSpanProcessor(JsonLinesExporter(path, service, instance)))
        return cls(provider, ids)

    @classmethod
    def off(cls) -> "Telemetry":
        """An object that exports no spans, also for tests."""
        return cls(None)

    @property
    def enabled(self) -> bool:
        """Whether spans are exported."""
        return self._tracer is not None

    @property
    def provider(self) -> "TracerProvider | None":
        """OpenTelemetry's TracerProvider, for the clients of a program; None if the process does not
        trace."""
        return self._provider

    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        start_time_us: int | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Span:
        """Start a span, now or at an earlier wall-clock time.

        `parent` is a traceparent. None means the current span of this task, which in a handler is the
        caller's; "" means a new trace. Use the span as a with-block, or keep it and call `end`.
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

    def root(
        self,
        name: str,
        traceparent: str,
        *,
        start_time_us: int | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Span:
        """Start the root span of a trace, with the ids of this traceparent, from `trace_context`.

        Several processes may do so, each with its own attributes. Readers merge these spans.
        """
        if self._ids is None or not is_traceparent(traceparent):
            return self.span(name, parent="", start_time_us=start_time_us, attributes=attributes)
        with self._ids.given(traceparent):
            return self.span(name, parent="", start_time_us=start_time_us, attributes=attributes)

    @contextmanager
    def within(self, traceparent: str) -> Iterator[None]:
        """Make a span of another task or process, as from a znode, the current one within the block."""
        token = CURRENT.set(traceparent)
        try:
            yield
        finally:
            CURRENT.reset(token)

    def shut_down(self) -> None:
        """Export the remaining spans, for a limited time. Mains call it last."""
        if self._provider is not None:
            shut_down_within(self._provider.shutdown)


def _context_of(traceparent: str) -> "Context":
    """The parent in OpenTelemetry's form; without a traceparent, an empty context, and so a new trace."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if not is_traceparent(traceparent):
        return Context()
    _, trace_id, span_id, flags = traceparent.split("-")
    parent = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())
