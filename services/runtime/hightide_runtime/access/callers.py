"""How a listener finds out who calls: the interface that each kind of proof implements."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from hightide_runtime.access.principals import Principal


class UnknownCaller(Exception):
    """A call of which nobody knows who makes it; the message is a sentence for the caller and the audit log,
    and shows no secret."""


class AnsweredCall(Protocol):
    """What gRPC knows of a call: the part of its context that tells who makes it."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What was proven when the connection was made."""
        ...


class Callers(Protocol):
    """The callers of one listener."""

    def identify(self, call: AnsweredCall) -> Principal:
        """Who makes this call. The access interceptor asks before anything else of the call is looked at.
        Raises UnknownCaller."""
        ...
