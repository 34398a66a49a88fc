"""Reflection and channelz, which tell operators what a server serves, and of its connections and calls."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import grpc
from grpc_channelz.v1 import channelz, channelz_pb2_grpc
from grpc_reflection.v1alpha import reflection as grpc_reflection
from grpc_reflection.v1alpha import reflection_pb2_grpc
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.errors import ServiceError, abort
from hightide_runtime.serving import health, reflection
from hightide_runtime.serving.fair_limit import FairLimit, holder_of
from hightide_runtime.serving.generated_handlers import handlers_of
from hightide_runtime.serving.interceptors.interceptor import Context, StreamCall, UnaryCall

CALLS_MAX: Final = 100
"""Unfinished calls of both together, of all listeners. It is a limit of its own, so that such calls take no
place of others, nor others of them: an operator looks when a server is overloaded."""
CHANNELZ_SERVICE_NAME: Final = "grpc.channelz.v1.Channelz"


def introspect(server: grpc.aio.Server, names: Sequence[str], limit: FairLimit) -> None:
    """Serve reflection of these services, and channelz. `serve` calls it, once for each listener that has
    them."""
    told = [*names, health.SERVICE_NAME, CHANNELZ_SERVICE_NAME, reflection.SERVICE_NAME]
    reflecting = grpc_reflection.aio.ReflectionServicer(told, pool=reflection.CommentedPool())
    add_reflection = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add_channelz = channelz_pb2_grpc.add_ChannelzServicer_to_server
    _register(server, reflection.SERVICE_NAME, reflecting, add_reflection, limit)
    _register(server, CHANNELZ_SERVICE_NAME, channelz.aio.ChannelzServicer(), add_channelz, limit)


def _register(
    server: grpc.aio.Server,
    name: str,
    servicer: object,
    add_to_server: Callable[[Any, Any], None],
    limit: FairLimit,
) -> None:
    wrapped = {}
    for method, handler in handlers_of(servicer, add_to_server).items():
        parse, serialise = handler.request_deserializer, handler.response_serializer
        if handler.response_streaming:
            stream = _limited_stream(handler.stream_stream, limit)
            wrapped[method] = grpc.stream_stream_rpc_method_handler(stream, parse, serialise)
        else:
            unary = _limited(handler.unary_unary, limit)
            wrapped[method] = grpc.unary_unary_rpc_method_handler(unary, parse, serialise)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, wrapped),))


def _limited(call: UnaryCall, limit: FairLimit) -> UnaryCall:
    async def limited(request: Any, context: Context) -> Any:
        await _take(limit, context)
        return await call(request, context)

    return limited


def _limited_stream(call: StreamCall, limit: FairLimit) -> StreamCall:
    async def limited(requests: Any, context: Context) -> AsyncIterator[Any]:
        await _take(limit, context)
        async for response in call(requests, context):
            yield response

    return limited


async def _take(limit: FairLimit, context: Context) -> None:
    """Count a call until gRPC is done with it, or refuse it."""
    holder = holder_of(context)
    if not limit.take(holder):
        await abort(
            context,
            ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED,
                f"the server has {limit.taken} unfinished calls of reflection and channelz, "
                f"{limit.held(holder)} of them of this connection; it accepts {limit.limit}. End those that "
                "you need no more, and try again after a pause",
            ),
        )
    context.add_done_callback(lambda _: limit.give_back(holder))  # type: ignore[arg-type]
