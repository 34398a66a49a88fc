"""Requests to create or delete a topic, and the traces that they begin once the core has looked at them.

A caller that traces finds below its own span one that names the trace which its request began.
"""

from __future__ import annotations

from dataclasses import dataclass

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.trace_context import current_traceparent, root_traceparent, trace_id_of
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_controller.core.effects import StoreTopic
from hightide_controller.core.writes import DeletionAdopted, StoreWrites
from hightide_controller.tracing.open_traces import OpenTraces
from hightide_controller.tracing.topic_trace import TopicTrace

__all__ = ["RequestTraces"]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that may turn out to be work, once the core has looked at it."""

    kind: str
    method: str
    began_us: int
    caller: str
    """The traceparent of who asked; empty where its program does not trace."""


class RequestTraces:
    """One for each shell; belongs to the event loop's thread."""

    def __init__(self, cluster_id: str, telemetry: Telemetry, clock: Clock, open_traces: OpenTraces) -> None:
        self._cluster_id = cluster_id
        self._telemetry = telemetry
        self._clock = clock
        self._open = open_traces
        self._waiting: dict[str, _Request] = {}
        """By cause, until they are answered."""

    def begun(self, cause: str, kind: str, method: str) -> None:
        """A request goes to the core, from the task of its call. `kind`: of the trace that it may begin."""
        self._waiting[cause] = _Request(kind, method, self._clock.wall_us(), current_traceparent())

    def answered(self, cause: str, traceparent: str) -> None:
        """It has its answer, or its caller waits no more. `traceparent`: of the trace that it began."""
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

    def storing_topic(self, effect: StoreTopic) -> None:
        """The znodes of a topic that was asked for are about to be created."""
        trace = self._begin(effect.cause, effect.topic.name, effect.topic.topic_id)
        if trace is not None:
            trace.storing_topic(effect)

    def topic_stored(self, effect: StoreTopic, outcome: str) -> None:
        """Their fate."""
        for trace in self._open.of(effect.cause):
            if isinstance(trace, TopicTrace):
                trace.topic_stored(outcome)

    def storing(self, effect: StoreWrites) -> None:
        """Other writes are on their way: the deletion of a topic may begin with them."""
        adopted = next((write for write in effect.writes if isinstance(write, DeletionAdopted)), None)
        if adopted is not None:
            self._begin(effect.cause, adopted.topic_name, adopted.topic_id)

    def _begin(self, cause: str, topic: str, topic_id: str) -> TopicTrace | None:
        request = self._waiting.get(cause)
        if request is None or cause in self._open or self._open.is_full:
            return None
        trace = TopicTrace(
            request.kind,
            root_traceparent(request.kind, self._cluster_id, topic_id),
            request.began_us,
            self._telemetry,
            self._clock,
            topic=topic,
            topic_id=topic_id,
        )
        trace.is_awaited = True
        self._open.add(cause, trace)
        return trace
