"""What becomes of the ACLs when some are added and others removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hightide_runtime.znodes.acls_znode import ACLS_BYTES_MAX, ACLS_MAX, Acl, AclsZnode

__all__ = ["AclChange", "AlteredAcls", "TooManyAcls", "alter_acls"]


class TooManyAcls(Exception):
    """The cluster would have more rules than it can; the message says how many it can have."""


@dataclass(frozen=True, slots=True)
class AclChange:
    """One change: a rule comes, or goes."""

    acl: Acl
    is_added: bool


@dataclass(frozen=True, slots=True)
class AlteredAcls:
    """The rules after changes, and how many came and went."""

    znode: AclsZnode
    added_count: int
    removed_count: int


def alter_acls(before: AclsZnode, changes: Sequence[AclChange]) -> AlteredAcls:
    """Make the changes in their order. A rule that is there may be added, and one that is not be removed, so
    that a request can be repeated. Raises TooManyAcls."""
    acls = set(before.acls)
    for change in changes:
        if change.is_added:
            acls.add(change.acl)
        else:
            acls.discard(change.acl)
    after = AclsZnode.of(acls)
    added, removed = acls.difference(before.acls), set(before.acls) - acls
    if added:
        if len(acls) > ACLS_MAX:
            raise TooManyAcls(f"the cluster would have {len(acls)} ACLs, and can have {ACLS_MAX}")
        if (size_bytes := len(after.encode())) > ACLS_BYTES_MAX:
            raise TooManyAcls(f"the ACLs would take {size_bytes} bytes, and can take {ACLS_BYTES_MAX}")
    return AlteredAcls(after, len(added), len(removed))
