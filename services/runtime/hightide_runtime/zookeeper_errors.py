"""What can go wrong with ZooKeeper, typed. kazoo's own exceptions never leave `hightide_runtime`."""


class ZooKeeperError(Exception):
    """Anything that ZooKeeper, or the way to it, answers instead of a result."""


class NodeExists(ZooKeeperError):
    """A create found the znode there already. `index` is the operation's place in its multi, else 0."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"znode {path} exists already")
        self.path = path
        self.index = index


class NoNode(ZooKeeperError):
    """The znode, or the parent of one to be created, is not there. `index`: its place in the multi, else 0."""

    def __init__(self, path: str, index: int = 0) -> None:
        super().__init__(f"znode {path}, or its parent, does not exist")
        self.path = path
        self.index = index


class BadVersion(ZooKeeperError):
    """A condition did not hold: the znode has another zkVersion. Nothing of the multi was applied.

    `index` is the place of the failing operation in its multi, else 0. Where it is that of the check
    of /controller_epoch, another controller was elected: resign.
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
    """The session is over: ephemeral znodes are gone, and so is whatever was held by them."""


class ZooKeeperRefused(ZooKeeperError):
    """ZooKeeper refused for a reason that Hightide has no use for (ACLs, quota, a bad argument)."""


class ZooKeeperUnreachable(ZooKeeperError):
    """No connection within the time given at start. The message names the addresses."""
