"""Access control lists of znodes: who may read, change, delete and list each one.

ZooKeeper checks the list of the znode itself for reads and writes, and that of its *parent* for creating and
deleting it. Lists are not inherited: each znode gets one when it is created.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "ALL",
    "ANYONE",
    "OPEN_ACL",
    "Acl",
    "AclEntry",
    "Identity",
    "ZnodeAccess",
    "acl_of",
    "encode_acl",
    "is_open",
]

READ: Final = 1
ALL: Final = 31
_INT = struct.Struct("!i")


class Identity(NamedTuple):
    """Somebody whom ZooKeeper can know: `digest` and `user:hash`, or `world` and `anyone`."""

    scheme: str
    id: str


class AclEntry(NamedTuple):
    """What one identity may do. The names are kazoo's, which writes and reads such entries."""

    perms: int
    id: Identity


Acl: TypeAlias = tuple[AclEntry, ...]

ANYONE: Final = Identity("world", "anyone")
OPEN_ACL: Final[Acl] = (AclEntry(ALL, ANYONE),)


@dataclass(frozen=True, slots=True)
class ZnodeAccess:
    """Who may use a znode, and what a walk over the znodes needs beside it."""

    acl: Acl
    is_ephemeral: bool
    children_count: int


def acl_of(entries: Iterable[tuple[int, tuple[str, str]]]) -> Acl:
    """The list as kazoo reads it, in one order, so that two lists of the same entries are equal."""
    return tuple(sorted(AclEntry(permissions, Identity(*identity)) for permissions, identity in entries))


def is_open(acl: Acl) -> bool:
    """Whether anyone may do more than read."""
    return any(entry.id == ANYONE and entry.perms & ~READ for entry in acl)


def encode_acl(acl: Acl) -> bytes:
    """The list as it stands in a request."""
    parts = [_INT.pack(len(acl))]
    for permissions, identity in acl:
        parts.append(_INT.pack(permissions))
        for text in identity:
            encoded = text.encode()
            parts += (_INT.pack(len(encoded)), encoded)
    return b"".join(parts)
