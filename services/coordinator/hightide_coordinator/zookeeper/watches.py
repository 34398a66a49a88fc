"""Passes the events of ZooKeeper's session on, for all shards of a process. Only it reads
`session.events`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from hightide_runtime.clock import Clock
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.znodes.cluster_znodes import COORDINATOR_CANDIDATES, CandidateZnode
from hightide_runtime.zookeeper.candidates import Candidate
from hightide_runtime.zookeeper.session import (
    SessionState,
    SessionStateChanged,
    TreeChanged,
    WatchFired,
    ZooKeeperError,
    ZooKeeperSession,
)
from hightide_runtime.zookeeper.znode_reader import RepeatedReader
from msgspec.structs import astuple

from hightide_coordinator.core.effects import WatchTopics
from hightide_coordinator.core.events import BrokersChanged, Elected, Endpoint, TopicsChanged
from hightide_coordinator.zookeeper.candidacy import Candidacy, CandidacyCallbacks, ShardTakeover
from hightide_coordinator.zookeeper.cluster_reader import ClusterReader
from hightide_coordinator.zookeeper.complaints import Complaints
from hightide_coordinator.zookeeper.peers import PeerWatch
from hightide_coordinator.zookeeper.store import CoordinatorStore, seat_of
from hightide_coordinator.zookeeper.topic_watches import TopicWatches

__all__ = ["CoordinatorWatches"]

_log = logging.getLogger(__name__)


class CoordinatorWatches:
    """Runs the candidacies of all shards, and follows topics and brokers while one of them is active. One for
    each process. Callbacks run on the loop. TopicsChanged and BrokersChanged are for all shards.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        shard_count: int,
        identity: Endpoint,
        clock: Clock,
        open_channel: OpenChannel,
        *,
        on_seen: Callable[[int, Endpoint | None], None],
        on_elected: Callable[[int, Elected, ShardTakeover], None],
        on_deposed: Callable[[int], None],
        on_topics: Callable[[TopicsChanged], None],
        on_brokers: Callable[[BrokersChanged], None],
    ) -> None:
        """`on_seen`, `on_elected` and `on_deposed` are those of CandidacyCallbacks."""
        self._session = session
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self.connected = asyncio.Event()
        self.connected.set()
        complaints = Complaints()
        self.stores = tuple(
            CoordinatorStore(session, shard, shard_count, identity, complaints)
            for shard in range(shard_count)
        )
        """The stores, by shard."""
        callbacks = CandidacyCallbacks(on_seen, self._elected, self._deposed)
        peers = PeerWatch(clock, open_channel)
        self.candidacies = tuple(
            Candidacy(store, identity, clock, self.connected, peers, callbacks, self.held)
            for store in self.stores
        )
        """The candidacies, by shard."""
        self._by_path = {seat_of(each.shard, shard_count).path: each for each in self.candidacies}
        self._wanted: dict[int, set[str]] = {}
        """The topics that the groups of each shard read."""
        self._topics = TopicWatches(
            session, ClusterReader(session, complaints), self.connected, on_topics, on_brokers
        )
        self._candidate = RepeatedReader(
            "candidate",
            Candidate(session, COORDINATOR_CANDIDATES, CandidateZnode(*astuple(identity))).stand,
            self.connected,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Campaign for every shard that no process coordinates. Called once the server listens."""
        self._task = asyncio.create_task(self._follow_session(), name="zookeeper-events")
        self._topics.start()
        self._candidate.start()
        self._candidate.mark()
        for candidacy in self.candidacies:
            candidacy.start()

    async def close(self) -> None:
        """Stop, and give up all shards, so that other processes are elected at once. Raises nothing.

        The caller closes the session afterwards.
        """
        await self._topics.close()
        await self._candidate.close()
        for candidacy in self.candidacies:
            try:
                await candidacy.close()
            except ZooKeeperError as error:
                _log.info("shard %d is handed over with the session: %s", candidacy.shard, error)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def held(self) -> int:
        """The number of shards that this process coordinates."""
        return sum(each.is_active for each in self.candidacies)

    def give_up(self, shard: int) -> int | None:
        """Give up a shard, so that another process is elected for it. Returns the coordinator epoch that
        ends; None if this process does not coordinate the shard."""
        candidacy = self.candidacies[shard]
        return candidacy.give_up() if candidacy.is_active else None

    def watch_topics(self, shard: int, effect: WatchTopics) -> None:
        """Carry out the effect WatchTopics of this shard's core."""
        wanted = self._wanted.setdefault(shard, set())
        wanted |= effect.more
        wanted -= effect.fewer
        self._topics.watch(effect.more)
        self._unwatch(effect.fewer)

    async def look_up_topics(self, topics: Iterable[str]) -> None:
        """Read these topics, and report them to all shards. Raises ZooKeeperError."""
        await self._topics.look_up(topics)

    def _unwatch(self, topics: Iterable[str]) -> None:
        """Stop following these topics, except those that another shard wants."""
        self._topics.unwatch(set(topics).difference(*self._wanted.values()))

    def overtaken(self, shard: int, other: Endpoint) -> None:
        """Handle the report of brokers that another process coordinates this shard."""
        self.candidacies[shard].overtaken(other)

    def was_paused(self) -> None:
        """Handle a pause of this process that was so long that its session may have ended."""
        for candidacy in self.candidacies:
            candidacy.was_paused()

    def resigned(self, shard: int) -> None:
        """Carry out the effect Resign of this shard's core, unless it follows from `on_deposed`."""
        self.candidacies[shard].resigned()

    def _elected(self, shard: int, elected: Elected, takeover: ShardTakeover) -> None:
        self._unwatch(self._wanted.pop(shard, ()))
        self._on_elected(shard, elected, takeover)
        self._topics.activate(elected.topics)

    def _deposed(self, shard: int) -> None:
        self._unwatch(self._wanted.pop(shard, ()))
        if not self.held():
            self._topics.deactivate()
        self._on_deposed(shard)

    async def _follow_session(self) -> None:
        while True:
            event = await self._session.events.get()
            match event:
                case SessionStateChanged(state=SessionState.CONNECTED):
                    self.connected.set()
                    self._topics.reconnected()
                    self._candidate.mark()
                    for candidacy in self.candidacies:
                        candidacy.mark()
                case SessionStateChanged(state=state):
                    self.connected.clear()
                    if state is SessionState.LOST:
                        for candidacy in self.candidacies:
                            candidacy.session_lost()
                case WatchFired(path=path):
                    if (candidacy_at := self._by_path.get(path)) is not None:
                        candidacy_at.mark()
                    else:
                        self._topics.fired(path)
                case TreeChanged():
                    pass
