"""The ids of spans: random, except for roots, whose ids can be given."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


class RootIds(RandomIdGenerator):
    """The id generator for the TracerProvider of `Telemetry`."""

    def __init__(self) -> None:
        self._given: ContextVar[tuple[int, int] | None] = ContextVar("hightide_root_ids", default=None)

    @contextmanager
    def given(self, traceparent: str) -> Iterator[None]:
        """Give the span that starts within the block the ids of this traceparent."""
        token = self._given.set((int(traceparent[3:35], 16), int(traceparent[36:52], 16)))
        try:
            yield
        finally:
            self._given.reset(token)

    def generate_trace_id(self) -> int:
        """The trace id for a span without a parent. Called by OpenTelemetry."""
        given = self._given.get()
        return super().generate_trace_id() if given is None else given[0]

    def generate_span_id(self) -> int:
        """The id for a span. Called by OpenTelemetry."""
        given = self._given.get()
        return super().generate_span_id() if given is None else given[1]

    def is_trace_id_random(self) -> bool:
        """Return False, so that the flags of a traceparent are those of W3C level 1. Called by
        OpenTelemetry."""
        return False
