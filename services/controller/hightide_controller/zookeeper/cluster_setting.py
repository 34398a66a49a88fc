"""A setting of the whole cluster that one znode holds, such as its quotas: read and changed by the active
controller, at the request of an operator.

Such a change moves no partition, so it does not pass the core. The write checks the controller epoch like all
others, and the version of the znode, so of two changes at once neither is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    Create,
    NodeExists,
    NoNode,
    SetData,
    ZooKeeperSession,
)

__all__ = ["ClusterSetting", "ControllerDeposed", "KeepsChanging"]

_ATTEMPTS: Final = 10
Content = TypeVar("Content")


class ControllerDeposed(Exception):
    """Another controller has a newer epoch. Nothing was written."""


class KeepsChanging(Exception):
    """Others changed the znode each time between a read and the write. Nothing was written."""


class ClusterSetting(Generic[Content]):
    """One setting. All methods raise ZooKeeperError, and ZnodeGarbage if an operator has written nonsense."""

    def __init__(
        self,
        session: ZooKeeperSession,
        path: str,
        decode: Callable[[bytes], Content],
        encode: Callable[[Content], bytes],
        absent: Content,
    ) -> None:
        """`absent`: what holds while there is no such znode."""
        self._session = session
        self._path = path
        self._decode = decode
        self._encode = encode
        self._absent = absent

    async def read(self) -> Content:
        """What it is now."""
        content, _ = await self._read()
        return content

    async def alter(
        self, change: Callable[[Content], Content], controller_epoch_version: int, *, validate_only: bool
    ) -> Content:
        """Change it, and return what it is then. `change` may be called again, if others change it meanwhile;
        it may raise. Raises ControllerDeposed, KeepsChanging."""
        for _ in range(_ATTEMPTS):
            before, version = await self._read()
            after = change(before)
            if validate_only or after == before:
                return after
            data = self._encode(after)
            write = Create(self._path, data) if version is None else SetData(self._path, data, version)
            try:
                await self._session.multi(
                    [Check(ControllerEpochZnode.path(), controller_epoch_version), write]
                )
                return after
            except (BadVersion, NodeExists, NoNode) as error:
                if error.path == ControllerEpochZnode.path():
                    raise ControllerDeposed from error
        raise KeepsChanging(self._path)

    async def _read(self) -> tuple[Content, int | None]:
        try:
            znode = await self._session.get(self._path)
        except NoNode:
            return self._absent, None
        return self._decode(znode.data), znode.version
