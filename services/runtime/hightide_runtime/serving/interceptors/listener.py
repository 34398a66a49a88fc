"""Outermost: says of each call through which listener it came in."""

from collections.abc import AsyncIterator
from typing import Any

from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.serving.listeners import CURRENT, Listener


class ListenerInterceptor:
    """Sets `current_listener()` for the call. It is not reset: each RPC runs in a task of its own."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response."""

        async def marked(request: Any, context: Context) -> Any:
            CURRENT.set(self._listener)
            return await call(request, context)

        return marked

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""

        async def marked(request: Any, context: Context) -> AsyncIterator[Any]:
            CURRENT.set(self._listener)
            async for response in call(request, context):
                yield response

        return marked
