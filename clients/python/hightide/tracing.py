"""Spans of clients, if the program that uses them has OpenTelemetry. Otherwise this module does nothing and
imports nothing.

It does two things. Calls of operators carry the `traceparent` of the program's current span, so that the
cluster's work for them joins that trace. And a client that waited for a leader change, or carried out an
order of its group's coordinator, ends one span that joins the trace of the change:

    send <topic>      (PRODUCER) from the first failure until all that waited was taken by new leaders
    poll <topic>      (CONSUMER) likewise, of fetches
    stop partitions   (INTERNAL) a member of a group gives partitions back, and its user is done with them
    start partitions  (INTERNAL) a member of a group begins to read partitions

Only the API of OpenTelemetry is used (the extra `tracing`): the program decides where spans go, and without a
provider nothing is recorded. There is no span, and no cost, per record or per batch.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import TracerProvider

    from hightide.cluster.leader_waits import Fact

log = logging.getLogger("hightide")

METADATA_KEY: Final = "traceparent"
_INSTRUMENTATION: Final = "hightide"
_VERSION: Final = "00"

_provide: "Callable[[], TracerProvider] | None" = None


def use(provide: "Callable[[], TracerProvider] | None") -> None:
    """Send the spans of all clients of this process to a provider that is made when there is one to send.

    Called before the first client, by programs that would not import OpenTelemetry otherwise. None returns to
    the process's own provider. `provide` is called for each span that is written.
    """
    global _provide
    _provide = provide


def is_wanted() -> bool:
    """Whether spans may be recorded: the program has imported OpenTelemetry, or called `use`."""
    return _provide is not None or "opentelemetry.trace" in sys.modules


def current_traceparent() -> str:
    """The program's current span as a W3C traceparent, or empty if there is none. Called for each call of an
    operator, never for records."""
    trace = sys.modules.get("opentelemetry.trace")
    get_current_span = getattr(trace, "get_current_span", None)
    if get_current_span is None:
        return ""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"{_VERSION}-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def call_metadata() -> tuple[tuple[str, str], ...] | None:
    """The gRPC metadata that is sent with a call of an operator."""
    traceparent = current_traceparent()
    return ((METADATA_KEY, traceparent),) if traceparent else None


class Reporter:
    """Writes the spans of one client. Called by drivers, outside of the client's lock."""

    def __init__(self, operation: str, client_id: str | None) -> None:
        assert operation in ("send", "poll"), operation
        self._operation = operation
        self._client_id = client_id or ""

    def report(self, facts: "Iterable[Fact]", now_ms: float) -> None:
        """End a span for each fact. `now_ms` is the present time of the clock that the facts were timed by.
        An error in OpenTelemetry costs a span and nothing else."""
        wall_ns = time.time_ns()
        for fact in facts:
            try:
                self._end_span(
                    fact,
                    wall_ns - int((now_ms - fact.began_ms) * 1e6),
                    wall_ns - int((now_ms - fact.ended_ms) * 1e6),
                )
            except Exception:
                log.warning("a span was lost", exc_info=True)

    def _end_span(self, fact: "Fact", began_ns: int, ended_ns: int) -> None:
        from opentelemetry import trace

        from hightide.cluster.leader_waits import LeaderWait

        provider = trace.get_tracer_provider() if _provide is None else _provide()
        attributes: dict[str, str | int | float] = {
            "messaging.system": "hightide",
            "partition_count": fact.partition_count,
        }
        if self._client_id:
            attributes["messaging.client.id"] = self._client_id
        if isinstance(fact, LeaderWait):
            name = f"{self._operation} {fact.topic}"
            kind = trace.SpanKind.PRODUCER if self._operation == "send" else trace.SpanKind.CONSUMER
            attributes |= {
                "messaging.destination.name": fact.topic,
                "partition_sample": ", ".join(f"{fact.topic}-{each}" for each in fact.partition_sample),
                "leader_epoch": fact.leader_epoch,
                "waited_ms": round(fact.ended_ms - fact.began_ms, 1),
            }
        else:
            name = "start partitions" if fact.is_start else "stop partitions"
            kind = trace.SpanKind.INTERNAL
            attributes |= {
                "messaging.consumer.group.name": fact.group,
                "partition_sample": ", ".join(fact.partition_sample),
                "generation": fact.generation,
            }
        span = provider.get_tracer(_INSTRUMENTATION).start_span(
            name,
            context=_context_of(fact.traceparent),
            kind=kind,
            attributes=attributes,
            start_time=began_ns,
        )
        span.end(ended_ns)


def _context_of(traceparent: str) -> "Context":
    """The parent in OpenTelemetry's form; text that is not a traceparent begins a new trace."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({METADATA_KEY: traceparent}, context=Context())
