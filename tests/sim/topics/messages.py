"""What travels between the nodes of a simulated cluster of topics, beside the messages of sim.messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from hightide_runtime.zookeeper import TreeChanged, WatchFired
from sim.messages import Body as OtherBody
from sim.messages import CallFailed
from sim.topics.tree import Client

__all__ = [
    "REQUESTS",
    "Addressed",
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
    """A call of the controller at a broker, in the contract's own words."""

    method: str
    request: Message

    def __str__(self) -> str:
        return f"{self.method}({_short(self.request)})"


@dataclass(frozen=True)
class RpcAnswer:
    """The response, or the error that the call ends with."""

    value: Message | BaseException

    def __str__(self) -> str:
        return _short(self.value) if isinstance(self.value, Message) else repr(self.value)


@dataclass(frozen=True)
class Addressed:
    """What replicas of one partition say to each other."""

    key: Key
    body: OtherBody

    def __str__(self) -> str:
        return f"{self.key[0][:2].hex()}-{self.key[1]} {self.body}"


Body = Asked | Answered | Fired | Expired | Rpc | RpcAnswer | Addressed | OtherBody
REQUESTS = (Asked, Rpc, Addressed)


def _short(message: Message) -> str:
    return " ".join(str(message).split())[:400]
