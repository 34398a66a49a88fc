"""How a listener finds out who calls: the interface that each kind of proof implements."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.principals import Principal


class UnknownCaller(Exception):
    """A call of which nobody knows who makes it; the message is a sentence for the caller and the audit log,
    and shows no secret."""

    #: What the call is refused with.
    code: ClassVar[ErrorCode.ValueType] = ErrorCode.ERROR_CODE_NOT_AUTHORIZED


class UnknownIdentity(UnknownCaller):
    """A certificate that names nobody of this cluster; the message says what it names."""


class UnknownToken(UnknownCaller):
    """A call without a token that is valid now; the message says why, and never shows the token."""

    code = ErrorCode.ERROR_CODE_NOT_AUTHENTICATED


class IdentifiedCall(Protocol):
    """What gRPC knows of a call: the part of its context that tells who makes it."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What was proven when the connection was made."""
        ...

    def invocation_metadata(self) -> Any:
        """The metadata of the call: pairs of a key in lower case and a value."""
        ...


class Callers(Protocol):
    """The callers of one listener."""

    def identify(self, call: IdentifiedCall) -> Principal:
        """Who makes this call. The access interceptor asks before anything else of the call is looked at.
        Raises UnknownCaller."""
        ...

    def proven_for_s(self, call: IdentifiedCall) -> float | None:
        """For how long it is proven who makes this call, which was identified; None: as long as it lasts. The
        access interceptor asks for calls that have no deadline. Raises UnknownCaller."""
        ...
