"""Counts calls, failures and time by method. Cheap enough for the data path."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from hightide_runtime.interceptors.interceptor import Context, Method, StreamCall, UnaryCall


@dataclass(slots=True)
class MethodTiming:
    """What one method has cost so far. Failed calls are those that ended in an error or were cancelled."""

    calls: int = 0
    failed: int = 0
    total_us: int = 0
    max_us: int = 0

    def add(self, started_ns: int, *, failed: bool) -> None:
        """Count one call that began at `started_ns` (time.perf_counter_ns) and ends now."""
        elapsed_us = (time.perf_counter_ns() - started_ns) // 1000
        self.calls += 1
        self.failed += failed
        self.total_us += elapsed_us
        self.max_us = max(self.max_us, elapsed_us)


class TimingInterceptor:
    """Keeps one MethodTiming a method: as many as there are methods, however many calls come."""

    def __init__(self) -> None:
        self.timings: dict[str, MethodTiming] = {}

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response."""
        timing = self.timings.setdefault(str(method), MethodTiming())

        async def timed(request: Any, context: Context) -> Any:
            started_ns, failed = time.perf_counter_ns(), True
            try:
                response = await call(request, context)
                failed = False
                return response
            finally:
                timing.add(started_ns, failed=failed)

        return timed

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses; the time is that of the whole stream."""
        timing = self.timings.setdefault(str(method), MethodTiming())

        async def timed(request: Any, context: Context) -> AsyncIterator[Any]:
            started_ns, failed = time.perf_counter_ns(), True
            try:
                async for response in call(request, context):
                    yield response
                failed = False
            finally:
                timing.add(started_ns, failed=failed)

        return timed
