"""Whose a producer id is: that of the principal that got it, wherever it is used later.

Otherwise whoever knows an id can end the session of its producer, by the id with a higher epoch. The id
itself says whose it is, so that each leader can tell, also after a failover, and without a look at ZooKeeper:

    bit 61: it has an owner   bits 40 to 60: a keyed hash of the owner   bits 0 to 39: counts the ids

The key is a secret of the cluster, so that nobody can choose a name that has the hash of another one. Of two
given principals, the hashes are equal once in two million. Anybody may use ids without an owner: those that
anonymous callers get, those from before there were owners, and those that writers make from a `ProducerKey`,
which have bit 62.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.errors import ServiceError, StartupError
from hightide_runtime.znodes.cluster_znodes import ProducerOwnersZnode, ZnodeGarbage
from hightide_runtime.zookeeper.session import NodeExists, NoNode, ZooKeeperSession

__all__ = ["NOBODY", "ProducerOwners"]

_COUNTER_BITS: Final = 40
_HASH_BITS: Final = 21
_OWNED: Final = 1 << _HASH_BITS
_KEYED: Final = 1 << (_HASH_BITS + 1)
NOBODY: Final = 0
"""The tag of callers that show nobody who they are."""
_TAGS_MAX: Final = 10_000
"""How many principals are remembered. When there are more, all are forgotten."""


class ProducerOwners:
    """Makes and checks such ids. One for each broker."""

    def __init__(self, key: bytes = b"") -> None:
        """`key`: empty until `load`."""
        self._key = key
        self._tags: dict[Principal, int] = {}

    async def load(self, session: ZooKeeperSession) -> None:
        """Read the key of the cluster, and make one if it has none. Called before anything is served, where
        callers may show who they are. Raises ZooKeeperError, StartupError."""
        path = ProducerOwnersZnode.path()
        with contextlib.suppress(NodeExists):
            await session.create(path, ProducerOwnersZnode(secrets.token_hex(32)).encode())
        try:
            self._key = bytes.fromhex(ProducerOwnersZnode.decode((await session.get(path)).data).key)
        except (ZnodeGarbage, NoNode) as error:
            raise StartupError(
                f"the broker cannot tell whose a producer id is: {error}; correct {path} in ZooKeeper, or "
                "delete it, after which producers that run get new ids"
            ) from error

    def tag_of(self, principal: Principal) -> int:
        """What the ids of a principal begin with."""
        if principal.role is Role.ANONYMOUS:
            return NOBODY
        tag = self._tags.get(principal)
        if tag is None:
            assert self._key, "no key was loaded"
            digest = hmac.digest(self._key, str(principal).encode(), "sha256")
            tag = _OWNED | int.from_bytes(digest[:4], "big") >> (32 - _HASH_BITS)
            if len(self._tags) >= _TAGS_MAX:
                self._tags.clear()
            self._tags[principal] = tag
        return tag

    def bound(self, number: int, principal: Principal) -> int:
        """The id with this number for a principal. Raises ServiceError if the numbers are used up."""
        tag = self.tag_of(principal)
        if tag != NOBODY and number >= 1 << _COUNTER_BITS:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
                f"the next producer id, {number}, is none that can have an owner; write a number below "
                f"{1 << _COUNTER_BITS} into /producer_ids that is larger than any that was used",
            )
        return tag << _COUNTER_BITS | number


def may_use(producer_id: int, tag: int) -> bool:
    """Whether a caller whose ids begin with this tag may produce under an id."""
    owner = producer_id >> _COUNTER_BITS
    return owner < _OWNED or owner == tag or owner >= _KEYED
