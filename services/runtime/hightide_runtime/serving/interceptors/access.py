"""Refuses calls that the rule of their method forbids; the rules are in `hightide_runtime.access.rules`."""

from collections.abc import AsyncIterator
from typing import Any

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.rules import rule_of
from hightide_runtime.errors import ServiceError, abort
from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.serving.listeners import Listener


class AccessInterceptor:
    """The access to one listener. It stands outside of the parsing, so that a refusal costs next to nothing.

    The external listener serves only what its clients need. It refuses the rest with NOT_AUTHORIZED. This
    says more than gRPC's UNIMPLEMENTED for a method that is not registered: the method exists, and a process
    that calls it here has the wrong address.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response. Nothing is put around one that this listener serves."""
        refusal = self._refusal(method)
        if refusal is None:
            return call

        async def refused(request: Any, context: Context) -> Any:
            await abort(context, refusal)

        return refused

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""
        refusal = self._refusal(method)
        if refusal is None:
            return call

        async def refused(request: Any, context: Context) -> AsyncIterator[Any]:
            await abort(context, refusal)
            yield  # type: ignore[unreachable]  # It makes a generator, as a method with a stream is one.

        return refused

    def _refusal(self, method: Method) -> ServiceError | None:
        rule = rule_of(method.service, method.name)
        if self._listener is Listener.INTERNAL or rule.is_external:
            return None
        return ServiceError(
            ErrorCode.ERROR_CODE_NOT_AUTHORIZED,
            f"{method} is for the processes of the cluster: the internal listener alone serves it, and this "
            "is the external one; call the address that the server gets by --listen or --advertise",
            {"method": str(method), "listener": "external"},
        )
