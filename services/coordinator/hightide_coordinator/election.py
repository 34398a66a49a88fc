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
from hightide_runtime.election import Standing
from hightide_runtime.process_watcher import ProcessWatcher
from hightide_runtime.znode_reader import Reader

from hightide_coordinator.core.events import Elected, Endpoint
from hightide_coordinator.store import CoordinatorStore

__all__ = ["Candidacy", "CandidacyDuties", "Takeover"]

_log = logging.getLogger(__name__)

COORDINATOR_SERVICE: Final = "hightide.v1.CoordinatorService"
_SPREAD_S: Final = 0.1
"""How much longer a process waits before it campaigns, for each shard that it coordinates already."""
_SPREAD_MAX_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Takeover:
    """How this process came to be elected, for the failover trace. Wall-clock times in microseconds."""

    cause: str
    """`process_died`, `session_ended` (the znode went), `vacant` (it never stood there)."""
    previous: Endpoint | None
    noticed_at_us: int
    elected_at_us: int
    loaded_at_us: int


@dataclass(frozen=True, slots=True)
class CandidacyDuties:
    """What a candidacy needs of, and tells to, those around it. All are called on the loop."""

    held: Callable[[], int]
    """How many other shards this process coordinates."""
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
        duties: CandidacyDuties,
    ) -> None:
        self._store = store
        self._identity = identity
        self._clock = clock
        self._duties = duties
        self.shard = store.shard
        self.is_active = False
        self._active: Standing | None = None
        """Who stood there when it was last read."""
        self._dead: tuple[Standing, int] | None = None
        """Whose process is dead, though it stands there, and since when."""
        self._noticed: tuple[str, Endpoint | None, int] | None = None
        """Why this process campaigns: cause, who was active before, when it was noticed."""
        self._lives = 0
        """Counts losses of the session, so that what was elected before one is not acted on after it."""
        self._peer: ProcessWatcher | None = None
        self._reader = Reader(f"coordinator-{store.shard}", self._look, connected)

    def start(self) -> None:
        """Begin: read who is active, and campaign where nobody is. Called once the server listens."""
        self._reader.start()
        self._reader.mark()

    async def close(self) -> None:
        """Be a candidate no more, and make room for another one. Raises ZooKeeperError where that fails: the
        znode goes with the session then."""
        await self._reader.close()
        self._unwatch()
        self.is_active = False
        await self._store.abdicate()

    def mark(self) -> None:
        """Who is active may have changed."""
        self._reader.mark()

    def resigned(self) -> None:
        """The core has resigned, since a write of it was fenced: look who is active."""
        if self.is_active:
            self.is_active = False
            self._duties.deposed(self.shard)
        self._reader.mark()

    def session_lost(self) -> None:
        """The session expired, and the znode with it."""
        self._lives += 1
        if self.is_active:
            self.is_active = False
            self._duties.deposed(self.shard)

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
            self._duties.deposed(self.shard)
        before, self._active = self._active, standing
        if standing is None:
            self._note("vacant" if before is None else "session_ended", before)
            self._unwatch()
            self._duties.seen(self.shard, None)
            await self._campaign(None)
        elif self._dead is not None and self._dead[0] == standing:
            self._unwatch()
            await self._campaign(standing.holder.epoch)
        elif standing != before or self._peer is None:
            self._watch(standing)

    def _note(self, cause: str, before: Standing | None) -> None:
        if self._noticed is None:
            previous = None if before is None else _endpoint_of(before)
            self._noticed = (cause, previous, self._clock.wall_us())

    def _watch(self, standing: Standing) -> None:
        self._unwatch()
        self._noticed = None
        holder = standing.holder
        self._duties.seen(self.shard, _endpoint_of(standing))
        address = HostPort(holder.host, holder.port)
        _log.info("shard %d: coordinator %d at %s is active", self.shard, holder.id, address)
        if address == HostPort(self._identity.host, self._identity.port):
            # The port is ours now, so that this is what an earlier life of this process left behind.
            self._died(standing, self._clock.wall_us())
            return
        self._peer = ProcessWatcher(
            address, COORDINATOR_SERVICE, self._clock, lambda broke_at_us: self._died(standing, broke_at_us)
        )

    def _unwatch(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _died(self, standing: Standing, broke_at_us: int) -> None:
        """The active coordinator's process is dead, though its session and its znode live on for a while."""
        self._dead = (standing, broke_at_us)
        self._noticed = ("process_died", _endpoint_of(standing), broke_at_us)
        self._reader.mark()

    async def _campaign(self, stale_epoch: int | None) -> None:
        # Whoever coordinates fewer shards goes first, so that they spread over the processes.
        await asyncio.sleep(min(self._duties.held() * _SPREAD_S, _SPREAD_MAX_S))
        life = self._lives
        epoch = await self._store.elect(stale_epoch)
        if epoch is None:
            # Somebody else was quicker, so that there is somebody to be seen.
            self._reader.mark()
            await asyncio.sleep(0)
            return
        await self._take_over(epoch, life)

    async def _resume(self, standing: Standing) -> None:
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
        cause, previous, noticed_at_us = self._noticed or ("vacant", None, elected_at_us)
        self._noticed = self._dead = self._active = None
        self.is_active = True
        self._duties.elected(
            self.shard,
            loaded,
            Takeover(cause, previous, noticed_at_us, elected_at_us, self._clock.wall_us()),
        )


def _endpoint_of(standing: Standing) -> Endpoint:
    holder = standing.holder
    return Endpoint(holder.id, holder.host, holder.port)
