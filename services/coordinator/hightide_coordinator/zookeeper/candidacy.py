"""The candidacy of a process for one shard: watching the active coordinator, and becoming it (consumer
coordinator §5, §10).

A process campaigns if no coordinator is active, and also if the active one is dead. Its kernel's refusal of a
connection shows that long before its ZooKeeper session expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.zookeeper.election import UNKNOWN_ID, ActiveProcess, ElectedProcess
from hightide_runtime.zookeeper.znode_reader import RepeatedReader

from hightide_coordinator.core.events import Elected, Endpoint
from hightide_coordinator.zookeeper.peers import PeerWatch
from hightide_coordinator.zookeeper.store import CoordinatorStore

__all__ = ["Candidacy", "CandidacyCallbacks", "ShardTakeover"]

_log = logging.getLogger(__name__)

_SPREAD_AT_START_S: Final = 2.0
"""Processes spread their campaigns for a shard without a coordinator over this time after their start, so
that a starting cluster divides its shards."""
_SPREAD_S: Final = 0.3
"""Processes spread their campaigns for a shard whose coordinator has gone over this time."""
_REST_S: Final = 2.0
"""How long a process that gave a shard up leaves it to others. Then it campaigns like them."""
_AGAIN_S: Final = 0.2
"""The pause before the next check after an election without a result."""


@dataclass(frozen=True, slots=True)
class ShardTakeover:
    """How this process came to be elected, for the failover trace. Wall-clock times in microseconds."""

    cause: str
    """`process_died`, `session_ended` (the znode vanished), or `vacant` (there was no coordinator before)."""
    previous: Endpoint | None
    broke_at_us: int | None
    """When the stream to the dead process broke; None if there was no stream."""
    noticed_at_us: int
    elected_at_us: int
    loaded_at_us: int


@dataclass(frozen=True, slots=True)
class _Noticed:
    """The reason for a campaign, with the fields of Takeover."""

    cause: str
    previous: Endpoint | None
    broke_at_us: int | None
    at_us: int


@dataclass(frozen=True, slots=True)
class CandidacyCallbacks:
    """The callbacks of a candidacy, all called on the loop."""

    seen: Callable[[int, Endpoint | None], None]
    """Called if another process coordinates the shard, or if none does (None)."""
    elected: Callable[[int, Elected, ShardTakeover], None]
    """Called when this process coordinates the shard and has loaded everything."""
    deposed: Callable[[int], None]
    """Called when this process no longer coordinates the shard."""


class Candidacy:
    """The candidacy for one shard of one process."""

    def __init__(
        self,
        store: CoordinatorStore,
        identity: Endpoint,
        clock: Clock,
        connected: asyncio.Event,
        peers: PeerWatch,
        callbacks: CandidacyCallbacks,
        held: Callable[[], int],
    ) -> None:
        """`held` returns how many shards this process coordinates."""
        self._held = held
        self._store = store
        self._identity = identity
        self._clock = clock
        self._callbacks = callbacks
        self.shard = store.shard
        self._rank = _rank(identity.id, store.shard) if store.shard_count > 1 else 0.0
        """The delay of this process's candidacy for the shard, from 0 to 1. Each process is first for other
        shards."""
        self.is_active = False
        self._active: ActiveProcess | None = None
        """The active process at the last read."""
        self._dead: ActiveProcess | None = None
        """The active entry whose process is dead, although its znode exists."""
        self._noticed: _Noticed | None = None
        """The reason why this process campaigns."""
        self._rests_until_s = 0.0
        """Until then, by the loop's clock, this process leaves the shard to others."""
        self._terms = 0
        """Counts the times at which this process stopped being active or lost its session, so that an
        election from before has no effect afterwards."""
        self._peers = peers
        self._reader = RepeatedReader(f"coordinator-{store.shard}", self._look, connected)

    def start(self) -> None:
        """Read the active process, and campaign if there is none. Called once the server listens."""
        self._reader.start()
        self._reader.mark()

    async def close(self) -> None:
        """End the candidacy, and make room for another process. Raises ZooKeeperError if that fails: the
        znode then vanishes with the session."""
        await self._reader.close()
        self._peers.unwatch(self.shard)
        self.is_active = False
        await self._store.abdicate()

    def mark(self) -> None:
        """Read again: the active process may have changed."""
        self._reader.mark()

    @property
    def holder(self) -> Endpoint | None:
        """The process that coordinates the shard, as far as this one knows; None if there is none."""
        if self.is_active:
            return self._identity
        return None if self._active is None or self._active.is_mine else _endpoint_of(self._active)

    def give_up(self) -> int:
        """Stop being active, and leave the shard to others for a while. Returns the epoch that ends. The
        znode goes as soon as ZooKeeper answers, and nobody can be elected before."""
        assert self.is_active, "only the active coordinator has something to give up"
        self._terms += 1
        self.is_active = False
        self._rests_until_s = asyncio.get_running_loop().time() + _REST_S
        self._callbacks.deposed(self.shard)
        self._reader.mark()
        return self._store.coordinator_epoch

    def resigned(self) -> None:
        """Read again: the core has resigned because a write of it was fenced."""
        if self.is_active:
            self.is_active = False
            self._callbacks.deposed(self.shard)
        self._reader.mark()

    def overtaken(self, other: Endpoint) -> None:
        """Stop being active: brokers say that another process was elected, while this one cannot reach
        ZooKeeper. If they are wrong, this session still holds the znode, and the process resumes once it is
        connected."""
        if self.is_active:
            _log.warning("shard %d: brokers name coordinator %d instead of this one", self.shard, other.id)
            self._terms += 1
            self.is_active = False
            self._callbacks.seen(self.shard, other)
            self._callbacks.deposed(self.shard)

    def was_paused(self) -> None:
        """Stop being active, since this process was paused for so long that another one may have been
        elected. If its session still exists, it still holds the znode, and resumes."""
        if self.is_active:
            self._terms += 1
            self.is_active = False
            self._callbacks.deposed(self.shard)
            self._reader.mark()

    def session_lost(self) -> None:
        """Handle the end of the session, with which the znode vanishes."""
        self._terms += 1
        if self.is_active:
            self.is_active = False
            self._callbacks.deposed(self.shard)

    async def _look(self) -> None:
        """Read the active process, then watch it, campaign, or resume. Reader runs one at a time."""
        standing = await self._store.standing(watch=True)
        rest_s = self._rests_until_s - asyncio.get_running_loop().time()
        if standing is not None and standing.is_mine:
            if self.is_active:
                return
            if rest_s <= 0:
                await self._resume(standing)
                return
            await self._store.abdicate()
            standing = await self._store.standing(watch=True)
        if self.is_active:
            _log.warning("shard %d: this coordinator's znode is gone: it resigns", self.shard)
            self.is_active = False
            self._callbacks.deposed(self.shard)
        before, self._active = self._active, standing
        if standing is None and rest_s > 0:
            self._peers.unwatch(self.shard)
            self._callbacks.seen(self.shard, None)
            asyncio.get_running_loop().call_later(rest_s, self._reader.mark)
        elif standing is None:
            self._note("vacant" if before is None else "session_ended", before)
            self._peers.unwatch(self.shard)
            self._callbacks.seen(self.shard, None)
            await self._campaign(None)
        elif self._dead == standing:
            self._peers.unwatch(self.shard)
            await self._campaign(standing.holder.epoch)
        elif standing != before or not self._peers.is_watching(self.shard):
            self._watch(standing)

    def _note(self, cause: str, before: ActiveProcess | None) -> None:
        if self._noticed is None:
            previous = None if before is None else _endpoint_of(before)
            self._noticed = _Noticed(cause, previous, None, self._clock.wall_us())

    def _watch(self, standing: ActiveProcess) -> None:
        self._peers.unwatch(self.shard)
        self._noticed = None
        holder = standing.holder
        if holder.id == UNKNOWN_ID:
            self._callbacks.seen(self.shard, None)
            return
        self._callbacks.seen(self.shard, _endpoint_of(standing))
        address = HostPort(holder.host, holder.port)
        _log.info("shard %d: coordinator %d at %s is active", self.shard, holder.id, address)
        if address == HostPort(self._identity.host, self._identity.port):
            # This process has the port now, so the znode is from an earlier run of it.
            self._died(standing, None)
            return
        self._peers.watch(self.shard, address, lambda broke_at_us: self._died(standing, broke_at_us))

    def _died(self, standing: ActiveProcess, broke_at_us: int | None) -> None:
        """Handle the death of the active coordinator's process. Its session and its znode still exist for a
        while."""
        self._dead = standing
        previous = _endpoint_of(standing)
        self._noticed = _Noticed("process_died", previous, broke_at_us, self._clock.wall_us())
        self._reader.mark()

    async def _campaign(self, stale_epoch: int | None) -> None:
        assert self._noticed is not None, "there is a reason to campaign"
        await asyncio.sleep(self._patience_s(self._noticed.cause))
        term = self._terms
        epoch = await self._store.elect(stale_epoch)
        if epoch is None:
            # Another process was faster, which the watch reports; or an operator changed something, which
            # nothing reports.
            asyncio.get_running_loop().call_later(_AGAIN_S, self._reader.mark)
            return
        await self._take_over(epoch, term)

    def _patience_s(self, cause: str) -> float:
        """How long this process waits for one that is to come first: the one that coordinates fewer shards,
        and of several the one whose rank is lower."""
        if cause == "vacant":
            return self._rank * _SPREAD_AT_START_S
        if self._store.shard_count == 1:
            return 0.0
        return min((self._held() + self._rank) / self._store.shard_count, 1.0) * _SPREAD_S

    async def _resume(self, standing: ActiveProcess) -> None:
        """Become active under an election that this session has won: the connection broke before it took
        effect."""
        term = self._terms
        epoch = await self._store.resume()
        if epoch is None:
            _log.warning("shard %d: the znode of this coordinator is of no use: it goes", self.shard)
            await self._store.abdicate()
            self._reader.mark()
            return
        self._note("session_ended", None)
        await self._take_over(epoch, term)

    async def _take_over(self, epoch: int, term: int) -> None:
        """Load the shard, and become active, unless this process lost its session meanwhile."""
        elected_at_us = self._clock.wall_us()
        loaded = await self._store.load()
        if term != self._terms:
            self._reader.mark()
            return
        assert loaded.coordinator_epoch == epoch
        noticed = self._noticed or _Noticed("vacant", None, None, elected_at_us)
        self._noticed = self._dead = None
        me = self._identity
        self._active = ActiveProcess(ElectedProcess(me.id, me.host, me.port, epoch), 0, is_mine=True)
        self.is_active = True
        self._callbacks.elected(
            self.shard,
            loaded,
            ShardTakeover(
                noticed.cause,
                noticed.previous,
                noticed.broke_at_us,
                noticed.at_us,
                elected_at_us,
                self._clock.wall_us(),
            ),
        )


def _endpoint_of(standing: ActiveProcess) -> Endpoint:
    holder = standing.holder
    return Endpoint(holder.id, holder.host, holder.port, holder.external_host, holder.external_port)


def _rank(coordinator_id: int, shard: int) -> float:
    """The rank of a process for a shard, from 0 to 1. Multiples of irrational numbers are spread evenly, so
    each process comes first for about the same number of shards."""
    return (coordinator_id * 0.6180339887 + shard * 0.4142135624) % 1
