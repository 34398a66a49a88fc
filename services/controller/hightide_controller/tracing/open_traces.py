"""The traces of a controller that are under way, by cause, until no work for them is left.

Normally a cause has one trace. A takeover may have more, since it continues the work of the lost controller.
Then messages carry the first one. Brokers that were lost together have one trace with several causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hightide_runtime.clock import Clock

from hightide_controller.tracing.control_trace import ControlTrace

__all__ = ["CAUSES_MAX", "PATIENCE_MS", "OpenTraces"]

CAUSES_MAX: Final = 100
"""At most so many causes are traced at a time."""
PATIENCE_MS: Final = 30_000
"""A trace ends after this time, even if work for it is under way."""


class OpenTraces:
    """The open traces of one shell, on the event loop's thread. An iteration gives each trace once that has
    not ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_cause: dict[str, Sequence[ControlTrace]] = {}
        self._added_ms: dict[str, int] = {}

    def __iter__(self) -> Iterator[ControlTrace]:
        every = dict.fromkeys(trace for traces in self._by_cause.values() for trace in traces)
        return (trace for trace in every if not trace.is_finished)

    def __contains__(self, cause: str) -> bool:
        return cause in self._by_cause

    @property
    def has_any(self) -> bool:
        """Whether a trace is under way."""
        return bool(self._by_cause)

    @property
    def is_full(self) -> bool:
        """Whether no further cause should be traced. A takeover is always traced."""
        return len(self._by_cause) >= CAUSES_MAX

    def add(self, cause: str, *traces: ControlTrace) -> None:
        """Add the traces of a cause, which have just begun."""
        self._by_cause[cause] = traces
        self._added_ms[cause] = self._clock.monotonic_ms()

    def of(self, cause: str) -> Iterator[ControlTrace]:
        """The traces of a cause that have not ended."""
        return (trace for trace in self._by_cause.get(cause, ()) if not trace.is_finished)

    def traceparent_of(self, cause: str) -> str:
        """The traceparent of the cause's first trace; empty if the cause has none."""
        traces = self._by_cause.get(cause)
        return traces[0].traceparent if traces else ""

    def settle(self, at_us: int) -> list[ControlTrace]:
        """End the traces without work under way, and return them. Also end those that last too long. `at_us`
        is the present wall-clock time."""
        now_ms = self._clock.monotonic_ms()
        done = []
        for cause in tuple(self._by_cause):
            for trace in self.of(cause):
                if trace.finish_if_done(at_us):
                    done.append(trace)
                elif now_ms - self._added_ms[cause] > PATIENCE_MS:
                    trace.finish(at_us)
            # A cause keeps its first trace until all of its traces have ended.
            if all(trace.is_finished for trace in self._by_cause[cause]):
                del self._by_cause[cause], self._added_ms[cause]
        return done

    def finish_all(self, at_us: int) -> None:
        """End all traces, even if work is under way."""
        for trace in self:
            trace.finish(at_us)
        self._by_cause.clear()
        self._added_ms.clear()
