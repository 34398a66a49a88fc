"""What travels between the nodes of a simulated cluster of topics, beside the messages of sim.messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide_runtime.zookeeper.session import TreeChanged, WatchFired
from sim.messages import Body as OtherBody
from sim.messages import CallFailed
from sim.topics.tree import Client

__all__ = [
    "COMMANDS",
    "REQUESTS",
    "Answered",
    "Asked",
    "Body",
    "CallFailed",
    "Expired",
    "Fired",
    "Key",
    "Rpc",
]

Key = tuple[bytes, int]
"""A topic id and a partition."""


@dataclass(frozen=True)
class Asked:
    """A request to ZooKeeper."""

    client: Client
    session: int
    what: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.what}{self.arguments}"


@dataclass(frozen=True)
class Answered:
    """ZooKeeper's answer, or the error."""

    value: Any


@dataclass(frozen=True)
class Fired:
    """A watch of this client fired."""

    client: Client
    event: WatchFired | TreeChanged


@dataclass(frozen=True)
class Expired:
    """This client's session has ended."""

    client: Client
    session: int


@dataclass(frozen=True)
class Rpc:
    """A call of one process at another, in the bytes of the contract."""

    method: str
    request: bytes

    def __str__(self) -> str:
        return f"{self.method}({_said(self.method, 'Request', self.request)})"


@dataclass(frozen=True)
class RpcAnswer:
    """The bytes of the response, or the error that the call ends with."""

    method: str
    value: bytes | BaseException

    def __str__(self) -> str:
        if isinstance(self.value, BaseException):
            return f"{self.method}: {self.value}"
        return f"{self.method}: {_said(self.method, 'Response', self.value)}"


Body = Asked | Answered | Fired | Expired | Rpc | RpcAnswer | OtherBody
REQUESTS = (Asked, Rpc)
COMMANDS: Final = ("LeaderAndISR", "StopReplica", "UpdateMetadata")
"""What a controller calls. It calls again where it got no answer, so that a broker may hear it twice."""


def _said(method: str, kind: str, message: bytes) -> str:
    for module in (control_pb2, replica_pb2, broker_pb2, controller_pb2):
        if (found := getattr(module, method + kind, None)) is not None:
            return " ".join(str(found.FromString(message)).split())[:400]
    raise AssertionError(method)
