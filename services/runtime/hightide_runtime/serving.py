"""How every service is served: one function, one order of interceptors, one set of channel options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from hightide_runtime.addresses import HostPort

DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class Codec(Protocol):
    """How one method's bytes become what its servicer takes and returns. Serving knows protobuf by itself.

    `parse` raises ServiceError (or a ValueError) for bytes that make no sense; it is called for each request.
    """

    def parse(self, request: bytes) -> Any:
        """The request as the servicer's method takes it."""
        ...

    def serialise(self, response: Any) -> bytes:
        """What the servicer's method returned, as the bytes of its protobuf message."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service: its full name, who answers, and the generated function that registers it."""

    name: str
    servicer: object
    add_to_server: Callable[[Any, grpc.aio.Server], None]
    #: By method name, where bytes are not parsed by the generated classes (the bulk RPCs).
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    #: Methods that may be called without a deadline: long-lived streams.
    without_deadline: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server refuses, so that no caller can use it up."""

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    max_deadline_ms: int = 3_600_000
    max_concurrent_rpcs: int = 10_000


class Server:
    """A running server. Starts as NOT_SERVING: call `set_serving(True)` once requests make sense."""

    @property
    def address(self) -> HostPort:
        """Where it listens, with the port that was given to a request for port 0."""
        raise NotImplementedError

    async def set_serving(self, serving: bool, service: str | None = None) -> None:
        """Set the grpc.health.v1 status of one service, or of all and of the server as a whole ("")."""
        raise NotImplementedError

    async def stop(self, grace_s: float = 5.0) -> None:
        """Say NOT_SERVING, take no new calls, let running ones end within the grace, cancel the rest."""
        raise NotImplementedError


async def serve(
    listen: HostPort,
    services: Sequence[Service],
    *,
    limits: Limits | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> Server:
    """Build and start the server of a service. Mains call it once.

    Around each method, outermost first: trace context, timing, limits, errors. Beside the services: health,
    reflection and channelz. Raises StartupError that names the port where it is in use.
    """
    raise NotImplementedError
