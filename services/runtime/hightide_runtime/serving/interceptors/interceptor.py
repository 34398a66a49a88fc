"""The interface of an interceptor."""

import enum
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
#: A method with one response. The request is bytes, or an async iterator of them for a stream.
UnaryCall: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
#: A method with a stream of responses.
StreamCall: TypeAlias = Callable[[Any, Context], AsyncIterator[Any]]


class Plane(enum.StrEnum):
    """What a method is for. Calls of each plane have a limit of their own, so that neither takes the places
    of the other."""

    #: What clients do with records and groups. Such calls may wait, and there may be very many.
    DATA = "data"
    #: What the cluster needs to go on, and operators to see it: replication, decisions, administration.
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Method:
    """The method that is wrapped."""

    service: str
    name: str
    plane: Plane = Plane.DATA
    needs_deadline: bool = True
    #: Whether it counts against the limit of unfinished calls of its plane.
    is_counted: bool = True
    #: Whether it does nothing but tell, so that its answer may be refused without harm once it is made.
    only_describes: bool = False

    def __str__(self) -> str:
        return f"/{self.service}/{self.name}"


class Interceptor(Protocol):
    """Wraps methods when the server is built. `call` is what comes further inside."""

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response, or a stream that reads and writes by itself and returns None."""
        ...

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses; it iterates `call`, since errors come midway, too."""
        ...
