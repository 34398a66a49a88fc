"""A walk over all znodes of a cluster that looks at their ACLs, and sets those that are not as wanted.

It keeps no notes: a walk that was interrupted is repeated, and finds what is done. It holds the paths of one
level of the tree in memory, and has at most some hundreds of requests under way.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hightide_runtime.znodes.paths import TOP_LEVEL
from hightide_runtime.zookeeper.acls import Acl, ZnodeAccess, is_open
from hightide_runtime.zookeeper.security import ZooKeeperSecurity
from hightide_runtime.zookeeper.session import NoNode, ZooKeeperSession

Result = TypeVar("Result")

_AT_ONCE: Final = 250


@dataclass(slots=True)
class Secured:
    """What a walk found. `to_change` and `open` count what was so when the walk came there."""

    znodes: int = 0
    to_change: int = 0
    open: int = 0
    locked_out: list[str] = field(default_factory=list)
    """Ephemeral znodes, so of live processes, whose creator does not show the wanted credentials."""

    def count(self, accesses: Mapping[str, ZnodeAccess], wanted: ZooKeeperSecurity) -> list[str]:
        """Take these in. The paths of those that have another ACL than wanted."""
        self.znodes += len(accesses)
        self.open += sum(is_open(each.acl) for each in accesses.values())
        self.locked_out += [
            path
            for path, each in accesses.items()
            if each.is_ephemeral and not any(entry.id in wanted.identities for entry in each.acl)
        ]
        changing = [path for path, each in accesses.items() if each.acl != wanted.znode_acl]
        self.to_change += len(changing)
        return changing


async def secure_znodes(session: ZooKeeperSession, wanted: ZooKeeperSecurity, *, execute: bool) -> Secured:
    """Walk from the chroot down. With `execute`, each znode gets `wanted.znode_acl`. What is beside the
    cluster's znodes, in a ZooKeeper without a chroot, is left alone. Raises NotPermitted, ConnectionLost,
    SessionExpired."""
    found = Secured()
    level = ["/"]
    while level:
        below: list[str] = []
        for begin in range(0, len(level), _AT_ONCE):
            accesses = await _of_each(session.get_access, level[begin : begin + _AT_ONCE])
            changing = found.count(accesses, wanted)
            if execute:
                await asyncio.gather(*(_set_acl(session, path, wanted.znode_acl) for path in changing))
            below += await _children(
                session, [path for path, each in accesses.items() if each.children_count]
            )
        level = below
    return found


async def _children(session: ZooKeeperSession, parents: Sequence[str]) -> list[str]:
    below = await _of_each(session.children, parents)
    return [
        f"{parent.rstrip('/')}/{name}"
        for parent, names in below.items()
        for name in names
        if parent != "/" or f"/{name}" in TOP_LEVEL
    ]


async def _of_each(ask: Callable[[str], Awaitable[Result]], paths: Sequence[str]) -> dict[str, Result]:
    """What is answered about each of these; those that are gone are left out."""
    results = await asyncio.gather(*map(ask, paths), return_exceptions=True)
    found = {}
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, NoNode):
            continue
        if isinstance(result, BaseException):
            raise result
        found[path] = result
    return found


async def _set_acl(session: ZooKeeperSession, path: str, acl: Acl) -> None:
    with contextlib.suppress(NoNode):
        await session.set_acl(path, acl)
