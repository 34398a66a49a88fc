"""The handlers that generated code would register at a server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc


class _Collector:
    """A stand-in for a server that collects what is registered."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Do nothing: the same handlers come by name."""

    def add_registered_method_handlers(self, service_name: str, handlers: Mapping[str, Any]) -> None:
        """Keep the handlers of a service."""
        self.handlers.update(handlers)


def handlers_of(servicer: object, add_to_server: Callable[[Any, Any], None]) -> dict[str, Any]:
    """The handlers of a servicer, by the names of their methods. `add_to_server` is generated."""
    collector = _Collector()
    add_to_server(servicer, collector)
    return collector.handlers
