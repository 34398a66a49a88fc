"""Electing the active one of several processes: an ephemeral znode, and an epoch that grows with each
election.

The controller and the consumer coordinator are elected in the same way (V3 Paths 1, consumer coordinator §4;
docs/protocol.md, "Controller writes are fenced"). Every write of the active process checks the zkVersion of
the epoch znode, which fences earlier ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.session import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    SetData,
    ZooKeeperSession,
)

__all__ = ["UNKNOWN_ID", "ActiveProcess", "ElectedProcess", "Election", "ElectionEpoch", "ElectionZnodes"]

_log = logging.getLogger(__name__)

_CONDITION_FAILED: Final = (BadVersion, NodeExists, NoNode)
UNKNOWN_ID: Final = -1
"""The id that stands for an ephemeral znode with invalid content."""


@dataclass(frozen=True, slots=True)
class ElectedProcess:
    """A process that was elected, and its address."""

    id: int
    host: str
    port: int
    epoch: int = 0
    external_host: str = ""
    external_port: int = 0


@dataclass(frozen=True, slots=True)
class ElectionZnodes:
    """The subject of an election: the paths of the two znodes, and how they are written.

    `decode` and `decode_epoch` raise ZnodeGarbage.
    """

    path: str
    epoch_path: str
    encode: Callable[[ElectedProcess], bytes]
    decode: Callable[[bytes], ElectedProcess]
    encode_epoch: Callable[[int], bytes]
    decode_epoch: Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class ElectionEpoch:
    """An epoch, and the zkVersion of its znode."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class ActiveProcess:
    """The content of the ephemeral znode."""

    holder: ElectedProcess
    version: int
    is_mine: bool
    """Whether this process's session holds it."""


class Election:
    """The elections for one ephemeral znode, by one session. Methods raise ConnectionLost and
    SessionExpired."""

    def __init__(self, session: ZooKeeperSession, znodes: ElectionZnodes) -> None:
        self._session = session
        self.znodes = znodes
        self._highest = 0
        """The highest epoch that was ever read or won. An operator may delete its znode, and a process that
        knows this epoch obeys no lower one."""

    async def standing(self, *, watch: bool = False) -> ActiveProcess | None:
        """The active process. The watch fires when it changes, also from none to one."""
        path = self.znodes.path
        while True:
            if await self._session.exists(path, watch=watch) is None:
                return None
            try:
                found = await self._session.get(path)
            except NoNode:
                continue
            try:
                holder = self.znodes.decode(found.data)
            except ZnodeGarbage as error:
                _log.error("%s; no process can be elected before an operator deletes the znode", error)
                return ActiveProcess(ElectedProcess(UNKNOWN_ID, "unknown", 1), found.version, is_mine=False)
            return ActiveProcess(holder, found.version, found.ephemeral_owner == self._session.session_id)

    async def elect(self, candidate: ElectedProcess, stale_epoch: int | None) -> ElectionEpoch | None:
        """Run the election once; None if another process was faster, or is active. Raises ZnodeGarbage if the
        epoch cannot be read.

        One multi creates the ephemeral znode and raises the epoch, so no process is ever elected under an old
        epoch. With `stale_epoch`, the multi also deletes the znode that the holder of that epoch left behind
        when its process died, because its session lives on for a while. That is safe even if the holder was
        not dead. The multi succeeds only if the epoch is still the one of this holder (its zkVersion grows
        with each election), so at most one succeeds it. From then on every write of the old holder fails its
        check of the epoch, and processes that know the new epoch refuse the older one.
        """
        while True:
            try:
                return await self._elect_once(candidate, stale_epoch)
            except _CONDITION_FAILED:
                return None
            except ConnectionLost as error:
                if not error.outcome_unknown:
                    raise
                # The multi may have committed although its answer was lost: the znode's owner shows it.
                won = await self.epoch_held(candidate.id)
                if won is not None:
                    return won

    async def _elect_once(self, candidate: ElectedProcess, stale_epoch: int | None) -> ElectionEpoch | None:
        before = await self.read_epoch()
        epoch = self._highest + 1
        operations: list[Operation] = []
        if stale_epoch is not None:
            standing = await self.standing()
            if standing is not None:
                if standing.holder.epoch != stale_epoch or before is None or before.epoch != stale_epoch:
                    return None
                operations.append(Delete(self.znodes.path, standing.version))
        mine = self.znodes.encode(replace(candidate, epoch=epoch))
        operations.append(Create(self.znodes.path, mine, ephemeral=True))
        moved = self.znodes.encode_epoch(epoch)
        path = self.znodes.epoch_path
        operations.append(Create(path, moved) if before is None else SetData(path, moved, before.version))
        versions = await self._session.multi(operations)
        self._highest = epoch
        return ElectionEpoch(epoch, versions[-1])

    async def epoch_held(self, candidate_id: int) -> ElectionEpoch | None:
        """The epoch in which this session holds the znode; None if it does not."""
        standing = await self.standing()
        if standing is None or not standing.is_mine or standing.holder.id != candidate_id:
            return None
        epoch = await self.read_epoch()
        if epoch is None or epoch.epoch != standing.holder.epoch:
            return None
        return epoch

    async def read_epoch(self) -> ElectionEpoch | None:
        """The epoch of the last election; None if there was none. Raises ZnodeGarbage."""
        try:
            found = await self._session.get(self.znodes.epoch_path)
        except NoNode:
            return None
        epoch = self.znodes.decode_epoch(found.data)
        self._highest = max(self._highest, epoch)
        return ElectionEpoch(epoch, found.version)

    async def abdicate(self) -> None:
        """Delete this session's own znode, so that another process can be elected; it is no error if there is
        none."""
        standing = await self.standing()
        if standing is not None and standing.is_mine:
            try:
                await self._session.delete(self.znodes.path, standing.version)
            except _CONDITION_FAILED:
                return
