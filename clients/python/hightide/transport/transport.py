"""The one place of the SDK that makes RPCs: sync for threads, aio for asyncio.

Bytes go in and bytes come out; every failure comes out as a typed error. Each address that can be reached has
one channel (`hightide.transport.channels`), opened by `hightide.transport.opening`. Consumers share channels
(`hightide.transport.connections`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from hightide import tracing
from hightide.calls.call import AnswerT, Call, Method, StreamCall, StreamEnded
from hightide.calls.connection_failures import connection_failure, is_of_a_handshake
from hightide.calls.credentials import Credentials
from hightide.errors import (
    ERROR_DOMAIN,
    AddressUnreachableError,
    HightideError,
    NotAuthenticatedError,
    RequestTimeoutError,
    UnexpectedAnswerError,
    from_reason,
)
from hightide.transport.bearer_token import BearerToken, Metadata
from hightide.transport.channels import ChannelPool, PooledChannel
from hightide.transport.connections import Connections
from hightide.transport.home import LoopHome, ProcessHome
from hightide.transport.opening import aio_channel_opener, channel_opener
from hightide.transport.streams import AioStream, Heard, Stream
from hightide.transport.tls_failures import TlsFailures

_RECORDS: Final = frozenset({Method.PRODUCE, Method.FETCH})

NO_CREDENTIALS: Final = Credentials()

ChannelT = TypeVar("ChannelT")

Done = Callable[[Call[Any], bytes | HightideError], None]


def error_of(rpc_error: grpc.RpcError, call: Call[Any]) -> HightideError:
    """The typed error for a failed RPC: the server's own if it names one, otherwise one for the status."""
    if not isinstance(rpc_error, grpc.Call | grpc.aio.AioRpcError):
        return AddressUnreachableError(f"the call failed: {rpc_error!r}", address=call.address)
    details = _details(rpc_error)
    info = _error_info(rpc_error)
    if info is not None:
        return from_reason(
            info.reason,
            details,
            address=info.metadata.get("address", call.address),
            metadata=info.metadata,
        )
    match rpc_error.code():
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            reason = connection_failure(details, call.address)
            return AddressUnreachableError(
                f"{call.address} cannot be reached: {reason}", address=call.address
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return RequestTimeoutError(
                f"{call.address} did not answer {call.method.name} within {call.timeout_ms} ms",
                address=call.address,
            )
        case code:
            return UnexpectedAnswerError(
                f"{call.address} answered {call.method.name} with {code}: {details}", address=call.address
            )


def _details(rpc_error: grpc.RpcError) -> str:
    """gRPC's text of a failure; empty if it has none."""
    return rpc_error.details() or "" if isinstance(rpc_error, grpc.Call | grpc.aio.AioRpcError) else ""


def _error_info(rpc_error: grpc.Call | grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo | None:
    """What the server says of the error in its google.rpc.Status; None if it says nothing that can be
    read."""
    for key, rich in rpc_error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        try:
            for detail in status_pb2.Status.FromString(rich).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain.startswith(ERROR_DOMAIN):
                    return info
        except DecodeError:
            return None
    return None


class Transport:
    """The channels of one client, for threads. Thread-safe."""

    def __init__(
        self,
        client_id: str | None = None,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        shares_connections: bool = False,
    ) -> None:
        """Raises InvalidArgumentError if the files of the credentials cannot be used."""
        self._token = _token_of(credentials)
        opener = channel_opener(credentials.tls, client_id)
        self.home = ProcessHome()
        self._lines = _connections(opener, self.home, client_id, credentials, shares=shares_connections)
        self._tls_failures = TlsFailures(credentials.tls)

    def start(self, call: Call[Any], request: bytes, done: Done) -> Any:
        """Begin a call; returns its grpc.Future, for cancelling. `done` is called once, on one of gRPC's
        threads, with the answer's bytes or an error. Raises ClosedError."""
        metadata = _metadata(self._token, call.address)
        line = self._lines.begin(call.address, call.method)

        def ended(future: Any) -> None:
            outcome = self._outcome(future, call, line)
            self._lines.end(line)
            done(call, outcome)
            # The other calls are too few for their threads to count.
            if call.method in _RECORDS and isinstance(outcome, bytes):
                line.keep_idle_call(metadata)

        future = line.methods[call.method].future(request, timeout=call.timeout_ms / 1000, metadata=metadata)
        future.add_done_callback(ended)
        return future

    def open(self, call: StreamCall[Any], request: bytes, heard: Heard) -> Stream:
        """Open a stream with its first message. `heard` is called on a thread of its own for each message and
        for the end. Raises ClosedError, TokenNotSentError."""
        metadata = _metadata(self._token, call.address)
        line = self._lines.begin(call.address, call.method)

        def hear(call: StreamCall[Any], said: bytes | StreamEnded | HightideError) -> None:
            if not isinstance(said, HightideError):
                line.answered()
            if not isinstance(said, bytes):
                self._lines.end(line)
            heard(call, said)

        stream = Stream(line.methods[call.method], metadata, call, hear, partial(self._failed, line))
        stream.send(request)
        return stream

    def run(self, call: Call[AnswerT]) -> AnswerT:
        """Make a call and wait for its answer. Raises HightideError."""
        request = call.encode()
        metadata = _metadata(self._token, call.address, _metadata_of(call))
        line = self._lines.begin(call.address, call.method)
        try:
            answer = line.methods[call.method](request, timeout=call.timeout_ms / 1000, metadata=metadata)
            line.answered()
        except grpc.RpcError as error:
            raise self._failed(line, error, call) from error
        finally:
            self._lines.end(line)
        return call.decode(answer)

    def _outcome(self, ended: Any, call: Call[Any], line: PooledChannel[Any]) -> bytes | HightideError:
        try:
            answer: bytes = ended.result()
        except grpc.FutureCancelledError:
            return AddressUnreachableError(f"the call to {call.address} was given up", address=call.address)
        except grpc.RpcError as error:
            return self._failed(line, error, call)
        line.answered()
        return answer

    def _failed(self, line: PooledChannel[Any], rpc_error: grpc.RpcError, call: Call[Any]) -> HightideError:
        return _failed(self._lines, self._tls_failures, self._token, line, rpc_error, call)

    def looked_into(self, error: AddressUnreachableError, address: str) -> AddressUnreachableError:
        """The error of a call to this address, with its reason if that is TLS. Waits for it, a few seconds at
        most. For who makes one call: who tries again is told without waiting."""
        return self._tls_failures.awaited(error, address, has_been_reached=self._lines.has_been_reached)

    def close(self) -> None:
        """End all connections but those that others share; calls under way on them fail."""
        for channel in self._lines.close():
            channel.close()


def _connections(
    opener: Callable[[str], ChannelT],
    home: ProcessHome,
    client_id: str | None,
    credentials: Credentials,
    *,
    shares: bool,
) -> Connections[ChannelT]:
    def open_pool() -> ChannelPool[ChannelT]:
        return ChannelPool(opener, keeps_failed=credentials.tls is None)

    return Connections(open_pool, home, (client_id, credentials) if shares else None)


def _token_of(credentials: Credentials) -> BearerToken | None:
    has_one = credentials.token is not None or credentials.token_file is not None
    return BearerToken(credentials) if has_one else None


def _metadata(token: BearerToken | None, address: str, others: Metadata | None = None) -> Metadata | None:
    """The metadata of a call. Raises TokenNotSentError."""
    return others if token is None else (others or ()) + token.metadata(address)


def _metadata_of(call: Call[Any]) -> tuple[tuple[str, str], ...] | None:
    """The metadata that carries the program's current span; calls with records carry none."""
    return None if call.method in _RECORDS else tracing.call_metadata()


def _failed(
    lines: Connections[Any],
    tls_failures: TlsFailures,
    token: BearerToken | None,
    line: PooledChannel[Any],
    rpc_error: grpc.RpcError,
    call: Call[Any],
) -> HightideError:
    """The typed error, which is also noted on the channel."""
    error = error_of(rpc_error, call)
    line.failed(rpc_error, error)
    if token is not None and isinstance(error, NotAuthenticatedError):
        token.refused()
    # gRPC's frames hold the call, and the call holds its channel, as long as the error is referenced.
    rpc_error.__traceback__ = None
    if isinstance(error, AddressUnreachableError) and is_of_a_handshake(_details(rpc_error)):
        return tls_failures.explained(error, call.address, has_been_reached=lines.has_been_reached)
    return error


class AioTransport:
    """The channels of one client, for one event loop."""

    def __init__(
        self,
        client_id: str | None = None,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        shares_connections: bool = False,
    ) -> None:
        """Raises InvalidArgumentError if the files of the credentials cannot be used."""
        self._token = _token_of(credentials)
        opener = aio_channel_opener(credentials.tls, client_id)
        self.home = LoopHome()
        self._lines = _connections(opener, self.home, client_id, credentials, shares=shares_connections)
        self._tls_failures = TlsFailures(credentials.tls)

    async def exchange(
        self, call: Call[Any], request: bytes, metadata: tuple[tuple[str, str], ...] | None = None
    ) -> bytes:
        """Make a call. Raises HightideError."""
        metadata = _metadata(self._token, call.address, metadata)
        line = self._lines.begin(call.address, call.method)
        try:
            answer: bytes = await line.methods[call.method](
                request, timeout=call.timeout_ms / 1000, metadata=metadata
            )
            line.answered()
        except grpc.RpcError as error:
            raise self._failed(line, error, call) from error
        finally:
            self._lines.end(line)
        return answer

    def open(self, call: StreamCall[Any], request: bytes) -> AioStream:
        """Open a stream with its first message. Raises ClosedError, TokenNotSentError."""
        metadata = _metadata(self._token, call.address)
        line = self._lines.begin(call.address, call.method)
        method, ended = line.methods[call.method], partial(self._lines.end, line)
        stream = AioStream(method, metadata, call, partial(self._failed, line), line.answered, ended)
        stream.send(request)
        return stream

    async def run(self, call: Call[AnswerT]) -> AnswerT:
        """Make a call and read its answer. Raises HightideError."""
        return call.decode(await self.exchange(call, call.encode(), _metadata_of(call)))

    def _failed(self, line: PooledChannel[Any], rpc_error: grpc.RpcError, call: Call[Any]) -> HightideError:
        return _failed(self._lines, self._tls_failures, self._token, line, rpc_error, call)

    async def close(self) -> None:
        """End all connections but those that others share; calls under way on them fail."""
        for channel in self._lines.close():
            await channel.close(None)
