"""What a process checks of the ACLs in ZooKeeper before it does anything there: that it may do its work, and
that strangers may not, if its cluster wants that."""

import asyncio
from collections.abc import Iterator
from typing import Final

from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import PARENTS, ClusterIdZnode, ControllerEpochZnode
from hightide_runtime.zookeeper.acls import is_open
from hightide_runtime.zookeeper.errors import (
    ConnectionLost,
    NoNode,
    NotPermitted,
    SessionExpired,
    ZooKeeperUnreachable,
)
from hightide_runtime.zookeeper.security import ZnodeAcl, ZooKeeperSecurity
from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["open_session"]

# Not what comes and goes: while processes are restarted one by one, those that still run with `open` create
# such znodes with an open ACL.
_LASTING: Final = (*PARENTS, ClusterIdZnode.path(), ControllerEpochZnode.path())
_NAMED_MAX: Final = 3


async def open_session(
    hosts: str,
    security: ZooKeeperSecurity,
    *,
    session_timeout_ms: int,
    connect_timeout_ms: int,
    creates_chroot: bool = True,
) -> ZooKeeperSession:
    """Open the session of a process, and check what it may do with it. Its caller closes it. Raises
    StartupError and ZooKeeperUnreachable, whose messages are the one line with which a main exits."""
    try:
        session = await ZooKeeperSession.connect(
            hosts,
            session_timeout_ms=session_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            security=security,
            creates_chroot=creates_chroot,
        )
    except NotPermitted as error:
        raise _not_permitted(error.path, hosts, security) from error
    try:
        await _check_access(session, security)
    except (ConnectionLost, SessionExpired) as error:
        await session.close()
        raise ZooKeeperUnreachable(f"the session with ZooKeeper at {hosts} broke at once: {error}") from error
    except BaseException:
        await session.close()
        raise
    return session


async def _check_access(session: ZooKeeperSession, security: ZooKeeperSecurity) -> None:
    """Check the znodes from which all others hang: the chroot, the parents, the cluster's id and epoch. Some
    20 requests, sent together. Raises StartupError, ConnectionLost, SessionExpired."""
    paths = sorted({above for path in _LASTING for above in _down_to(path)})
    results = await asyncio.gather(*map(session.get_access, paths), return_exceptions=True)
    open_paths = []
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, NotPermitted):
            raise _not_permitted(path, session.addresses, security) from result
        if isinstance(result, BaseException):
            if not isinstance(result, NoNode):
                raise result
        elif is_open(result.acl):
            open_paths.append(path)
    if open_paths and security.acl is ZnodeAcl.CREATOR:
        more = len(open_paths) - _NAMED_MAX
        named = ", ".join(open_paths[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        raise StartupError(
            f"anyone may change {named} in ZooKeeper at {session.addresses}, and --zookeeper-acl creator "
            "wants that only the cluster's credentials can; run `hightide zk secure --execute` first "
            "(docs/zookeeper-security.md)"
        )


def _not_permitted(path: str, addresses: str, security: ZooKeeperSecurity) -> StartupError:
    """The error of a process that may not use its cluster's znodes."""
    where = f"ZooKeeper at {addresses} does not let this process use {path}"
    if not security.credentials:
        return StartupError(
            f"{where}, which has an ACL; give the credentials of the cluster with "
            "--zookeeper-credentials-file"
        )
    users = " and ".join(sorted({credential.user for credential in security.credentials}))
    return StartupError(
        f"{where}: the credentials of {users} in {security.credentials_file} are not those of the cluster; "
        "give the file that its other processes have with --zookeeper-credentials-file"
    )


def _down_to(path: str) -> Iterator[str]:
    """The path, and all above it."""
    yield "/"
    names = path.strip("/").split("/")
    for depth in range(1, len(names) + 1):
        yield "/" + "/".join(names[:depth])
