"""Through which of its two listeners a call reached a process, and which address its caller is told for it.

A process that is reached from inside of a network and from outside of it listens twice, and has an address
for either side. Whoever comes in through the external listener is told external addresses only: the internal
ones may mean nothing where it is. A process without an external address is told by its internal one.
"""

import enum
from contextvars import ContextVar
from typing import Protocol

from hightide_runtime.addresses import HostPort


class Listener(enum.Enum):
    """One of the two."""

    INTERNAL = enum.auto()
    EXTERNAL = enum.auto()


#: Set by the interceptor of each listener, for the task of the call and what that task starts.
CURRENT: ContextVar[Listener] = ContextVar("listener", default=Listener.INTERNAL)


class Reachable(Protocol):
    """A process as one service knows another; `external_host` is empty where it has no external listener."""

    @property
    def host(self) -> str:
        """The internal host."""
        ...

    @property
    def port(self) -> int:
        """The internal port."""
        ...

    @property
    def external_host(self) -> str:
        """The external host, or nothing."""
        ...

    @property
    def external_port(self) -> int:
        """The external port, or 0."""
        ...


def current_listener() -> Listener:
    """Through which listener the call came that is being answered. For those who answer it later."""
    return CURRENT.get()


def address_told(process: Reachable, listener: Listener | None = None) -> HostPort:
    """Where a caller reaches this process who came in through `listener`, or else through the current one.

    Servicers call it for every address that leaves for a client. What services tell each other has both.
    """
    if (listener or CURRENT.get()) is Listener.EXTERNAL and process.external_host:
        return HostPort(process.external_host, process.external_port)
    return HostPort(process.host, process.port)
