"""Counts calls, failures and time by method. Cheap enough for the data path."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from hightide_runtime.errors import ServiceError, reason_of
from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.telemetry.metric_declarations import Distribution

CANCELLED = "CANCELLED"
UNKNOWN = "UNKNOWN"


@dataclass(slots=True)
class MethodTiming:
    """What one method has cost so far. Failed calls are those that ended in an error or were cancelled."""

    begun: int = 0
    duration_s: Distribution = field(default_factory=Distribution)
    failures: dict[str, int] = field(default_factory=dict)
    """By reason, as in ErrorInfo: `NOT_LEADER`. As many as the catalogue has, at most."""

    @property
    def calls(self) -> int:
        """All that have ended."""
        return self.duration_s.count

    @property
    def failed(self) -> int:
        """Those of them that were not answered as asked."""
        return sum(tuple(self.failures.values()))

    @property
    def in_hand(self) -> int:
        """Those that have not ended; asked on any thread, and so perhaps off by one."""
        return max(0, self.begun - self.calls)

    def add(self, started_ns: int, failure: BaseException | None = None) -> None:
        """Count one call that began at `started_ns` (time.perf_counter_ns) and ends now."""
        self.duration_s.record((time.perf_counter_ns() - started_ns) / 1e9)
        if failure is not None:
            reason = _reason(failure)
            self.failures[reason] = self.failures.get(reason, 0) + 1


def _reason(failure: BaseException) -> str:
    if isinstance(failure, grpc.aio.AbortError) and isinstance(failure.__cause__, ServiceError):
        return reason_of(failure.__cause__.code)
    # A stream of responses is closed where its client has gone.
    return CANCELLED if isinstance(failure, asyncio.CancelledError | GeneratorExit) else UNKNOWN


class TimingInterceptor:
    """Keeps one MethodTiming a method: as many as there are methods, however many calls come."""

    def __init__(self) -> None:
        self.timings: dict[str, MethodTiming] = {}

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response."""
        timing = self.timings.setdefault(str(method), MethodTiming())

        async def timed(request: Any, context: Context) -> Any:
            timing.begun += 1
            started_ns = time.perf_counter_ns()
            try:
                response = await call(request, context)
            except BaseException as failure:
                timing.add(started_ns, failure)
                raise
            timing.add(started_ns)
            return response

        return timed

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses; the time is that of the whole stream."""
        timing = self.timings.setdefault(str(method), MethodTiming())

        async def timed(request: Any, context: Context) -> AsyncIterator[Any]:
            timing.begun += 1
            started_ns = time.perf_counter_ns()
            try:
                async for response in call(request, context):
                    yield response
            except BaseException as failure:
                timing.add(started_ns, failure)
                raise
            timing.add(started_ns)

        return timed
