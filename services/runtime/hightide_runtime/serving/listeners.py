"""The two listeners of a process, and the address that a caller gets, which depends on its listener.

A process that is reached from inside and from outside a network listens twice, and has an address for each
side. A caller that comes in through the external listener gets external addresses only, because the internal
ones may be useless there. If a process has no external address, the caller gets its internal one.
"""

import enum
from contextvars import ContextVar
from typing import Protocol

from hightide_runtime.addresses import HostPort


class Listener(enum.Enum):
    """The listener through which a call came."""

    INTERNAL = enum.auto()
    EXTERNAL = enum.auto()


#: Set by the interceptor of each listener, for the task of the call and the tasks that it starts.
CURRENT: ContextVar[Listener] = ContextVar("listener", default=Listener.INTERNAL)


class ProcessAddresses(Protocol):
    """The addresses of a process; `external_host` is empty if it has no external listener."""

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
        """The external host, or empty."""
        ...

    @property
    def external_port(self) -> int:
        """The external port, or 0."""
        ...


def current_listener() -> Listener:
    """The listener of the current call. For code that answers it later."""
    return CURRENT.get()


def address_told(process: ProcessAddresses, listener: Listener | None = None) -> HostPort:
    """The address of this process for a caller that came in through `listener`, or through the current one.

    Servicers call it for every address that they send to a client. Services send each other both addresses.
    """
    if (listener or CURRENT.get()) is Listener.EXTERNAL and process.external_host:
        return HostPort(process.external_host, process.external_port)
    return HostPort(process.host, process.port)
