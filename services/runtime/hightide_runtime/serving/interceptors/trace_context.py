"""Outermost: takes the caller's traceparent from the metadata, so that spans join the caller's trace."""

from collections.abc import AsyncIterator
from typing import Any

from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.telemetry.trace_context import CURRENT, METADATA_KEY, is_traceparent


class TraceContextInterceptor:
    """Sets `current_traceparent()` for the call. It is not reset: each RPC runs in a task of its own."""

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response."""

        async def traced(request: Any, context: Context) -> Any:
            _adopt(context)
            return await call(request, context)

        return traced

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""

        async def traced(request: Any, context: Context) -> AsyncIterator[Any]:
            _adopt(context)
            async for response in call(request, context):
                yield response

        return traced


def _adopt(context: Context) -> None:
    for key, value in context.invocation_metadata() or ():
        if key == METADATA_KEY:
            text = value if isinstance(value, str) else ""
            CURRENT.set(text if is_traceparent(text) else "")
            return
