"""The ACLs that are in force, as a process asks them for each call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.acls import AclTable, Decision
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.acls_znode import CLUSTER_NAME, AclsZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession
from hightide_runtime.zookeeper.watched_znode import WatchedZnode

__all__ = ["Authoriser"]

_log = logging.getLogger(__name__)
_PROCESSES: Final = frozenset({Role.BROKER, Role.CONTROLLER, Role.COORDINATOR})
"""What these may do, the rules of methods say. ACLs are about clients."""


class Authoriser:
    """Decides what callers may do. One for each process with `--authorization acls`; belongs to the event
    loop's thread.

    Until the ACLs were read for the first time, nobody may do anything but super users and the processes of
    the cluster. While ZooKeeper is away, what was read last is in force.
    """

    def __init__(self, super_users: Iterable[str] = ()) -> None:
        """`super_users`: principals, as text."""
        self._super_users = frozenset(super_users)
        self._table = AclTable((), self._super_users)
        self._is_ready = False
        self._znode: WatchedZnode[AclsZnode] | None = None
        self.followers: list[Callable[[], None]] = []
        """Called after each change, for what is under way: parked fetches, streams of consumers."""

    def start(self, session: ZooKeeperSession) -> None:
        """Follow the ACLs of the cluster, until `close`."""
        self._znode = WatchedZnode(session, AclsZnode.path(), AclsZnode.decode, self._read)
        self._znode.start()

    async def close(self) -> None:
        """Stop following them."""
        if self._znode is not None:
            await self._znode.close()

    def _read(self, znode: AclsZnode | None) -> None:
        self.put(znode or AclsZnode())

    def put(self, znode: AclsZnode) -> None:
        """Let these be in force from here on."""
        if self._is_ready and znode.acls == self._table.acls:
            return
        self._table = AclTable(znode.acls, self._super_users)
        self._is_ready = True
        _log.info("%d ACLs are in force", len(znode.acls))
        for follower in tuple(self.followers):
            follower()

    def allows(self, principal: Principal, operation: str, resource_type: str, name: str) -> bool:
        """Whether the principal may do this, in the words of the rules of methods."""
        if principal.role in _PROCESSES:
            return True
        return self._table.decide(str(principal), operation, resource_type, name)

    def allows_call(self, principal: Principal, operation: str, resource_type: str, name: str) -> bool:
        """As `allows`, for a call as a whole. As in Kafka, who may create topics in the cluster may create
        each of them, and who may write to any topic may have a producer id."""
        if self.allows(principal, operation, resource_type, name):
            return True
        if (operation, resource_type) == ("create", "topic"):
            return self.allows(principal, "create", "cluster", CLUSTER_NAME)
        if operation == "idempotent_write":
            return self._table.decide_any(str(principal), "write", "topic")
        return False

    def allows_all(self, principal: Principal, operation: str, resource_type: str, prefix: str) -> bool:
        """Whether the principal may do this to everything whose name begins with the prefix."""
        if principal.role in _PROCESSES:
            return True
        return self._table.decide_all(str(principal), operation, resource_type, prefix)

    def explain(self, principal: str, operation: str, resource_type: str, name: str) -> Decision:
        """What is decided about a principal by its text, and why."""
        return self._table.explain(principal, operation, resource_type, name)

    def not_ready(self, principal: Principal) -> ServiceError | None:
        """The error for a caller of whom is not known yet what it may do; None if it is."""
        if self._is_ready or principal.role in _PROCESSES or str(principal) in self._super_users:
            return None
        return ServiceError(
            ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE,
            f"this process has not read the ACLs of the cluster yet ({AclsZnode.path()} in ZooKeeper), so it "
            "serves nobody but super users; try again",
        )
