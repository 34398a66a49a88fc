"""ZooKeeper in memory: one linearizable store with versions, multis, ephemerals and one-shot watches.

Rules of this file: an operation happens as a whole when it is delivered here, or not at all; that its
request or its answer may be lost on the way (so that the outcome is unknown to who asked) is the network's
affair (world.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
STATE = "/brokers/topics/tide/0/leaderAndISR"


def registration(broker_id: int) -> str:
    return f"/brokers/ids/{broker_id}"


def incarnation(broker_id: int) -> str:
    """Its version counts the lives of a broker."""
    return f"/brokers/incarnations/{broker_id}"


class Stored(NamedTuple):
    """What the leaderAndISR znode holds."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    eligible: tuple[int, ...] = ()
    recovered: tuple[tuple[int, int, int], ...] = ()
    """(broker, latest leader epoch, log end) of those that may have lost the end of their log."""
    unclean_epoch: int = 0

    @property
    def doubted(self) -> frozenset[int]:
        """Whose word counts for nothing until they have caught up."""
        return frozenset(each[0] for each in self.recovered)

    @property
    def trusted(self) -> frozenset[int]:
        """Who is to have all that is committed."""
        return frozenset({*self.isr, *self.eligible} - self.doubted)

    def without(self, member: int, epoch: int, end_offset: int) -> Stored:
        """What a broker writes that may have lost the end of its log (restart_checks.py): it leaves, and
        says what it has. The last member stays in the ISR in name."""
        isr = tuple(other for other in self.isr if other != member) or self.isr
        others = tuple(each for each in self.recovered if each[0] != member)
        return self._replace(
            leader=-1 if self.leader == member else self.leader,
            isr=isr,
            eligible=tuple(other for other in self.eligible if other != member),
            recovered=tuple(sorted((*others, (member, epoch, end_offset)))),
        )


@dataclass
class Znode:
    data: object
    version: int
    czxid: int
    mzxid: int
    session: int
    """The session that an ephemeral belongs to, 0 for a persistent one."""


ANY_VERSION = -1
"""What an operation names that shall not depend on the version."""


@dataclass(frozen=True)
class Check:
    path: str
    version: int


@dataclass(frozen=True)
class Create:
    path: str
    data: object
    session: int = 0


@dataclass(frozen=True)
class Put:
    path: str
    data: object
    version: int


@dataclass(frozen=True)
class Delete:
    path: str


Operation = Check | Create | Put | Delete


@dataclass(frozen=True)
class StateWrite:
    """One committed write of the leaderAndISR znode; the checkers read these."""

    writer: int
    before: Stored | None
    after: Stored
    version: int
    current_controller_epoch: int


class ZooKeeper:
    """The store. `notify(node, path)` is called for each watch that fires; who watches must ask again."""

    def __init__(self, notify: Callable[[int, str], None]) -> None:
        self._notify = notify
        self.nodes: dict[str, Znode] = {}
        self.zxid = 0
        self.live_sessions: set[int] = set()
        self._next_session = 1
        self._watches: dict[str, list[int]] = {}
        self.state_writes: list[StateWrite] = []
        self.multi((Create(CONTROLLER_EPOCH, 0),), writer=0)

    def open_session(self) -> int:
        session = self._next_session
        self._next_session += 1
        self.live_sessions.add(session)
        return session

    def expire(self, session: int) -> None:
        """The session ends and its ephemerals go, each in a transaction of its own."""
        self.live_sessions.discard(session)
        for path in [path for path, node in self.nodes.items() if node.session == session]:
            self.multi((Delete(path),), writer=0)

    def watch(self, path: str, node: int) -> None:
        watchers = self._watches.setdefault(path, [])
        if node not in watchers:
            watchers.append(node)

    def state(self) -> tuple[Stored, int, int] | None:
        """The leaderAndISR znode: what it holds, its version, the zxid of its last write."""
        node = self.nodes.get(STATE)
        if node is None:
            return None
        assert isinstance(node.data, Stored)
        return node.data, node.version, node.mzxid

    def brokers(self) -> tuple[tuple[int, int], ...]:
        """(broker id, broker epoch) of each registration."""
        return tuple((broker_id, node.czxid) for broker_id, node in self._registrations())

    def broker_sessions(self) -> tuple[tuple[int, int], ...]:
        """(broker id, session) of each registration."""
        return tuple((broker_id, node.session) for broker_id, node in self._registrations())

    def _registrations(self) -> list[tuple[int, Znode]]:
        prefix = "/brokers/ids/"
        found = [(path, node) for path, node in self.nodes.items() if path.startswith(prefix)]
        return sorted((int(path[len(prefix) :]), node) for path, node in found)

    def incarnations(self) -> tuple[tuple[int, int], ...]:
        """(broker id, incarnation) of each broker that ever started."""
        prefix = incarnation(0)[:-1]
        found = [(path, node) for path, node in self.nodes.items() if path.startswith(prefix)]
        return tuple(sorted((int(path[len(prefix) :]), node.version) for path, node in found))

    @property
    def controller_epoch(self) -> int:
        epoch = self.nodes[CONTROLLER_EPOCH].data
        assert isinstance(epoch, int)
        return epoch

    def multi(self, operations: tuple[Operation, ...], writer: int) -> Operation | None:
        """All or nothing; None where it committed, else the first operation that could not be done."""
        gone: set[str] = set()
        for operation in operations:
            if not self._possible(operation, gone):
                return operation
            if isinstance(operation, Delete):
                gone.add(operation.path)
        self.zxid += 1
        for operation in operations:
            self._apply(operation, writer)
        return None

    def _possible(self, operation: Operation, gone: set[str]) -> bool:
        node = None if operation.path in gone else self.nodes.get(operation.path)
        match operation:
            case Check(_, version) | Put(_, _, version):
                return node is not None and version in (ANY_VERSION, node.version)
            case Create(_, _, session):
                return node is None and (session == 0 or session in self.live_sessions)
            case Delete():
                return node is not None

    def _apply(self, operation: Operation, writer: int) -> None:
        before = self.nodes.get(operation.path)
        match operation:
            case Check():
                return
            case Create(path, data, session):
                self.nodes[path] = Znode(data, 0, self.zxid, self.zxid, session)
            case Put(path, data, _):
                assert before is not None
                self.nodes[path] = Znode(data, before.version + 1, before.czxid, self.zxid, before.session)
            case Delete(path):
                del self.nodes[path]
        if operation.path == STATE and not isinstance(operation, Delete):
            after = self.nodes[STATE]
            assert isinstance(after.data, Stored)
            old = before.data if before is not None else None
            assert old is None or isinstance(old, Stored)
            self.state_writes.append(
                StateWrite(writer, old, after.data, after.version, self.controller_epoch)
            )
        self._fire(operation.path)
        if operation.path.startswith("/brokers/ids/"):
            self._fire("/brokers/ids")

    def _fire(self, path: str) -> None:
        for node in self._watches.pop(path, []):
            self._notify(node, path)
