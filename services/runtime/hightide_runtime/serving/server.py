"""Serving every service: one function, one order of interceptors, one set of channel options."""

import asyncio
import errno
import functools
import inspect
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2_grpc
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.audit import AuditLog
from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.client_identities import ClientIdentities
from hightide_runtime.access.rules import rule_of
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError, StartupError
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.serving import health
from hightide_runtime.serving.answer_budget import AnswerBudget, answer_budgets
from hightide_runtime.serving.call_streams import (
    CALL_STREAM_SERVICE,
    CallStreams,
    add_CallStreamServiceServicer_to_server,
)
from hightide_runtime.serving.fair_limit import FairLimit
from hightide_runtime.serving.generated_handlers import handlers_of
from hightide_runtime.serving.interceptors.access import AccessInterceptor
from hightide_runtime.serving.interceptors.errors import ErrorInterceptor
from hightide_runtime.serving.interceptors.interceptor import (
    Context,
    Interceptor,
    Method,
    Plane,
    StreamCall,
    UnaryCall,
)
from hightide_runtime.serving.interceptors.limits import LimitsInterceptor
from hightide_runtime.serving.interceptors.listener import ListenerInterceptor
from hightide_runtime.serving.interceptors.timing import MethodTiming, TimingInterceptor
from hightide_runtime.serving.interceptors.trace_context import TraceContextInterceptor
from hightide_runtime.serving.introspection import CALLS_MAX as INTROSPECTION_CALLS_MAX
from hightide_runtime.serving.introspection import introspect
from hightide_runtime.serving.listeners import Listener
from hightide_runtime.serving.request_lists import check_of
from hightide_runtime.serving.transports import transports_of
from hightide_runtime.tls.files import ServerTls

DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
METADATA_BYTES_MAX = 12 * 1024
ANSWERS_LEAVE_S = 0.05
_FLAGS = {Listener.INTERNAL: "--listen", Listener.EXTERNAL: "--external-listen"}
_UNTAKEN_MAX_S = 120
# Between two pings of a caller that sends nothing else. Clients ping every 10 s, and controllers a few times
# a second (process_watcher.py).
_PING_INTERVALS_MIN_MS = {Listener.INTERNAL: 50, Listener.EXTERNAL: 5_000}
_log = logging.getLogger(__name__)
# A server without a reference is stopped by its finalizer.
_listening_to_the_end: list[grpc.aio.Server] = []


class Codec(Protocol):
    """Converts one method's bytes to what its servicer takes, and back. Serving handles protobuf without a
    codec.

    Any ValueError of `parse` means that the bytes are invalid: INVALID_REQUEST. A ServiceError says more.
    """

    def parse(self, request: bytes) -> Any:
        """The request as the servicer's method takes it."""
        ...

    def serialise(self, response: Any) -> bytes:
        """What the servicer's method returned, as the bytes of its protobuf message."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service: its full name, its servicer, and the generated function that registers it."""

    name: str
    servicer: object
    add_to_server: Callable[[Any, grpc.aio.Server], None]
    #: By method name, if bytes are not parsed by the generated classes (the bulk RPCs).
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    #: Methods that may run without a deadline: long-lived streams. They do not count as calls under way
    #: either, so that ten thousand idle streams leave room for calls. Their servicer limits them.
    without_deadline: frozenset[str] = frozenset()
    #: Which limit of unfinished calls its methods count against.
    plane: Plane = Plane.DATA


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server, so that no caller can exhaust it."""

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    max_deadline_ms: int = 3_600_000
    #: The deadline of a unary call that comes without one.
    default_deadline_ms: int = 30_000
    #: Unfinished calls of each plane.
    max_concurrent_rpcs: int = 10_000
    #: Bytes of answers of each plane that were not read yet, if `serve` is given no budgets.
    answer_bytes_max: int = 256 * 1024 * 1024


class Server:
    """A running server. It starts as NOT_SERVING: call `set_serving(True)` once requests can be answered."""

    def __init__(
        self,
        servers: Sequence[grpc.aio.Server],
        addresses: Sequence[HostPort],
        health_servicer: health.HealthServicer,
        limits: LimitsInterceptor,
        timings: Mapping[str, MethodTiming],
    ) -> None:
        """For `serve`: the internal listener, and the external one if there is one."""
        self._servers = servers
        self._limits = limits
        self._health = health_servicer
        self.address = addresses[0]
        #: The listener for clients from outside; None: there is none.
        self.external_address = addresses[1] if len(addresses) > 1 else None
        #: Calls, failures and time of each method so far, by "/service/method"; of both listeners.
        self.timings = timings

    async def set_serving(self, serving: bool, service: str | None = None) -> None:
        """Set the grpc.health.v1 status of one service, or of all and of the server as a whole ("")."""
        await self._health.set(serving, service)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Report NOT_SERVING, take no new calls, let running ones end within the grace, cancel the rest.

        gRPC's own grace waits for connections too, and an idle synchronous client does not read that it
        should close its own. So calls are counted here, and gRPC gets only the moment that answers need to
        leave.
        """
        await self._health.stop()
        await self._limits.drain(grace_s)
        await asyncio.gather(*(server.stop(min(grace_s, ANSWERS_LEAVE_S)) for server in self._servers))

    async def drain_for_good(self, grace_s: float = 5.0) -> None:
        """As `stop`, but keep listening, and refuse, until the process ends, which must be soon. For mains.

        gRPC's core (1.78) frees a listening socket on the thread that releases it last. If that thread has
        just accepted a connection, the process ends by SIGSEGV. This happened once in some hundred stops of
        brokers that stop together and call each other.
        """
        _listening_to_the_end.extend(self._servers)
        await self._health.stop()
        await self._limits.drain(grace_s)
        await asyncio.sleep(min(grace_s, ANSWERS_LEAVE_S))


async def serve(
    listen: HostPort,
    services: Sequence[Service],
    *,
    external: HostPort | None = None,
    external_introspection: bool = False,
    limits: ServerLimits | None = None,
    answers: Mapping[Plane, AnswerBudget] | None = None,
    quotas: LiveQuotas | None = None,
    tls: ServerTls | None = None,
    clients: ClientIdentities | None = None,
    authoriser: Authoriser | None = None,
    small_messages: bool = False,
    call_streams: bool = False,
) -> Server:
    """Build and start the server of a service. Mains call it once.

    Around each method, outermost first: listener, trace context, timing, access, limits, errors. Besides the
    services there are health, reflection and channelz. `external`: the listener for clients from outside,
    under the same limits. It serves the methods whose rules say so, and health; the others only if
    `external_introspection`. `answers`: the budgets of unread answers, if servicers ask them for room.
    `quotas`: those of calls and connections of each principal. `small_messages`: no connection carries much
    at a time, so probing its bandwidth is not worth a third of the CPU of a Ping. `call_streams`: calls may
    also come on an open stream. `tls`: None serves in plaintext. `clients`: how clients show who they are,
    beside certificates of this cluster. `authoriser`: the ACLs that callers are subject to, if any are.
    Raises StartupError that names the port if it is in use, or the file if a certificate cannot be used.
    """
    limits, timing = limits or ServerLimits(), TimingInterceptor()
    transports = transports_of(tls, clients or ClientIdentities())
    limiting = LimitsInterceptor(
        limits.max_concurrent_rpcs, limits.max_deadline_ms, limits.default_deadline_ms,
        answers or answer_budgets(limits.answer_bytes_max), quotas or LiveQuotas(),
    )  # fmt: skip
    introspection = FairLimit(INTROSPECTION_CALLS_MAX)
    audit = AuditLog(asyncio.get_running_loop().call_later)
    health_servicer = health.HealthServicer([service.name for service in services])
    outside = [] if external is None else [(Listener.EXTERNAL, external)]
    wanted = [(Listener.INTERNAL, listen), *outside]
    servers, addresses = [], []
    try:
        for listener, address in wanted:
            server = grpc.aio.server(options=_server_options(limits, listener, small_messages))
            servers.append(server)
            transport = transports[listener]
            access = AccessInterceptor(listener, audit, transport.callers, authoriser)
            # The order is part of the contract: the time includes refusals, a refusal is answered before the
            # request is parsed, and no exception of a servicer gets past the error interceptor.
            interceptors: list[Interceptor] = [
                *(ListenerInterceptor(listener), TraceContextInterceptor()),
                *(timing, access, limiting, ErrorInterceptor()),
            ]
            methods: dict[str, UnaryCall] = {}
            for service in services:
                methods |= _register(server, service, interceptors, access)
            if call_streams:
                _register(server, _call_stream_service(methods), interceptors, access)
            health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
            if listener is Listener.INTERNAL or external_introspection:
                reached = _reached_from(listener, services, call_streams)
                introspect(server, reached, introspection)
            port = _bind(server, address, transport.credentials, _FLAGS[listener])
            addresses.append(HostPort(address.host, port))
    except StartupError:
        for server in servers:
            await server.stop(None)
        raise
    for server, address in zip(servers, addresses, strict=True):
        await server.start()
        _log.info("listening on %s%s", address, "" if tls is None else " with TLS")
    return Server(servers, addresses, health_servicer, limiting, timing.timings)


def _reached_from(listener: Listener, services: Sequence[Service], call_streams: bool) -> list[str]:
    """The services of which a listener serves a method."""
    reached = [
        service.name
        for service in services
        if listener is Listener.INTERNAL
        or any(rule_of(service.name, name).is_external for name in _handlers(service))
    ]
    return [*reached, CALL_STREAM_SERVICE] if call_streams else reached


def _server_options(limits: ServerLimits, listener: Listener, small_messages: bool) -> list[tuple[str, int]]:
    return [
        *([("grpc.http2.bdp_probe", 0)] if small_messages else []),
        # Room for the largest token, and what else comes with a call. gRPC refuses more than 16 KiB.
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        # 4 MiB by default. The limit holds after decompression, so that no small message expands to a large
        # one.
        ("grpc.max_receive_message_length", limits.max_message_bytes),
        ("grpc.max_send_message_length", limits.max_message_bytes),
        # With this option, a second process on the same port would get half of the calls instead of an error.
        ("grpc.so_reuseport", 0),
        # Callers ping also between calls (channels.py). By default that is answered by a GOAWAY.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_INTERVALS_MIN_MS[listener]),
        # By default gRPC cancels, without a word, a call that waited for 30 s until the process took it. When
        # ten thousand consumers register at once on a busy machine, the last ones wait longer.
        ("grpc.server_max_unrequested_time_in_server", _UNTAKEN_MAX_S),
        # A client that vanished without notice loses its parked calls within a minute. A busy one keeps its
        # connection: its session decides whether it is dead, which usually takes less time.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.http2.ping_timeout_ms", 40_000),
    ]


def _bind(
    server: grpc.aio.Server, listen: HostPort, credentials: grpc.ServerCredentials | None, flag: str
) -> int:
    # Tried with a plain socket first: gRPC does not say why it failed, and prints noise on stderr.
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(socket_address)
    except OSError as error:
        raise StartupError(_why_not_bound(listen, error, flag)) from None
    try:
        if credentials is None:
            return server.add_insecure_port(str(listen))
        return server.add_secure_port(str(listen), credentials)
    except RuntimeError as error:
        raise StartupError(f"cannot listen on {listen}: {error}") from None


def _why_not_bound(listen: HostPort, error: OSError, flag: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {listen.port} of {listen.host} is in use by another process; stop it, or use {flag}"
    if error.errno == errno.EACCES:
        return f"port {listen.port} may not be used by this user; choose one above 1023 with {flag}"
    return f"cannot listen on {listen}: {error.strerror or error}; is the host an address of this machine?"


def _handlers(service: Service) -> dict[str, Any]:
    """The generated handlers of a service, by the names of its methods."""
    return handlers_of(service.servicer, service.add_to_server)


def _register(
    server: grpc.aio.Server,
    service: Service,
    interceptors: Sequence[Interceptor],
    access: AccessInterceptor,
) -> dict[str, UnaryCall]:
    """Let the server serve the service. Returns what it runs for each method with one request and answer."""
    handlers = _handlers(service)
    for named in (*service.codecs, *service.without_deadline):
        assert named in handlers, f"{service.name} has no method {named}"
    wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    unary: dict[str, UnaryCall] = {}
    for name, handler in handlers.items():
        is_endless = name in service.without_deadline
        method = Method(
            service.name,
            name,
            service.plane,
            needs_deadline=not is_endless,
            is_counted=not is_endless,
            only_describes=rule_of(service.name, name).operation == "describe",
        )
        codec = service.codecs.get(name)
        parse = codec.parse if codec else handler.request_deserializer
        parse = functools.partial(_parse, parse, check_of(service.name, name))
        serialise = codec.serialise if codec else handler.response_serializer
        wrapped[name] = _wrapped(handler, method, parse, serialise, interceptors, access)
        run: Any = wrapped[name].unary_unary
        if run is not None:
            unary[str(method)] = run
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.name, wrapped),))
    return unary


def _call_stream_service(methods: Mapping[str, UnaryCall]) -> Service:
    """The service for calls on open streams to these methods."""
    return Service(
        CALL_STREAM_SERVICE,
        CallStreams(methods),
        add_CallStreamServiceServicer_to_server,
        without_deadline=frozenset({"OpenCallStream"}),
    )


def _wrapped(
    handler: Any,
    method: Method,
    parse: Callable[[Any], Any],
    serialise: Callable[[Any], bytes],
    interceptors: Sequence[Interceptor],
    access: AccessInterceptor,
) -> "grpc.RpcMethodHandler[Any, Any]":
    """The handler with bytes at both ends, which parses and serialises inside the interceptors.

    If gRPC's own deserialiser failed, it would answer UNKNOWN, with a Python exception as text. A streaming
    method that is a coroutine, and no generator, reads and writes the stream's bytes itself.
    """
    if handler.request_streaming and inspect.iscoroutinefunction(handler.stream_stream):
        behaviour: UnaryCall = handler.stream_stream
        for interceptor in reversed(interceptors):
            behaviour = interceptor.around_unary(method, behaviour)
        return grpc.stream_stream_rpc_method_handler(behaviour)
    if handler.request_streaming:
        parse = functools.partial(_parse_each, parse)
    if handler.response_streaming:
        stream = _bytes_in_bytes_out_stream(
            handler.stream_stream if handler.request_streaming else handler.unary_stream, parse, serialise
        )
        for interceptor in reversed(interceptors):
            stream = interceptor.around_stream(method, stream)
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_stream_rpc_method_handler(stream)
    servicer = handler.stream_unary if handler.request_streaming else handler.unary_unary
    unary = _bytes_in_bytes_out(access.around_servicer(method, servicer), parse, serialise)
    for interceptor in reversed(interceptors):
        unary = interceptor.around_unary(method, unary)
    if handler.request_streaming:
        return grpc.stream_unary_rpc_method_handler(unary)
    return grpc.unary_unary_rpc_method_handler(unary)


def _bytes_in_bytes_out(
    behaviour: UnaryCall, parse: Callable[[Any], Any], serialise: Callable[[Any], bytes]
) -> UnaryCall:
    async def call(request: Any, context: Context) -> bytes:
        return serialise(await behaviour(parse(request), context))

    return call


def _bytes_in_bytes_out_stream(
    behaviour: StreamCall, parse: Callable[[Any], Any], serialise: Callable[[Any], bytes]
) -> StreamCall:
    async def call(request: Any, context: Context) -> AsyncIterator[bytes]:
        async for response in behaviour(parse(request), context):
            yield serialise(response)

    return call


def _parse(parse: Callable[[bytes], Any], check: Callable[[Any], None], request: bytes) -> Any:
    try:
        parsed = parse(request)
    except (DecodeError, ValueError) as error:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"the {len(request)} bytes of the request are not the message of this method ({error})",
        ) from None
    check(parsed)
    return parsed


async def _parse_each(parse: Callable[[bytes], Any], requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for request in requests:
        yield parse(request)
