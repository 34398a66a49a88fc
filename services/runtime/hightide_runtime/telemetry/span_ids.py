"""The ids of spans: drawn by lot, but for roots, whose ids follow from what they are about."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


class RootIds(RandomIdGenerator):
    """For the TracerProvider of `telemetry`."""

    def __init__(self) -> None:
        self._given: ContextVar[tuple[int, int] | None] = ContextVar("hightide_root_ids", default=None)

    @contextmanager
    def given(self, traceparent: str) -> Iterator[None]:
        """The span that is started inside has the ids of this traceparent."""
        token = self._given.set((int(traceparent[3:35], 16), int(traceparent[36:52], 16)))
        try:
            yield
        finally:
            self._given.reset(token)

    def generate_trace_id(self) -> int:
        """Called by OpenTelemetry for a span without a parent."""
        given = self._given.get()
        return super().generate_trace_id() if given is None else given[0]

    def generate_span_id(self) -> int:
        """Called by OpenTelemetry for each span."""
        given = self._given.get()
        return super().generate_span_id() if given is None else given[1]

    def is_trace_id_random(self) -> bool:
        """Called by OpenTelemetry for the flags of a traceparent; ours say nothing of it (W3C level 1)."""
        return False
