"""Innermost: turns what a servicer raises into a gRPC status that a client can understand."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import INTERNAL_ERROR_MESSAGE, ServiceError, abort
from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.zookeeper.errors import ConnectionLost, SessionExpired

_log = logging.getLogger(__name__)
#: abort() has been called already, or the client is gone: both are on their way out as they should.
_PASS_THROUGH = (grpc.aio.AbortError, asyncio.CancelledError, GeneratorExit)


class ErrorInterceptor:
    """A ServiceError goes out as the catalogue says; what is no answer at all is a bug: INTERNAL, and logged.

    Where ZooKeeper did not answer and the servicer had nothing better to say, the client is told just that.
    """

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response."""

        async def guarded(request: Any, context: Context) -> Any:
            try:
                return await call(request, context)
            except _PASS_THROUGH:
                raise
            except Exception as error:  # noqa: BLE001 - the top of an RPC: logged, and told to the client
                return await _answer(method, context, error)

        return guarded

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""

        async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                async for response in call(request, context):
                    yield response
            except _PASS_THROUGH:
                raise
            except Exception as error:  # noqa: BLE001 - the top of an RPC: logged, and told to the client
                await _answer(method, context, error)

        return guarded


def error_told(error: Exception) -> ServiceError:
    """The error that the client gets for what a servicer raised."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ConnectionLost | SessionExpired):
        return ServiceError(ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE, f"{error}; try again in a moment")
    return ServiceError(ErrorCode.ERROR_CODE_INTERNAL, INTERNAL_ERROR_MESSAGE)


async def _answer(method: Method, context: Context, error: Exception) -> None:
    told = error_told(error)
    if told is not error and told.code == ErrorCode.ERROR_CODE_INTERNAL:
        _log.error("%s failed unexpectedly", method, exc_info=error)
    await abort(context, told)
