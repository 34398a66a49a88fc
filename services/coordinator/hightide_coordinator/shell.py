"""The coordinator's shell: the shards of the groups, and what they share (streams, watches, look-ups)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final

from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.process.pause_detector import PauseDetector
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.serving.interceptors.interceptor import Context
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.cluster_znodes import COORDINATOR_CANDIDATES
from hightide_runtime.znodes.group_znodes import shard_of
from hightide_runtime.zookeeper.candidates import read_candidates
from hightide_runtime.zookeeper.session import ZooKeeperError, ZooKeeperSession

from hightide_coordinator.contract.topic_rights import reading_rights
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.commits.commit_fences import not_known
from hightide_coordinator.core.state.descriptions import GroupListing, QuestionRefused, list_groups
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.shard_state import Role
from hightide_coordinator.group_lag import GroupLag
from hightide_coordinator.offset_lookup import StartOffsets
from hightide_coordinator.settings import CoordinatorSettings
from hightide_coordinator.shard import Shard, ShardCallbacks
from hightide_coordinator.streams.consumer_streams import ConsumerStream, ConsumerStreams
from hightide_coordinator.tracing.shard_traces import ShardTraces
from hightide_coordinator.zookeeper.balance import Balance
from hightide_coordinator.zookeeper.candidacy import ShardTakeover
from hightide_coordinator.zookeeper.isolation import IsolationCheck
from hightide_coordinator.zookeeper.watches import CoordinatorWatches

__all__ = ["CoordinatorShell"]

_log = logging.getLogger(__name__)


_HAND_OVER_S: Final = 1.0
"""How long the process waits at its end for ZooKeeper to delete its znodes."""
_FAREWELL_S: Final = 2.0
"""How long it waits until thousands of consumers are informed."""
_STREAMS_PER_CONSUMER: Final = 1.1
"""How much longer a broken stream counts: a consumer may be back on another stream before it is noticed."""
_LOOKED_UP_MAX: Final = 1_000
"""How many unknown topics of one request are looked up."""
_LOOK_UP_S: Final = 2.0
"""How long a request waits for that."""


class CoordinatorShell:
    """The shell of one coordinator process; belongs to the event loop's thread."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        shard_count: int,
        cluster_id: str,
        identity: ev.Endpoint,
        session: ZooKeeperSession,
        telemetry: Telemetry,
        clock: Clock,
        open_channel: OpenChannel,
    ) -> None:
        self.identity = identity
        self.failed = asyncio.Event()
        """Set if this coordinator cannot go on; main then ends the process."""
        self.streams = ConsumerStreams(int(settings.consumers_max * _STREAMS_PER_CONSUMER) + 1)
        self._start_offsets = StartOffsets(open_channel)
        self._watches = CoordinatorWatches(
            session,
            shard_count,
            identity,
            clock,
            open_channel,
            on_seen=lambda shard, elsewhere: self.shards[shard].take(ev.CoordinatorSeen(elsewhere)),
            on_elected=self._elected,
            on_deposed=lambda shard: self.shards[shard].take(ev.Deposed()),
            on_topics=self._take_everywhere,
            on_brokers=self._brokers_changed,
        )
        self._pause_detector = PauseDetector(
            clock, lambda: (session.granted_timeout_ms or settings.zookeeper_session_timeout_ms) / 2
        )
        self._session = session
        self._isolation = IsolationCheck(identity, self._watches, self._start_offsets.coordinators)
        self._balance = Balance(
            identity, self._watches, self._read_candidates, settings.shard_balance_interval_ms
        )
        callbacks = ShardCallbacks(
            watch_topics=self._watches.watch_topics,
            look_for_pause=self._look_for_pause,
            resigned=self._watches.resigned,
            failed=self.failed.set,
        )
        self.shards = tuple(
            Shard(
                store.shard,
                settings.limits,
                store,
                self._start_offsets,
                clock,
                ShardTraces(cluster_id, store.shard, telemetry, clock),
                settings.request_timeout_ms,
                callbacks,
            )
            for store in self._watches.stores
        )
        self.group_lag = GroupLag(
            self._groups_here, StartOffsets(open_channel), settings.group_lag_interval_ms
        )

    def start(self) -> None:
        """Campaign for every shard that no process coordinates. Called once the server listens."""
        self._pause_detector.start()
        self._watches.start()
        self._isolation.start()
        self._balance.start()
        self.group_lag.start()

    async def close(self) -> None:
        """Hand over at once. The caller that opened the session closes it afterwards.

        The znodes are deleted first, so that another process is elected while consumers learn that they have
        to look for it.
        """
        await self._balance.close()
        await self._isolation.close()
        self._pause_detector.close()
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                await self._watches.close()
        except TimeoutError:
            _log.info("ZooKeeper does not answer: what this coordinator held goes with its session")
        await self.streams.stop(
            ServiceError(
                ErrorCode.ERROR_CODE_SHUTTING_DOWN,
                f"coordinator {self.identity.id} is shutting down; another one takes over; ask any broker "
                "which one",
            ),
            _FAREWELL_S,
        )
        for shard in self.shards:
            await shard.close()
        await self._start_offsets.close()
        await self.group_lag.close()

    # ---- what happens

    async def _read_candidates(self) -> tuple[ev.Endpoint, ...]:
        found = await read_candidates(self._session, COORDINATOR_CANDIDATES)
        return tuple(ev.Endpoint(each.id, each.host, each.port) for each in found)

    def _look_for_pause(self) -> None:
        """Check whether this process, or its event loop (`loop_watchdog`), was paused: another one may have
        taken over.

        A process that was paused for half of its session's time may have sent ZooKeeper its last message a
        third of it before. Events that waited meanwhile are for its successor, and its Pings would let
        consumers go on with partitions that others got.
        """
        paused_ms = self._pause_detector.noticed_ms()
        if (paused_ms or self._session.is_given_up) and self._watches.held():
            _log.warning(
                "this coordinator was paused%s: it resigns, until ZooKeeper says which coordinator is active",
                f" for {paused_ms} ms" if paused_ms else ", and its session was ended meanwhile",
            )
            self._watches.was_paused()

    def _elected(self, shard: int, elected: ev.Elected, takeover: ShardTakeover) -> None:
        _log.info(
            "shard %d: coordinator %d is active (%s), coordinator epoch %d: %d groups, %d topics",
            *(shard, self.identity.id, takeover.cause, elected.coordinator_epoch),
            *(len(elected.groups), len(elected.topics)),
        )
        self._know_brokers(elected.brokers)
        self.shards[shard].elected(elected, takeover)

    def _brokers_changed(self, event: ev.BrokersChanged) -> None:
        self._know_brokers(event.brokers)
        self._take_everywhere(event)

    def _know_brokers(self, brokers: tuple[ev.Endpoint, ...]) -> None:
        self._start_offsets.know_brokers(brokers)
        self.group_lag.ends.know_brokers(brokers)

    def _take_everywhere(self, event: ev.TopicsChanged | ev.BrokersChanged) -> None:
        for shard in self.shards:
            shard.take(event)

    # ---- consumers

    async def serve_consumer(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """Serve RegisterConsumer until the stream ends. Raises ServiceError."""
        await self.streams.serve(requests, context, self._register)

    def access_changed(self) -> None:
        """Send away the consumers that may not read any more what they registered for. Their partitions go to
        others as if they had died."""
        self.streams.revoke()

    def _register(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> Shard:
        rights = reading_rights(message.registration)
        if rights is not None and (refusal := rights.missing()) is not None:
            raise refusal
        stream.rights = rights
        shard = self.shard_of(message.registration.group)
        shard.register(stream, message)
        return shard

    # ---- requests

    def resign(self, shards: Iterable[int]) -> list[tuple[int, int]]:
        """Give up these shards, or all that this process coordinates if none is named. Returns them, each
        with the coordinator epoch that ended. Raises ServiceError, before it gives up any."""
        if not self._watches.connected.is_set():
            raise ServiceError(
                ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE,
                f"coordinator {self.identity.id} does not reach ZooKeeper, so no other one could be elected",
            )
        named = sorted(set(shards))
        for shard in named:
            if not 0 <= shard < len(self.shards):
                raise ServiceError(
                    ErrorCode.ERROR_CODE_INVALID_REQUEST,
                    f"there is no shard {shard}: this cluster has shards 0 to {len(self.shards) - 1}",
                )
            self.shards[shard].require_active()
        ended = [(shard, self._watches.give_up(shard)) for shard in named or range(len(self.shards))]
        given_up = [(shard, epoch) for shard, epoch in ended if epoch is not None]
        for shard, epoch in given_up:
            _log.info("shard %d: given up, as an operator asked; coordinator epoch %d ends", shard, epoch)
        return given_up

    def shard_of(self, group: str) -> Shard:
        """The shard that coordinates a group, here or elsewhere."""
        return self.shards[shard_of(group, len(self.shards))]

    async def look_up_topics(self, shard: Shard, commits: Iterable[ev.OffsetCommit]) -> None:
        """Before commits are fed to a shard, read topics that were created just before. Whatever the result,
        the core then judges by what it knows."""
        unknown = tuple(islice(not_known(shard.state, commits), _LOOKED_UP_MAX))
        if not unknown or shard.state.role is not Role.ACTIVE:
            return
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                await self._watches.look_up_topics(unknown)
        except (ZooKeeperError, TimeoutError) as error:
            _log.warning("topics that a commit names were not looked up, such as %r: %r", unknown[0], error)

    def _groups_here(self) -> list[Group]:
        """The groups of the shards that this process coordinates."""
        active = (shard.state for shard in self.shards if shard.state.role is Role.ACTIVE)
        return [group for state in active for group in state.groups.values()]

    def groups(self) -> list[GroupListing]:
        """The groups of all shards that this process coordinates. Raises ServiceError if it coordinates
        none."""
        listings = [(shard, list_groups(shard.state)) for shard in self.shards]
        told = [groups for _, groups in listings if not isinstance(groups, QuestionRefused)]
        if not told:
            shard, refused = listings[0]
            assert isinstance(refused, QuestionRefused)
            raise shard.error_of(refused)
        return [listing for groups in told for listing in groups]
