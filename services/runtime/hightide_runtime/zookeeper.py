"""The session with ZooKeeper that every service holds: asyncio in front, kazoo's threads behind.

Rules (DESIGN §4): kazoo's callbacks only hand over to the loop; every error is typed; a multi that
failed raises; the cache is a hint, the conditional write is the truth.
"""

import asyncio
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hightide_runtime.zookeeper_errors import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    ZooKeeperError,
    ZooKeeperRefused,
    ZooKeeperUnreachable,
)
from hightide_runtime.zookeeper_operations import Check, Create, Delete, Operation, SetData, multis_of

__all__ = [
    "BadVersion",
    "Check",
    "ConnectionLost",
    "Create",
    "Delete",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "Operation",
    "SessionExpired",
    "SessionState",
    "SessionStateChanged",
    "SetData",
    "WatchFired",
    "Znode",
    "ZooKeeperError",
    "ZooKeeperEvent",
    "ZooKeeperRefused",
    "ZooKeeperSession",
    "ZooKeeperUnreachable",
    "multis_of",
]


class SessionState(enum.Enum):
    """Where the session stands."""

    #: Requests are answered. After SUSPENDED, every watch is gone: read again, with watches.
    CONNECTED = "connected"
    #: The connection broke; the session may live on. Decide nothing, serve what needs no decision.
    SUSPENDED = "suspended"
    #: The session expired: ephemeral znodes are gone. A new session comes by itself, as CONNECTED.
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SessionStateChanged:
    """The session's state changed. `session_id` tells whether a CONNECTED is the same session as before."""

    state: SessionState
    session_id: int


@dataclass(frozen=True, slots=True)
class WatchFired:
    """What is at `path` changed (content, existence or children): the watch is used up, read again."""

    path: str


ZooKeeperEvent: TypeAlias = SessionStateChanged | WatchFired


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as read. `czxid` is the transaction that created it, `version` its zkVersion."""

    path: str
    data: bytes
    version: int
    czxid: int
    ephemeral_owner: int = 0


class ZooKeeperSession:
    """One session. Mains open it first and close it last.

    `events` delivers session states and watches, in order, on the loop. It needs no bound: a watch
    fires once for each read that set it. One task of the shell reads it, from the time of `connect`.
    Every method that talks to ZooKeeper raises ConnectionLost or SessionExpired, beside what it names.
    """

    events: asyncio.Queue[ZooKeeperEvent]

    @classmethod
    async def connect(
        cls, hosts: str, *, session_timeout_ms: int = 6000, connect_timeout_ms: int = 30_000
    ) -> "ZooKeeperSession":
        """Open a session with `host:port[,host:port…][/chroot]`; the chroot is created where it is missing.

        Keeps trying, and logs the address every 5 s. Raises ZooKeeperUnreachable, whose message is fit to be
        printed as the one line with which a main exits.
        """
        raise NotImplementedError

    @property
    def state(self) -> SessionState:
        """The state as last delivered."""
        raise NotImplementedError

    @property
    def session_id(self) -> int:
        """The id of the present session; Znode.ephemeral_owner of what it created."""
        raise NotImplementedError

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that ZooKeeper granted; at least 2 of its ticks, whatever was asked."""
        raise NotImplementedError

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        """Read a znode; NoNode where it is missing (a watch is then not set: use `exists`)."""
        raise NotImplementedError

    async def exists(self, path: str, *, watch: bool = False) -> Znode | None:
        """The znode without its content (`data` is empty), or None where it is not there; the watch holds both ways."""
        raise NotImplementedError

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """The names of the children, sorted; NoNode."""
        raise NotImplementedError

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Znode:
        """Create a znode and return it, with its czxid; NodeExists, NoNode (no parent)."""
        raise NotImplementedError

    async def ensure_path(self, path: str) -> None:
        """Make sure that a persistent znode and its parents exist, empty where they are new."""
        raise NotImplementedError

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the content if the version matches; the new version. BadVersion, NoNode."""
        raise NotImplementedError

    async def delete(self, path: str, version: int = -1) -> None:
        """Delete a znode; BadVersion, NoNode, NotEmpty."""
        raise NotImplementedError

    def submit_multi(self, operations: Sequence[Operation]) -> asyncio.Future[tuple[int, ...]]:
        """Send a multi now, and have its result later: this is how several are pipelined.

        ZooKeeper applies them in the order of the calls. The result is the version after each operation: 0 for
        Create, the new one for SetData, the checked one for Check, -1 for Delete. Where any operation fails,
        nothing is applied, and the future raises the typed error of the operation that did.
        """
        raise NotImplementedError

    async def multi(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """Apply all or nothing; as `submit_multi`, awaited."""
        raise NotImplementedError

    async def multi_read(self, paths: Iterable[str]) -> dict[str, Znode]:
        """Read any number of znodes in few round trips (multiRead, opcode 22); missing ones are absent.

        Not one snapshot: each chunk of paths is read at one moment, chunks follow each other. No watches.
        """
        raise NotImplementedError

    async def ensure_cluster_id(self) -> str:
        """The cluster's id; whoever comes first makes one up. Also creates `znodes.PARENTS`."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the session: its ephemeral znodes are gone at once. Never raises; call it once, last."""
        raise NotImplementedError
