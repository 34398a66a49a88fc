"""How a process secures what it has in ZooKeeper: TLS, the credentials that it shows, the ACL that it writes.

All processes of a cluster show the same credentials, since each of them changes znodes that others have
created. Certificates cannot take their place: ZooKeeper knows a client by the subject of its certificate, and
the processes have a certificate each. So certificates say who may connect, and credentials who may change
what (docs/zookeeper-security.md).
"""

import base64
import enum
import hashlib
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hightide_runtime.errors import StartupError
from hightide_runtime.zookeeper.acls import ALL, OPEN_ACL, Acl, Identity, acl_of
from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls

__all__ = ["PLAIN", "Credential", "ZnodeAcl", "ZooKeeperSecurity", "read_credentials"]

#: Two while they are replaced; ZooKeeper keeps all of them with each znode.
CREDENTIALS_MAX: Final = 4
_FILE_BYTES_MAX: Final = 4096


class ZnodeAcl(enum.StrEnum):
    """Who may change the znodes that a process creates."""

    #: Anyone who can reach ZooKeeper.
    OPEN = "open"
    #: Nobody but who shows the credentials of the cluster; others cannot read them either.
    CREATOR = "creator"


@dataclass(frozen=True, slots=True)
class Credential:
    """A user and a password, for ZooKeeper's scheme `digest`."""

    user: str
    password: str = field(repr=False)

    @property
    def text(self) -> str:
        """user:password, which ZooKeeper is shown. Never log it."""
        return f"{self.user}:{self.password}"

    @property
    def identity(self) -> Identity:
        """How ACLs name it: ZooKeeper hashes what it is shown with SHA-1, as this does."""
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).digest()
        return Identity("digest", f"{self.user}:{base64.b64encode(digest).decode()}")


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """What a session needs to know of it."""

    tls: ZooKeeperTls | None = None
    """None: a plaintext connection."""
    credentials: tuple[Credential, ...] = ()
    acl: ZnodeAcl = ZnodeAcl.OPEN
    credentials_file: Path | None = None
    """Where the credentials come from, for messages."""

    @classmethod
    def of(
        cls, tls: ZooKeeperTls | None, credentials_file: Path | None, acl: ZnodeAcl = ZnodeAcl.OPEN
    ) -> "ZooKeeperSecurity":
        """Read the files. Raises StartupError where one cannot be used."""
        if tls is not None:
            tls.check()
        credentials = () if credentials_file is None else read_credentials(credentials_file)
        return cls(tls, credentials, acl, credentials_file)

    @property
    def identities(self) -> frozenset[Identity]:
        """How ZooKeeper knows this process."""
        return frozenset(credential.identity for credential in self.credentials)

    @property
    def znode_acl(self) -> Acl:
        """The ACL of each znode that this process creates.

        An open one also names the credentials: from the znodes of live processes `hightide zk secure` sees
        whom it would lock out.
        """
        own = tuple((ALL, identity) for identity in self.identities)
        return acl_of(own if self.acl is ZnodeAcl.CREATOR else (*OPEN_ACL, *own))


PLAIN: Final = ZooKeeperSecurity()
"""Neither TLS nor credentials."""


def read_credentials(path: Path) -> tuple[Credential, ...]:
    """The credentials in a file, one `user:password` a line. Raises StartupError, which names the file.

    The second line is there while credentials are replaced: a process shows all of them, and writes an ACL
    that names all of them.
    """
    try:
        mode = path.stat().st_mode
        content = path.read_bytes()[: _FILE_BYTES_MAX + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise StartupError(f"the ZooKeeper credentials in {path} cannot be read: {reason}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StartupError(
            f"others may read the ZooKeeper credentials in {path} (mode {stat.S_IMODE(mode):04o}); "
            f"run `chmod 600 {path}`"
        )
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    if not lines or len(lines) > CREDENTIALS_MAX or len(content) > _FILE_BYTES_MAX:
        raise StartupError(
            f"{path} has to hold ZooKeeper credentials, 1 to {CREDENTIALS_MAX} lines of user:password"
        )
    found = []
    for number, line in enumerate(lines, 1):
        user, colon, password = line.partition(":")
        if not colon or not user or not password:
            raise StartupError(f"line {number} of the ZooKeeper credentials in {path} is not user:password")
        found.append(Credential(user, password))
    return tuple(found)
