"""The candidacy of a process for one shard: who is active, and being it (consumer coordinator §5, §10).

A process campaigns when nobody is active, and also when whoever is active is dead: by the word of its kernel,
that nobody listens at its address any more, long before its ZooKeeper session expires.
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
from hightide_runtime.zookeeper.znode_reader import Reader

from hightide_coordinator.core.events import Elected, Endpoint
from hightide_coordinator.zookeeper.peers import Peers
from hightide_coordinator.zookeeper.store import CoordinatorStore

__all__ = ["Candidacy", "CandidacyCallbacks", "Takeover"]

_log = logging.getLogger(__name__)

_SPREAD_AT_START_S: Final = 2.0
"""Within how long a process campaigns for a shard that nobody has coordinated since it started; the others of
a cluster that starts do so meanwhile."""
_SPREAD_S: Final = 0.3
"""Within how long it campaigns for a shard whose coordinator is gone."""
_AGAIN_S: Final = 0.2
"""Before an election that came to nothing is looked at again."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """How this process came to be elected, for the failover trace. Wall-clock times in microseconds."""

    cause: str
    """`process_died`, `session_ended` (the znode went), `vacant` (it never stood there)."""
    previous: Endpoint | None
    broke_at_us: int | None
    """When the stream to the process broke that is dead now; None where no stream told."""
    noticed_at_us: int
    elected_at_us: int
    loaded_at_us: int


@dataclass(frozen=True, slots=True)
class _Noticed:
    """Why a process campaigns; as in Takeover."""

    cause: str
    previous: Endpoint | None
    broke_at_us: int | None
    at_us: int


@dataclass(frozen=True, slots=True)
class CandidacyCallbacks:
    """What a candidacy needs of, and tells to, those around it. All are called on the loop."""

    seen: Callable[[int, Endpoint | None], None]
    """Another process coordinates the shard, or nobody does."""
    elected: Callable[[int, Elected, Takeover], None]
    """This process coordinates the shard; everything is loaded."""
    deposed: Callable[[int], None]
    """This process does not any more."""


class Candidacy:
    """One for each shard of each process."""

    def __init__(
        self,
        store: CoordinatorStore,
        identity: Endpoint,
        clock: Clock,
        connected: asyncio.Event,
        peers: Peers,
        callbacks: CandidacyCallbacks,
    ) -> None:
        self._store = store
        self._identity = identity
        self._clock = clock
        self._callbacks = callbacks
        self.shard = store.shard
        self._rank = _rank(identity.id, store.shard) if store.shard_count > 1 else 0.0
        """From 0 to 1, how late this process campaigns for the shard; each comes first for other shards."""
        self.is_active = False
        self._active: ActiveProcess | None = None
        """Who stood there when it was last read."""
        self._dead: ActiveProcess | None = None
        """Whose process is dead, though it stands there."""
        self._noticed: _Noticed | None = None
        """Why this process campaigns."""
        self._lives = 0
        """Counts losses of the session, so that what was elected before one is not acted on after it."""
        self._peers = peers
        self._reader = Reader(f"coordinator-{store.shard}", self._look, connected)

    def start(self) -> None:
        """Begin: read who is active, and campaign where nobody is. Called once the server listens."""
        self._reader.start()
        self._reader.mark()

    async def close(self) -> None:
        """Be a candidate no more, and make room for another one. Raises ZooKeeperError where that fails: the
        znode goes with the session then."""
        await self._reader.close()
        self._peers.unwatch(self.shard)
        self.is_active = False
        await self._store.abdicate()

    def mark(self) -> None:
        """Who is active may have changed."""
        self._reader.mark()

    def resigned(self) -> None:
        """The core has resigned, since a write of it was fenced: look who is active."""
        if self.is_active:
            self.is_active = False
            self._callbacks.deposed(self.shard)
        self._reader.mark()

    def overtaken(self, other: Endpoint) -> None:
        """Brokers say that another process was elected, while this one cannot ask ZooKeeper: be active no
        more. Where they are wrong, this session still holds the seat, and resumes it once it is connected."""
        if self.is_active:
            _log.warning("shard %d: brokers name coordinator %d instead of this one", self.shard, other.id)
            self._lives += 1
            self.is_active = False
            self._callbacks.seen(self.shard, other)
            self._callbacks.deposed(self.shard)

    def stood_still(self) -> None:
        """This process has stood still, and another one may have been elected meanwhile: be active no more.
        If its session lives, it still holds the seat, and resumes it."""
        if self.is_active:
            self._lives += 1
            self.is_active = False
            self._callbacks.deposed(self.shard)
            self._reader.mark()

    def session_lost(self) -> None:
        """The session expired, and the znode with it."""
        self._lives += 1
        if self.is_active:
            self.is_active = False
            self._callbacks.deposed(self.shard)

    async def _look(self) -> None:
        """Read who is active, and do what follows. One at a time: see Reader."""
        standing = await self._store.standing(watch=True)
        if standing is not None and standing.is_mine:
            if not self.is_active:
                await self._resume(standing)
            return
        if self.is_active:
            _log.warning("shard %d: this coordinator's znode is gone: it resigns", self.shard)
            self.is_active = False
            self._callbacks.deposed(self.shard)
        before, self._active = self._active, standing
        if standing is None:
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
            # The port is ours now, so that this is what an earlier life of this process left behind.
            self._died(standing, None)
            return
        self._peers.watch(self.shard, address, lambda broke_at_us: self._died(standing, broke_at_us))

    def _died(self, standing: ActiveProcess, broke_at_us: int | None) -> None:
        """The active coordinator's process is dead, though its session and its znode live on for a while."""
        self._dead = standing
        previous = _endpoint_of(standing)
        self._noticed = _Noticed("process_died", previous, broke_at_us, self._clock.wall_us())
        self._reader.mark()

    async def _campaign(self, stale_epoch: int | None) -> None:
        assert self._noticed is not None, "there is a reason to campaign"
        spread_s = _SPREAD_AT_START_S if self._noticed.cause == "vacant" else _SPREAD_S
        await asyncio.sleep(self._rank * spread_s)
        life = self._lives
        epoch = await self._store.elect(stale_epoch)
        if epoch is None:
            # Somebody else was quicker, which the watch tells; or a hand was there, which nothing tells.
            asyncio.get_running_loop().call_later(_AGAIN_S, self._reader.mark)
            return
        await self._take_over(epoch, life)

    async def _resume(self, standing: ActiveProcess) -> None:
        """Elected, but the connection broke before that could be acted on."""
        life = self._lives
        epoch = await self._store.resume()
        if epoch is None:
            _log.warning("shard %d: the znode of this coordinator is of no use: it goes", self.shard)
            await self._store.abdicate()
            self._reader.mark()
            return
        self._note("session_ended", None)
        await self._take_over(epoch, life)

    async def _take_over(self, epoch: int, life: int) -> None:
        elected_at_us = self._clock.wall_us()
        loaded = await self._store.load()
        if life != self._lives:
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
            Takeover(
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
    """Multiples of irrational numbers lie evenly: few processes get about as many shards each."""
    return (coordinator_id * 0.6180339887 + shard * 0.4142135624) % 1
