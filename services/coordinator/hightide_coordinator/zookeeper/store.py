"""The reads and writes of one shard's coordinator in ZooKeeper, with core values in and out.

Every write is a multi that begins with a check of the coordinator epoch (C5). Only the election raises this
epoch. A znode that cannot be decoded gives a complaint and is not changed, because an operator may have
written it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import astuple
from typing import Final

from hightide_runtime.znodes.group_znodes import (
    CoordinatorEpochZnode,
    CoordinatorZnode,
    GroupZnode,
    shard_of,
)
from hightide_runtime.zookeeper.election import (
    ActiveProcess,
    ElectedProcess,
    Election,
    ElectionEpoch,
    ElectionZnodes,
)
from hightide_runtime.zookeeper.session import (
    BadVersion,
    Check,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    ZooKeeperError,
    ZooKeeperRefused,
    ZooKeeperSession,
)

from hightide_coordinator.core.effects import StoreGroup
from hightide_coordinator.core.events import (
    Elected,
    Endpoint,
    GroupRead,
    StoreCommitted,
    StoreFenced,
    StoreRefused,
    StoreUnknown,
)
from hightide_coordinator.zookeeper.cluster_reader import ClusterReader
from hightide_coordinator.zookeeper.complaints import Complaints
from hightide_coordinator.zookeeper.group_layout import GroupLayout
from hightide_coordinator.zookeeper.group_reader import GroupReader
from hightide_coordinator.zookeeper.group_writes import deletion_of, multis_for, tidying_of

__all__ = ["CoordinatorStore", "StoreOutcome", "seat_of"]

_log = logging.getLogger(__name__)

_REFUSED_PAUSE_S: Final = 1.0
"""The pause after a refusal that ZooKeeper would repeat, before the core gets it and tries again."""
_READ_PAUSE_S: Final = 0.2
"""The pause before a failed read is repeated."""

StoreOutcome = StoreCommitted | StoreRefused | StoreUnknown | StoreFenced


def seat_of(shard: int, shard_count: int) -> ElectionZnodes:
    """The znodes in which the coordinator of a shard is elected."""
    return ElectionZnodes(
        CoordinatorZnode.path(shard, shard_count),
        CoordinatorEpochZnode.path(shard, shard_count),
        lambda holder: CoordinatorZnode(*astuple(holder)).encode(),
        lambda data: ElectedProcess(*astuple(CoordinatorZnode.decode(data))),
        lambda epoch: CoordinatorEpochZnode(epoch).encode(),
        lambda data: CoordinatorEpochZnode.decode(data).coordinator_epoch,
    )


class CoordinatorStore:
    """The reads and writes of one shard of one process, on the event loop's thread.

    Methods raise ConnectionLost and SessionExpired unless they say otherwise.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        shard: int,
        shard_count: int,
        identity: Endpoint,
        complaints: Complaints | None = None,
    ) -> None:
        """`identity` is this process with its addresses for consumers. All shards share the complaints."""
        self._session = session
        self.shard = shard
        self.shard_count = shard_count
        self._identity = identity
        self._election = Election(session, seat_of(shard, shard_count))
        complaints = complaints or Complaints()
        self._cluster = ClusterReader(session, complaints)
        self._groups = GroupReader(session, self._cluster, complaints)
        self._layouts: dict[str, GroupLayout] = {}
        self._epoch: ElectionEpoch | None = None

    @property
    def coordinator_epoch(self) -> int:
        """The epoch of the last election that this process won; 0 if it won none."""
        return 0 if self._epoch is None else self._epoch.epoch

    async def standing(self, *, watch: bool = False) -> ActiveProcess | None:
        """The active coordinator of the shard. The watch fires when it changes, also from none to one."""
        return await self._election.standing(watch=watch)

    async def elect(self, stale_epoch: int | None = None) -> int | None:
        """Run the election once. Returns the new coordinator epoch, or None if another process was faster.

        `stale_epoch` is the epoch of a coordinator whose process is dead although its znode exists; see
        `Election.elect`. Raises ZnodeGarbage if the epoch's znode cannot be decoded.
        """
        me = self._identity
        candidate = ElectedProcess(
            me.id, me.host, me.port, external_host=me.external_host, external_port=me.external_port
        )
        return self._take(await self._election.elect(candidate, stale_epoch))

    async def resume(self) -> int | None:
        """The coordinator epoch of the election that this session has won, or None. Called after an election
        that had no effect yet because the connection broke."""
        return self._take(await self._election.epoch_held(self._identity.id))

    def _take(self, epoch: ElectionEpoch | None) -> int | None:
        if epoch is None:
            return None
        self._epoch = epoch
        self._layouts.clear()
        return epoch.epoch

    async def abdicate(self) -> None:
        """Delete this process's own znode, if there is one, so that another process can be elected."""
        await self._election.abdicate()

    async def load(self) -> Elected:
        """Read all groups of this shard, all topics and all brokers (§5). Called after an election that was
        won."""
        assert self._epoch is not None, "only an elected coordinator loads"
        epoch = self._epoch
        brokers = await self._cluster.brokers()
        topics = await self._cluster.topics(await self._cluster.topic_names())
        names = [name for name in await self._groups.names() if self._is_mine(name)]
        groups = await self._groups.read(names, topics.unreadable)
        self._layouts = {name: each.layout for name, each in groups.items()}
        stored = {name: each.stored for name, each in groups.items()}
        return Elected(epoch.epoch, stored, topics.topics, brokers)

    def _is_mine(self, group: str) -> bool:
        return shard_of(group, self.shard_count) == self.shard

    async def read_group(self, group: str) -> GroupRead:
        """Carry out a ReadGroup: read the group at least as new as this call, and repeat failed reads. Raises
        nothing."""
        while True:
            epoch = self._epoch
            try:
                await self._session.sync()
                found = (await self._groups.read([group])).get(group)
            except ZooKeeperError as error:
                _log.warning("reading group %s is tried again: %s", group, error)
                await asyncio.sleep(_READ_PAUSE_S)
                continue
            if epoch is self._epoch:
                self._layouts.pop(group, None)
                if found is not None:
                    self._layouts[group] = found.layout
            return GroupRead(group, None if found is None else found.stored)

    async def store_group(self, effect: StoreGroup) -> StoreOutcome:
        """Carry out a StoreGroup, and return the event with its outcome. Raises nothing.

        If the outcome is not StoreCommitted and the store takes several multis, the first ones may be done
        and the others not.
        """
        assert self._is_mine(effect.group), effect.group
        if self._epoch is None or self._epoch.epoch != effect.coordinator_epoch:
            return StoreFenced(effect.store_id)
        error = await self._stored(effect, self._fence())
        if error is not None or effect.delete_group:
            # The znodes are not known any more, so the group must be read again.
            self._layouts.pop(effect.group, None)
        if isinstance(error, ZooKeeperRefused):
            await asyncio.sleep(_REFUSED_PAUSE_S)
        return self._outcome(effect, error)

    def _fence(self) -> Check:
        assert self._epoch is not None
        return Check(self._election.znodes.epoch_path, self._epoch.version)

    async def _stored(self, effect: StoreGroup, fence: Check) -> BaseException | None:
        layout = self._layouts.setdefault(effect.group, GroupLayout(GroupZnode.path(effect.group)))
        try:
            if not effect.delete_group:
                return await self._sent(multis_for(effect, layout, fence), layout, fence)
            if GroupZnode.path(effect.group) in layout.versions:
                found = await self._groups.tree(effect.group)
                return await self._sent(deletion_of(effect.group, found, layout, fence), layout, fence)
        except ZooKeeperError as error:
            return error
        return await self._sent([[fence]], layout, fence)

    async def _sent(
        self, multis: Sequence[Sequence[Operation]], layout: GroupLayout, fence: Check
    ) -> BaseException | None:
        """Send all multis, and wait for all. Returns the error of the first one that failed, or None."""
        sent = []
        for multi in multis:
            sent.append(self._session.submit_multi(multi))
            # Without this a large store would delay all other requests of the session.
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        for multi, outcome in zip(multis, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                return outcome
            layout.applied(multi, outcome)
        for parent in tidying_of(multis, layout):
            await self._delete_parent(parent, layout, fence)
        return None

    async def _delete_parent(self, parent: str, layout: GroupLayout, fence: Check) -> None:
        """Delete a parent without children. A failure is only logged, since nothing depends on it."""
        operations: list[Operation] = [fence, Delete(parent, -1)]
        try:
            layout.applied(operations, await self._session.multi(operations))
        except ZooKeeperError as error:
            _log.info("%s is left standing: %s", parent, error)

    def _outcome(self, effect: StoreGroup, error: BaseException | None) -> StoreOutcome:
        epoch_path = self._election.znodes.epoch_path
        match error:
            case None:
                return StoreCommitted(effect.store_id)
            case BadVersion(path=path) | NoNode(path=path) if path == epoch_path:
                return StoreFenced(effect.store_id)
            case BadVersion() | NodeExists() | NoNode() | NotEmpty():
                _log.warning("a write of group %s is refused: %s", effect.group, error)
                return StoreRefused(effect.store_id)
            case _:
                # Unexpected errors, too: the core reads the group again, which shows the state.
                _log.warning("whether a write of group %s was done is unknown: %s", effect.group, error)
                return StoreUnknown(effect.store_id)
