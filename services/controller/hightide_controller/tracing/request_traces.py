"""The traces of requests to create or delete a topic, which begin when the core accepts a request.

If the caller traces, its own trace gets a span with the id of the trace that the request began.
"""

from __future__ import annotations

from dataclasses import dataclass

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.trace_context import current_traceparent, root_traceparent, trace_id_of
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_controller.core.effects import Effect, StoreTopic
from hightide_controller.core.writes import DeletionAdopted, StoreWrites
from hightide_controller.tracing.control_trace import ControlTrace
from hightide_controller.tracing.open_traces import OpenTraces
from hightide_controller.tracing.span_table import TraceMark

__all__ = ["RequestTraces"]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that waits for its answer, and may begin a trace."""

    kind: str
    method: str
    began_us: int
    caller: str
    """The traceparent of the caller; empty if it does not trace."""


class RequestTraces:
    """Begins the traces of requests. One for each shell, on the event loop's thread."""

    def __init__(self, cluster_id: str, telemetry: Telemetry, clock: Clock, open_traces: OpenTraces) -> None:
        self._cluster_id = cluster_id
        self._telemetry = telemetry
        self._clock = clock
        self._open = open_traces
        self._waiting: dict[str, _Request] = {}
        """The requests that wait for their answers, by cause."""

    def begun(self, cause: str, kind: str, method: str) -> None:
        """Note that a request goes to the core. Called in the task of its call. `kind` is that of the trace
        that it may begin."""
        self._waiting[cause] = _Request(kind, method, self._clock.wall_us(), current_traceparent())

    def answered(self, cause: str, traceparent: str) -> None:
        """Note that a request has its answer, or that its caller no longer waits. `traceparent` is that of
        the trace that it began."""
        for trace in self._open.of(cause):
            trace.is_awaited = False
        request = self._waiting.pop(cause, None)
        if request is not None and request.caller:
            span = self._telemetry.span(
                span_kinds.REQUEST,
                parent=request.caller,
                start_time_us=request.began_us,
                attributes={"method": request.method, "trace_id": trace_id_of(traceparent)},
            )
            span.end()

    def wants(self, effect: Effect) -> None:
        """Begin a trace if this effect is the beginning of a topic's creation or deletion."""
        match effect:
            case StoreTopic(topic=topic):
                self._begin(effect.cause, topic.name, topic.topic_id)
            case StoreWrites(writes=writes):
                for write in writes:
                    if isinstance(write, DeletionAdopted):
                        self._begin(effect.cause, write.topic_name, write.topic_id)
            case _:
                pass

    def _begin(self, cause: str, topic: str, topic_id: str) -> None:
        request = self._waiting.get(cause)
        if request is None or cause in self._open or self._open.is_full:
            return
        trace = ControlTrace(
            request.kind,
            root_traceparent(request.kind, self._cluster_id, topic_id),
            {TraceMark.BEGAN: request.began_us},
            self._telemetry,
            {"topic": topic, "topic_id": topic_id},
        )
        trace.is_awaited = True
        self._open.add(cause, trace)
