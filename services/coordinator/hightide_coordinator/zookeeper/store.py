"""The reads and writes of one shard's coordinator in ZooKeeper, with core values in and out.

Every write is a multi that begins with a check of the coordinator epoch (C5); the election is the one that
raises it. What cannot be decoded is complained about and left alone, because an operator may have written it.
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
from hightide_runtime.zookeeper.election import ActiveProcess, ElectedProcess, Election, ElectionZnodes, Epoch
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
"""Before the core gets a refusal that ZooKeeper would repeat for ever, and tries again."""
_READ_PAUSE_S: Final = 0.2

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
    """Reads and writes of one shard of one process; belongs to the event loop's thread.

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
        """`identity`: this process and its addresses for consumers. Several shards share the complaints."""
        self._session = session
        self.shard = shard
        self.shard_count = shard_count
        self._identity = identity
        self._election = Election(session, seat_of(shard, shard_count))
        complaints = complaints or Complaints()
        self._cluster = ClusterReader(session, complaints)
        self._groups = GroupReader(session, self._cluster, complaints)
        self._layouts: dict[str, GroupLayout] = {}
        self._epoch: Epoch | None = None

    @property
    def coordinator_epoch(self) -> int:
        """The epoch under which this process was elected last; 0: never."""
        return 0 if self._epoch is None else self._epoch.epoch

    async def standing(self, *, watch: bool = False) -> ActiveProcess | None:
        """The active coordinator of the shard. The watch fires when it changes, also from none to one."""
        return await self._election.standing(watch=watch)

    async def elect(self, stale_epoch: int | None = None) -> int | None:
        """Run the election once: the new coordinator epoch, None where somebody else was quicker.

        `stale_epoch`: that of a coordinator whose process is known to be dead, though its znode stands;
        see `Election.elect`. Raises ZnodeGarbage where the epoch's znode makes no sense.
        """
        me = self._identity
        candidate = ElectedProcess(
            me.id, me.host, me.port, external_host=me.external_host, external_port=me.external_port
        )
        return self._take(await self._election.elect(candidate, stale_epoch))

    async def resume(self) -> int | None:
        """The coordinator epoch under which this session holds the seat; None where it does not. After an
        election that was won, and could not be acted on because the connection broke."""
        return self._take(await self._election.epoch_held(self._identity.id))

    def _take(self, epoch: Epoch | None) -> int | None:
        if epoch is None:
            return None
        self._epoch = epoch
        self._layouts.clear()
        return epoch.epoch

    async def abdicate(self) -> None:
        """Delete this process's own znode, so that another one can be elected; it is no error if there is
        none."""
        await self._election.abdicate()

    async def load(self) -> Elected:
        """All that ZooKeeper holds about the groups of this shard, and about topics and brokers (§5). Called
        after an election that was won."""
        assert self._epoch is not None, "nothing is loaded by a coordinator that was never elected"
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
        """The answer to ReadGroup: no staler than this call, and as often as it takes. Raises nothing."""
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
        """Carry a StoreGroup out; the event that follows from its fate. Raises nothing.

        Of a store that takes several multis, the first so many are done where the outcome is not
        StoreCommitted.
        """
        assert self._is_mine(effect.group), effect.group
        if self._epoch is None or self._epoch.epoch != effect.coordinator_epoch:
            return StoreFenced(effect.store_id)
        error = await self._stored(effect, self._fence())
        if error is not None or effect.delete_group:
            # Nothing, or whatever stands there now: it has to be read again.
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
        """Send them all, and wait for all; the error of the first that failed."""
        sent = []
        for multi in multis:
            sent.append(self._session.submit_multi(multi))
            # A large store is seconds of pings for everybody else, if it is written in one go.
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        for multi, outcome in zip(multis, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                return outcome
            layout.applied(multi, outcome)
        for parent in tidying_of(multis, layout):
            await self._take_away(parent, layout, fence)
        return None

    async def _take_away(self, parent: str, layout: GroupLayout, fence: Check) -> None:
        """A parent that was left without children. As well as it goes: nothing depends on it."""
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
                # Also for unexpected errors: whatever happened, reading again shows the state.
                _log.warning("whether a write of group %s was done is unknown: %s", effect.group, error)
                return StoreUnknown(effect.store_id)
