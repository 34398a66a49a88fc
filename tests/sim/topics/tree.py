"""ZooKeeper as a tree of bytes: versions, multis, ephemerals, one-shot and tree watches.

Rules of this file: it takes the operations of hightide_runtime.zookeeper.session and raises its errors, so
that real shells run on it. What happens, happens as a whole and in order; what gets lost is the network's
affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    SetData,
    TreeChanged,
    WatchFired,
    Znode,
)

ROOT = "/"


@dataclass(frozen=True, slots=True)
class _Node:
    data: bytes
    version: int
    czxid: int
    owner: int
    """The session that an ephemeral belongs to, 0 for a persistent one."""
    child_changes: int = 0
    names: frozenset[str] = frozenset()
    """Of its children."""


@dataclass(frozen=True)
class Client:
    """One connection object of one life of a process; watches belong to it."""

    node_id: int
    number: int


Notify = Callable[[Client, WatchFired | TreeChanged], None]


@dataclass(frozen=True)
class Written:
    """One committed change of a znode; the checkers read these. `after` None: deleted."""

    writer: int
    path: str
    before: bytes | None
    after: bytes | None
    version: int


class Tree:
    """The store."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._nodes = {ROOT: _Node(b"", 0, 0, 0)}
        self.zxid = 0
        self.live_sessions: set[int] = set()
        self._next_session = 1
        self._watches: dict[str, list[Client]] = {}
        self._child_watches: dict[str, list[Client]] = {}
        self._tree_watches: dict[Client, set[str]] = {}
        self.written: list[Written] = []

    # --- sessions and watches --------------------------------------------------------------------

    def open_session(self) -> int:
        session = self._next_session
        self._next_session += 1
        self.live_sessions.add(session)
        return session

    def expire(self, session: int) -> None:
        """The session ends and its ephemerals go."""
        self.live_sessions.discard(session)
        for path in [path for path, node in self._nodes.items() if node.owner == session]:
            self._multi((Delete(path, -1),), 0, 0)

    def forget(self, client: Client) -> None:
        """The connection is gone, and the watches with it."""
        for watches in (self._watches, self._child_watches):
            for clients in watches.values():
                if client in clients:
                    clients.remove(client)
        self._tree_watches.pop(client, None)

    def watch_tree(self, client: Client, path: str) -> None:
        self._tree_watches.setdefault(client, set()).add(path)

    # --- reading ---------------------------------------------------------------------------------

    def read(self, path: str) -> Znode | None:
        node = self._nodes.get(path)
        if node is None:
            return None
        return Znode(path, node.data, node.version, node.czxid, node.owner, len(node.names))

    def get(self, client: Client, path: str, watch: bool) -> Znode:
        found = self.read(path)
        if found is None:
            raise NoNode(path)
        if watch:
            _add(self._watches, path, client)
        return found

    def exists(self, client: Client, path: str, watch: bool) -> Znode | None:
        if watch:
            _add(self._watches, path, client)
        return self.read(path)

    def children(self, path: str) -> list[str]:
        """The names of the children, for the schedules and checkers."""
        node = self._nodes.get(path)
        return [] if node is None else sorted(node.names)

    def children_and_changes(self, client: Client, path: str, watch: bool) -> tuple[list[str], int]:
        if path not in self._nodes:
            raise NoNode(path)
        if watch:
            _add(self._child_watches, path, client)
        return self.children(path), self._nodes[path].child_changes

    # --- writing ---------------------------------------------------------------------------------

    def multi(self, session: int, operations: Sequence[Operation], writer: int) -> tuple[int, ...]:
        """All or nothing: the version after each operation. Raises the error of the first that fails."""
        if session not in self.live_sessions:
            raise SessionExpired("the session has expired")
        return self._multi(operations, session, writer)

    def by_hand(self, *operations: Operation) -> None:
        """What an operator does in a ZooKeeper shell."""
        for operation in operations:
            self._multi((operation,), 0, 0)

    def _multi(self, operations: Sequence[Operation], session: int, writer: int) -> tuple[int, ...]:
        before = dict(self._nodes)
        changed: list[tuple[str, str]] = []
        self.zxid += 1
        try:
            versions = tuple(
                self._apply(operation, index, session, changed) for index, operation in enumerate(operations)
            )
        except (BadVersion, NoNode, NodeExists, NotEmpty):
            self._nodes = before
            raise
        for path, _ in changed:
            old, new = before.get(path), self._nodes.get(path)
            self.written.append(
                Written(
                    writer,
                    path,
                    None if old is None else old.data,
                    None if new is None else new.data,
                    -1 if new is None else new.version,
                )
            )
        for path, kind in changed:
            self._fire(path, kind)
        return versions

    def _apply(self, operation: Operation, index: int, session: int, changed: list[tuple[str, str]]) -> int:
        path = operation.path
        node = self._nodes.get(path)
        above = path.rpartition("/")[0] or ROOT
        match operation:
            case Create(data=data, ephemeral=ephemeral):
                if above not in self._nodes:
                    raise NoNode(path, index)
                if node is not None:
                    raise NodeExists(path, index)
                self._nodes[path] = _Node(data, 0, self.zxid, session if ephemeral else 0)
                parent = self._nodes[above]
                self._nodes[above] = replace(
                    parent,
                    child_changes=parent.child_changes + 1,
                    names=parent.names | {path.rpartition("/")[2]},
                )
                changed.append((path, "created"))
                return 0
            case Check(version=version) | SetData(version=version) | Delete(version=version):
                if node is None:
                    raise NoNode(path, index)
                if version not in (-1, node.version):
                    raise BadVersion(path, index)
        assert node is not None
        if isinstance(operation, SetData):
            self._nodes[path] = replace(node, data=operation.data, version=node.version + 1)
            changed.append((path, "set"))
            return node.version + 1
        if isinstance(operation, Delete):
            if node.names:
                raise NotEmpty(path, index)
            del self._nodes[path]
            parent = self._nodes[above]
            self._nodes[above] = replace(
                parent,
                child_changes=parent.child_changes + 1,
                names=parent.names - {path.rpartition("/")[2]},
            )
            changed.append((path, "deleted"))
            return -1
        return node.version

    def _fire(self, path: str, kind: str) -> None:
        fired = dict.fromkeys(self._watches.pop(path, []))
        for client in fired:
            self._notify(client, WatchFired(path))
        if kind != "set":
            above = path.rpartition("/")[0] or ROOT
            for client in self._child_watches.pop(above, []):
                self._notify(client, WatchFired(above))
        if kind == "deleted":
            for client in self._child_watches.pop(path, []):
                if client not in fired:
                    self._notify(client, WatchFired(path))
        for client, trees in self._tree_watches.items():
            if any(path == tree or path.startswith(tree + "/") for tree in trees):
                self._notify(client, TreeChanged(path))


def _add(watches: dict[str, list[Client]], path: str, client: Client) -> None:
    clients = watches.setdefault(path, [])
    if client not in clients:
        clients.append(client)
