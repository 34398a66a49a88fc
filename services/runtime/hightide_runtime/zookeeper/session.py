"""The session with ZooKeeper that every service holds: asyncio in front, kazoo's threads behind.

Rules (docs/protocol.md, "Working with ZooKeeper"): kazoo's callbacks only hand over to the loop; every error
is typed; a multi that failed raises; the cache is a hint, the conditional write is the truth.
"""

import asyncio
import contextlib
import enum
import itertools
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from hightide_runtime.telemetry.metric_declarations import Distribution
from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.zookeeper.acls import Acl, ZnodeAccess, acl_of, encode_acl
from hightide_runtime.zookeeper.cluster_identity import ClusterMembership, check_cluster_id, cluster_id_in
from hightide_runtime.zookeeper.connection import impatient_client
from hightide_runtime.zookeeper.errors import (
    BadVersion,
    ConnectionLost,
    InconsistentClusterId,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    ZooKeeperError,
    ZooKeeperRefused,
    ZooKeeperUnreachable,
    typed_error,
)
from hightide_runtime.zookeeper.operations import (
    MAX_MULTI_OPERATIONS,
    MAX_PACKET_BYTES,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    multis_of,
)
from hightide_runtime.zookeeper.protocol import (
    AddTreeWatch,
    EndSession,
    IgnoredAnswer,
    MultiChildrenRequest,
    MultiReadRequest,
    MultiRequest,
    OperationFailed,
)
from hightide_runtime.zookeeper.replies import Replies, settle_multi
from hightide_runtime.zookeeper.security import PLAIN, ZooKeeperSecurity

__all__ = [
    "BadVersion",
    "Check",
    "ConnectionLost",
    "Create",
    "Delete",
    "InconsistentClusterId",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "Operation",
    "SessionExpired",
    "SessionState",
    "SessionStateChanged",
    "SetData",
    "TreeChanged",
    "WatchFired",
    "Znode",
    "ZooKeeperError",
    "ZooKeeperEvent",
    "ZooKeeperRefused",
    "ZooKeeperSession",
    "ZooKeeperUnreachable",
    "multis_of",
]


_log = logging.getLogger(__name__)
# kazoo reports every attempt to connect; this module says what matters of it.
_kazoo_log = logging.getLogger("kazoo")
_kazoo_log.setLevel(logging.ERROR)

_CONNECT_LOG_S = 5.0
_CLOSE_S = 3.0


class SessionState(enum.Enum):
    """The state of the session."""

    #: Requests are answered. After SUSPENDED, every watch is gone: read again, with watches.
    CONNECTED = "connected"
    #: The connection broke; the session may live on. Decide nothing, serve what needs no decision.
    SUSPENDED = "suspended"
    #: The session expired: ephemeral znodes are gone. A new session comes by itself, as CONNECTED.
    LOST = "lost"


_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


@dataclass(frozen=True, slots=True)
class SessionStateChanged:
    """The session's state changed. `session_id` tells whether a CONNECTED is the same session as before."""

    state: SessionState
    session_id: int


@dataclass(frozen=True, slots=True)
class WatchFired:
    """What is at `path` changed (content, existence or children): the watch is used up, read again."""

    path: str


@dataclass(frozen=True, slots=True)
class TreeChanged:
    """The znode at `path`, in a tree that is watched, was created, changed or deleted; the watch stays."""

    path: str


ZooKeeperEvent: TypeAlias = SessionStateChanged | WatchFired | TreeChanged


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as read. `czxid` is the transaction that created it, `version` its zkVersion.

    `children_count` and `written_at_ms` (the clock of ZooKeeper's leader) are told by `multi_read` alone.
    """

    path: str
    data: bytes
    version: int
    czxid: int
    ephemeral_owner: int = 0
    children_count: int = 0
    written_at_ms: int = 0


@dataclass(slots=True)
class SessionCounts:
    """How a process has fared with ZooKeeper so far; for metrics."""

    request_s: Distribution = field(default_factory=Distribution)
    connections_lost: int = 0
    sessions_expired: int = 0
    nonsense: int = 0
    """Reads of a watched setting that found what is none; see `WatchedZnode`."""


class ZooKeeperSession:
    """One session. Mains open it first, by `connect`, and close it last.

    `events` delivers session states and watches, in order, on the loop. It needs no bound: a watch
    fires once for each read that set it. One task of the shell reads it, from the time of `connect`.
    Every method that talks to ZooKeeper raises ConnectionLost or SessionExpired, beside what it names;
    while the session is not CONNECTED it does so at once, and nothing was sent. From `ensure_cluster_id` on
    there is none with another cluster (`cluster_identity`): the session is LOST for good then, and `refused`.
    """

    def __init__(self, hosts: str, session_timeout_ms: int, security: ZooKeeperSecurity = PLAIN) -> None:
        """For `connect`; a session that is not connected yet."""
        self._addresses, slash, chroot = hosts.partition("/")
        self._chroot = (slash + chroot).rstrip("/")
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._state = SessionState.SUSPENDED
        self._session_id = 0
        self._closing = False
        self._given_up = False
        self._acl = security.znode_acl
        self._encoded_acl = encode_acl(self._acl)
        self.events: asyncio.Queue[ZooKeeperEvent] = asyncio.Queue()
        self.followers: set[Callable[[ZooKeeperEvent], None]] = set()
        """Called with each event as well, before it is in `events`: for parts that see to one znode."""
        self.counts = SessionCounts()
        self._replies = Replies(self._loop, self._hand_over, self.counts.request_s.record)
        self.refused = asyncio.Event()
        """Set where this process belongs to another cluster than the ZooKeeper that answers; mains end it."""
        self.refusal: InconsistentClusterId | None = None
        """The reason, once `refused` is set."""
        # For ever, and never more than a quarter of a second apart: a failover waits for it.
        retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.25)
        self._trees: frozenset[str] = frozenset()
        self._client = impatient_client(
            self._addresses, session_timeout_ms, security, retry, _kazoo_log, self._on_any_watch,
            lambda refusal: self._hand_over(self._refused, refusal),
        )  # fmt: skip
        self._client.add_listener(self._on_kazoo_state)

    @classmethod
    async def connect(
        cls,
        hosts: str,
        *,
        session_timeout_ms: int = 6000,
        connect_timeout_ms: int = 30_000,
        security: ZooKeeperSecurity = PLAIN,
        creates_chroot: bool = True,
    ) -> "ZooKeeperSession":
        """Open a session with `host:port[,host:port…][/chroot]`; the chroot is created where it is missing.

        Keeps trying, and logs the address every 5 s. Raises ZooKeeperUnreachable, whose message is fit to
        be printed as the one line with which a main exits, and NotPermitted where others own the chroot.
        """
        try:
            session = cls(hosts, session_timeout_ms, security)
        except ValueError as error:
            raise ZooKeeperUnreachable(f"{hosts!r} is no ZooKeeper address ({error})") from None
        deadline = session._loop.time() + connect_timeout_ms / 1000
        session._client.start_async()
        try:
            while not session._connected.is_set():
                left_s = deadline - session._loop.time()
                if left_s <= 0:
                    raise ZooKeeperUnreachable(session._why_unreachable(connect_timeout_ms))
                try:
                    await asyncio.wait_for(session._connected.wait(), min(left_s, _CONNECT_LOG_S))
                except TimeoutError:
                    why = session._failure("")
                    _log.warning("no ZooKeeper answers at %s yet; trying on%s", session._addresses, why)
            if session._chroot and creates_chroot:
                await session._ensure_chroot()
        except BaseException:
            await session.close()
            raise
        return session

    def _why_unreachable(self, after_ms: int) -> str:
        found = self._failure("start it, or give its address with --zookeeper")
        return f"no ZooKeeper answers at {self._addresses} within {after_ms} ms{found}"

    def _failure(self, otherwise: str) -> str:
        """What the last attempt to connect failed from, as the end of a sentence."""
        failure = self._client._connection.failure or otherwise
        return f"; {failure}" if failure else ""

    @property
    def addresses(self) -> str:
        """The servers, as they were given, without the chroot."""
        return self._addresses

    @property
    def state(self) -> SessionState:
        """The state as last delivered."""
        return self._state

    @property
    def session_id(self) -> int:
        """The id of the present session; Znode.ephemeral_owner of what it created."""
        return self._session_id

    @property
    def granted_timeout_ms(self) -> int:
        """The session timeout that ZooKeeper agreed to, by its own bounds; 0 while there is no session."""
        if self._state is SessionState.LOST:
            return 0
        granted: int = self._client._connection.granted_timeout_ms
        return granted

    @property
    def is_given_up(self) -> bool:
        """Whether `give_up` was called, and the loop does not know yet: it stood while others took over."""
        return self._given_up

    def give_up(self) -> None:
        """End the session from outside of the event loop, which hangs: its ephemeral znodes are gone at once.

        Any thread; does not wait. When the loop runs again, `events` delivers LOST, and CONNECTED for the
        session that kazoo has made meanwhile.
        """
        self._given_up = True
        self._client._call(EndSession(), IgnoredAnswer())

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        """Read a znode; NoNode where it is missing (a watch is then not set: use `exists`)."""
        request = serialization.GetData(self._absolute(path), self._on_kazoo_watch if watch else None)
        data, stat = await self._submit(request, path, writes=False)
        return Znode(path, data or b"", stat.version, stat.czxid, stat.ephemeralOwner)

    async def exists(self, path: str, *, watch: bool = False) -> Znode | None:
        """The znode with `data` empty, or None where it is missing. A watch holds both ways."""
        request = serialization.Exists(self._absolute(path), self._on_kazoo_watch if watch else None)
        stat = await self._submit(request, path, writes=False)
        if stat is None:
            return None
        return Znode(path, b"", stat.version, stat.czxid, stat.ephemeralOwner)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """The names of the children, sorted; NoNode."""
        request = serialization.GetChildren(self._absolute(path), self._on_kazoo_watch if watch else None)
        names: list[str] = await self._submit(request, path, writes=False)
        return sorted(names)

    async def sync(self) -> None:
        """Let the server that answers catch up: what this session reads next is not older than this call."""
        request = serialization.Sync(self._absolute("/"))
        await self._submit(request, "/", writes=False)

    async def children_and_changes(self, path: str, *, watch: bool = False) -> tuple[list[str], int]:
        """The names of the children, sorted, and how often any was created or deleted (cversion); NoNode.

        A child that went and came again between two reads shows in the second number only.
        """
        request = serialization.GetChildren2(self._absolute(path), self._on_kazoo_watch if watch else None)
        names, stat = await self._submit(request, path, writes=False)
        return sorted(names), stat.cversion

    async def watch_tree(self, path: str) -> None:
        """Deliver TreeChanged for every change of this znode and of all below it, until the connection ends.

        So it is called again whenever the session is CONNECTED, and what it is about is read again after
        it: what changed while there was no connection is told by nobody. Needs ZooKeeper 3.6.
        """
        self._trees |= {path}
        await self._submit(AddTreeWatch(path, self._chroot), path, writes=False)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> Znode:
        """Create a znode and return it, with its czxid; NodeExists, NoNode (no parent)."""
        flags = 1 if ephemeral else 0
        request = serialization.Create2(self._absolute(path), data, self._acl, flags)
        _, stat = await self._submit(request, path, writes=True)
        return Znode(path, data, stat.version, stat.czxid, stat.ephemeralOwner)

    async def ensure_path(self, path: str) -> None:
        """Make sure that a persistent znode and its parents exist, empty where they are new."""
        if await self.exists(path) is not None:
            return
        names = path.strip("/").split("/")
        for parent in itertools.accumulate(names, lambda above, name: f"{above}/{name}", initial=""):
            if parent and await self.exists(parent) is None:
                try:
                    await self.create(parent, b"")
                except NodeExists:
                    continue

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the content if the version matches; the new version. BadVersion, NoNode."""
        request = serialization.SetData(self._absolute(path), data, version)
        stat = await self._submit(request, path, writes=True)
        new_version: int = stat.version
        return new_version

    async def delete(self, path: str, version: int = -1) -> None:
        """Delete a znode; BadVersion, NoNode, NotEmpty."""
        await self._submit(serialization.Delete(self._absolute(path), version), path, writes=True)

    async def get_access(self, path: str) -> ZnodeAccess:
        """Who may use a znode; NoNode, NotPermitted (this process may not even know)."""
        entries, stat = await self._submit(serialization.GetACL(self._absolute(path)), path, writes=False)
        return ZnodeAccess(acl_of(entries), stat.ephemeralOwner != 0, stat.numChildren)

    async def set_acl(self, path: str, acl: Acl) -> None:
        """Replace the ACL of a znode; NoNode, NotPermitted (it may not be administered)."""
        await self._submit(serialization.SetACL(self._absolute(path), acl, -1), path, writes=True)

    def submit_multi(self, operations: Sequence[Operation]) -> asyncio.Future[tuple[int, ...]]:
        """Send a multi now, and have its result later: this is how several are pipelined.

        ZooKeeper applies them in the order of the calls. The result is the version after each operation:
        0 for Create, the new one for SetData, the checked one for Check, -1 for Delete. Where any operation
        fails, nothing is applied, and the future raises the typed error of the operation that did.
        """
        assert 0 < len(operations) <= MAX_MULTI_OPERATIONS, len(operations)
        assert sum(operation.size_bytes for operation in operations) <= MAX_PACKET_BYTES
        outcome: asyncio.Future[tuple[int, ...]] = self._loop.create_future()
        request = MultiRequest(tuple(operations), self._chroot, self._encoded_acl)
        reply = self._submit(request, operations[0].path, writes=True)
        reply.add_done_callback(partial(settle_multi, request.operations, outcome))
        return outcome

    async def multi(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """Apply all or nothing; as `submit_multi`, awaited."""
        return await self.submit_multi(operations)

    async def multi_read(self, paths: Iterable[str]) -> dict[str, Znode]:
        """Read any number of znodes in few round trips (multiRead, opcode 22); missing ones are absent.

        Not one snapshot: each thousand is read at one moment, and they follow each other. No watches.
        """
        found = {}
        for path, result in await self._read_many(MultiReadRequest, paths):
            found[path] = Znode(
                path,
                result.data,
                result.version,
                result.czxid,
                result.ephemeral_owner,
                result.children_count,
                result.written_at_ms,
            )
        return found

    async def multi_children(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """The names of the children of any number of znodes, sorted; as `multi_read`."""
        return {path: sorted(names) for path, names in await self._read_many(MultiChildrenRequest, paths)}

    async def _read_many(
        self, kind: type[MultiReadRequest | MultiChildrenRequest], paths: Iterable[str]
    ) -> list[tuple[str, Any]]:
        """What each of these that exists answers, in their order."""
        pending = iter(paths)
        chunks = []
        while chunk := list(itertools.islice(pending, MAX_MULTI_OPERATIONS)):
            chunks.append((chunk, self._submit(kind(chunk, self._chroot), chunk[0], writes=False)))
        found = []
        # Gathered, so that no reply is left behind with an error that nobody looked at.
        for (chunk, _), results in zip(chunks, await asyncio.gather(*(r for _, r in chunks)), strict=True):
            for path, result in zip(chunk, results, strict=True):
                if not isinstance(result, OperationFailed):
                    found.append((path, result))
                elif not isinstance(error := typed_error(result.error, path), NoNode):
                    raise error
        return found

    async def ensure_cluster_id(self, known: Collection[str] = ()) -> str:
        """The id of the cluster that this process belongs to from here on: the one that is found, or, where
        there is none, a new one. Mains call it before they read or write anything.

        `known`: the ids of clusters that the process belongs to already, by its data; where one of these is
        not found, nothing is written. Also creates `cluster_znodes.PARENTS`. Raises InconsistentClusterId,
        ZnodeGarbage.
        """
        found = await self._cluster_id()
        check_cluster_id(found, known, self._addresses)
        for parent in cluster_znodes.PARENTS:
            await self.ensure_path(parent)
        path = cluster_znodes.ClusterIdZnode.path()
        if not found:
            with contextlib.suppress(NodeExists):
                await self.create(path, cluster_znodes.ClusterIdZnode(uuid.uuid4().hex).encode())
            found = await self._cluster_id()
        self._client._connection.member_session_id = self._session_id
        self._client._connection.membership = ClusterMembership(found, self._absolute(path))
        # The session may have been replaced since that was read; from here on it is compared first.
        check_cluster_id(await self._cluster_id(), (found,), self._addresses)
        return found

    async def _cluster_id(self) -> str:
        try:
            return cluster_id_in((await self.get(cluster_znodes.ClusterIdZnode.path())).data)
        except NoNode:
            return ""

    async def close(self) -> None:
        """End the session: its ephemeral znodes are gone at once. Never raises; may be called twice."""
        if self._closing:
            return
        self._closing = True
        closed = asyncio.Event()
        # kazoo joins its threads, for up to 10 s where ZooKeeper is stuck. A daemon thread waits for
        # them, so that they can hold up neither the loop nor the end of the process.
        threading.Thread(target=self._close_client, args=(closed,), name="zk-close", daemon=True).start()
        try:
            await asyncio.wait_for(closed.wait(), _CLOSE_S)
        except TimeoutError:
            _log.warning("ZooKeeper does not confirm the end of the session; it will expire by itself")

    def _close_client(self, closed: asyncio.Event) -> None:
        try:
            self._client.stop()
            self._client.close()
        except (KazooException, OSError, AttributeError) as error:
            # AttributeError: kazoo's own socket pair, where it never started.
            _log.debug("while closing the session: %s", error)
        except Exception:  # noqa: BLE001 - the top of a thread; kazoo raises bare exceptions in close()
            _log.exception("while closing the session")
        self._hand_over(closed.set)

    async def _ensure_chroot(self) -> None:
        chroot, self._chroot = self._chroot, ""
        await self.ensure_path(chroot)
        self._chroot = chroot

    def _absolute(self, path: str) -> str:
        assert path.startswith("/"), path
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _submit(self, request: Any, path: str, *, writes: bool) -> "asyncio.Future[Any]":
        """Queue a request for kazoo's connection thread; the future has the response, or a typed error."""
        error = self._error_now()
        if error is not None:
            failed = self._loop.create_future()
            failed.set_exception(error)
            return failed
        reply = self._replies.expect(path, writes=writes)
        self._client._call(request, reply)
        return reply.future

    def _error_now(self) -> ZooKeeperError | None:
        """The error of any request at this moment; None if one can be sent."""
        if self._closing:
            return ConnectionLost("the session is closed", outcome_unknown=False)
        if self._state is SessionState.LOST:
            return self.refusal or SessionExpired("the ZooKeeper session expired")
        if self._state is SessionState.SUSPENDED:
            return ConnectionLost(f"no connection to ZooKeeper at {self._addresses}", outcome_unknown=False)
        return None

    def _hand_over(self, callback: Any, *arguments: Any) -> None:
        """From kazoo's threads to the loop; the loop may be gone when the process is ending."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            return

    def _on_kazoo_watch(self, event: WatchedEvent) -> None:
        # NONE only says that the connection broke and took the watches with it; the state says so too.
        if event.type != EventType.NONE:
            self._hand_over(self._deliver, WatchFired(event.path[len(self._chroot) :] or "/"))

    def _on_any_watch(self, path: str) -> None:
        """Called on kazoo's connection thread."""
        below = path[len(self._chroot) :] or "/"
        if any(below == tree or below.startswith(tree + "/") for tree in self._trees):
            self._hand_over(self._deliver, TreeChanged(below))

    def _refused(self, refusal: InconsistentClusterId) -> None:
        if self._closing:
            return
        _log.critical("%s", refusal)
        self.refusal = refusal
        self._state_arrived(SessionState.LOST, 0)
        self.refused.set()

    def _on_kazoo_state(self, state: str) -> None:
        self._hand_over(self._state_arrived, _STATES[state], self._client._session_id or 0)

    def _state_arrived(self, state: SessionState, session_id: int) -> None:
        if self._closing or state is self._state is SessionState.LOST:
            return
        if self._state is SessionState.CONNECTED:
            self.counts.connections_lost += 1
        self.counts.sessions_expired += state is SessionState.LOST
        self._given_up = self._given_up and state is not SessionState.LOST
        self._state = state
        if state is SessionState.CONNECTED:
            self._session_id = session_id
            self._connected.set()
        else:
            # kazoo fails what is under way when the connection breaks, and keeps what it is given between
            # that and this news until there is a connection again.
            self._replies.lose(SessionExpiredError() if state is SessionState.LOST else ConnectionLoss())
        _log.log(
            logging.INFO if state is SessionState.CONNECTED else logging.WARNING,
            "ZooKeeper session %#x with %s is %s",
            *(self._session_id, self._addresses, state.value),
        )
        self._deliver(SessionStateChanged(state, self._session_id))

    def _deliver(self, event: ZooKeeperEvent) -> None:
        for follower in tuple(self.followers):
            follower(event)
        self.events.put_nowait(event)
