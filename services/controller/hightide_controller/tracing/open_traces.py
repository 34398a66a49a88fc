"""The traces of a controller that are under way, by their cause, until nothing is left to be done for them.

A cause has one as a rule. A takeover may have more, since it carries on what the lost controller began: the
first of them is the one that goes with what is sent. Brokers that were lost together are one trace by more
than one cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hightide_runtime.clock import Clock

from hightide_controller.tracing.control_trace import ControlTrace

__all__ = ["CAUSES_MAX", "PATIENCE_MS", "OpenTraces"]

CAUSES_MAX: Final = 100
"""Causes that are traced at a time; of more, nothing is told."""
PATIENCE_MS: Final = 30_000
"""After so long a trace ends, whatever is under way."""


class OpenTraces:
    """One for each shell; belongs to the event loop's thread. Going over it gives those that go on, once
    each."""

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
    def is_anything(self) -> bool:
        """Whether any trace is under way."""
        return bool(self._by_cause)

    @property
    def is_full(self) -> bool:
        """Whether no other cause shall be traced now. A takeover is, in any case."""
        return len(self._by_cause) >= CAUSES_MAX

    def add(self, cause: str, *traces: ControlTrace) -> None:
        """Add traces that have just begun."""
        self._by_cause[cause] = traces
        self._added_ms[cause] = self._clock.monotonic_ms()

    def of(self, cause: str) -> Iterator[ControlTrace]:
        """The traces of a cause that have not ended."""
        return (trace for trace in self._by_cause.get(cause, ()) if not trace.is_finished)

    def traceparent_of(self, cause: str) -> str:
        """The root of the first of them; empty where the cause is not traced."""
        traces = self._by_cause.get(cause)
        return traces[0].traceparent if traces else ""

    def settle(self, at_us: int) -> list[ControlTrace]:
        """End the traces that nothing is under way for, which are returned, and those that have lasted too
        long. `at_us`: now, by the wall clock."""
        now_ms = self._clock.monotonic_ms()
        done = []
        for cause in tuple(self._by_cause):
            for trace in self.of(cause):
                if trace.finish_if_done(at_us):
                    done.append(trace)
                elif now_ms - self._added_ms[cause] > PATIENCE_MS:
                    trace.finish(at_us)
            # A trace that goes first stays in its place until all of the cause are done.
            if all(trace.is_finished for trace in self._by_cause[cause]):
                del self._by_cause[cause], self._added_ms[cause]
        return done

    def finish_all(self, at_us: int) -> None:
        """End them all, whatever is under way."""
        for trace in self:
            trace.finish(at_us)
        self._by_cause.clear()
        self._added_ms.clear()
