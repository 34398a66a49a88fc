"""The typed errors of ZooKeeper. kazoo's own exceptions never leave `hightide_runtime`."""

from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from kazoo import exceptions as kazoo_errors

from hightide_runtime.errors import reason_of


class ZooKeeperError(Exception):
    """Any answer of ZooKeeper, or of the connection to it, that is no result."""


class NodeExists(ZooKeeperError):
    """A create failed because the znode exists. `index` is the operation's place in its multi, else 0."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"znode {path} exists already")
        self.path = path
        self.index = index


class NoNode(ZooKeeperError):
    """The znode, or the parent of one to be created, does not exist. `index`: its place in its multi."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"znode {path}, or its parent, does not exist")
        self.path = path
        self.index = index


class BadVersion(ZooKeeperError):
    """A condition failed: the znode has another zkVersion. Nothing of the multi was applied.

    `index` is the place of the failing operation in its multi, else 0. If it is the check of
    /controller_epoch, another controller was elected: resign.
    """

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"znode {path} has another version than expected")
        self.path = path
        self.index = index


class NotEmpty(ZooKeeperError):
    """A delete found children below the znode."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"znode {path} has children")
        self.path = path
        self.index = index


class ConnectionLost(ZooKeeperError):
    """The connection broke. `outcome_unknown`: a write was on its way and may have been applied or not.

    The caller waits for the session to be CONNECTED again, reads, and decides anew.
    """

    def __init__(self, message: str, *, outcome_unknown: bool) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class SessionExpired(ZooKeeperError):
    """The session is over: its ephemeral znodes are gone, and everything that was held by them."""


class InconsistentClusterId(SessionExpired):
    """The ZooKeeper that answers is not that of the process's cluster: see `cluster_identity`.

    Nothing was read or written there. The session has ended for good, and the process ends with it.
    """

    code: Final = ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID

    def __init__(self, address: str, ours: str, found: str) -> None:
        """`address`: the server that answered; `found`: the id there, empty if there is none."""
        holds = f"is of cluster {found}" if found else "holds no cluster id (/cluster/id)"
        super().__init__(
            f"{reason_of(self.code)}: ZooKeeper at {address} {holds}, and this process belongs to cluster "
            f"{ours}; give the address of that cluster's ZooKeeper with --zookeeper, or restore its data, "
            "and start the process again"
        )
        self.address = address
        self.ours = ours
        self.found = found


class ZooKeeperRefused(ZooKeeperError):
    """ZooKeeper refused for another reason (an ACL, a quota, a bad argument)."""


class NotPermitted(ZooKeeperRefused):
    """The ACL of a znode, or of its parent, does not let this process do that."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"ZooKeeper does not let this process use {path}: its ACL, or that of its parent, names others; "
            "start the process with the credentials of the cluster (--zookeeper-credentials-file)"
        )
        self.path = path


class ZooKeeperUnreachable(ZooKeeperError):
    """No connection within the time given at start. The message names the addresses."""


def typed_error(
    error: BaseException | int, path: str, *, index: int = 0, writes: bool = False
) -> ZooKeeperError:
    """The typed error for one of kazoo's, or for an error number of ZooKeeper. For the session only."""
    if isinstance(error, int):
        known = kazoo_errors.EXCEPTIONS.get(error)
        error = known() if known else kazoo_errors.ZookeeperError(f"error {error}")
    match error:
        case kazoo_errors.NoNodeError():
            return NoNode(path, index)
        case kazoo_errors.NodeExistsError():
            return NodeExists(path, index)
        case kazoo_errors.BadVersionError():
            return BadVersion(path, index)
        case kazoo_errors.NotEmptyError():
            return NotEmpty(path, index)
        case kazoo_errors.NoAuthError():
            return NotPermitted(path)
        # Before SessionExpiredError, of which kazoo makes ConnectionClosedError a kind.
        case kazoo_errors.ConnectionLoss() | kazoo_errors.ConnectionClosedError():
            unknown = "; it may have been applied or not" if writes else ""
            return ConnectionLost(
                f"the connection to ZooKeeper broke during a request on {path}{unknown}",
                outcome_unknown=writes,
            )
        # A server that has ended it does not know it any more; for a moment it still takes its requests.
        case kazoo_errors.SessionExpiredError() | kazoo_errors.UnknownSessionError():
            return SessionExpired(f"the ZooKeeper session expired before a request on {path} was taken")
        case kazoo_errors.SessionMovedError():
            return ConnectionLost(
                f"the ZooKeeper session went on at another server before a request on {path} was taken",
                outcome_unknown=False,
            )
        case _:
            return ZooKeeperRefused(f"ZooKeeper refused a request on {path}: {error!r}")
