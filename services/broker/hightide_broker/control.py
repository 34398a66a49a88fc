"""Acting on the controller's word: LeaderAndISR, StopReplica, UpdateMetadata (V3 section C, DESIGN §6.2).

The fences come first, in this order: cluster id, broker epoch, controller epoch. Leader epochs and
partition epochs are fenced by each replica's core.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.telemetry import (
    BECOME_FOLLOWER,
    BECOME_LEADER,
    Telemetry,
    current_traceparent,
)

from hightide_broker import convert
from hightide_broker.core.events import LeaderAndIsrDecided, SettingsChanged, StopRequested
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.decisions import (
    Decisions,
    PartitionDecision,
    PartitionKey,
    Stamp,
    StopDecision,
    TopicDecisions,
)
from hightide_broker.first_commit import FirstCommit
from hightide_broker.hosted import HostedReplica, HostedReplicas
from hightide_broker.log_directories import LogDirectories
from hightide_broker.metadata import MetadataCache, MetadataUpdate, PartitionView
from hightide_broker.registration import Registration
from hightide_broker.shell import ReplicaShell, refusal_in
from hightide_broker.storage import StorageError
from hightide_broker.topic_settings import TopicSettings, topic_settings

log = logging.getLogger(__name__)

REGISTRATION_WAIT_S: Final = 5.0
BREATHE_EVERY: Final = 200
"""Partitions after which the loop gets a turn: 10,000 decisions must not hold up produces for long."""

OK: Final = ErrorCode.ERROR_CODE_UNSPECIFIED


class Control:
    """Carries out the controller's decisions. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        shell: ReplicaShell,
        directories: LogDirectories,
        registration: Registration,
        telemetry: Telemetry,
        replica_lag_time_max_ms: int,
        min_insync_replicas: int,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._replicas = replicas
        self._metadata = metadata
        self._shell = shell
        self._directories = directories
        self._registration = registration
        self._telemetry = telemetry
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self._min_insync_replicas = min_insync_replicas
        self.controller_epoch = 0
        """The newest controller epoch seen: an older one is refused."""

    async def leader_and_isr(self, stamp: Stamp, decisions: Decisions) -> convert.ControlResults:
        """Obey a LeaderAndISR; what became of each decision. Raises ServiceError where it is fenced."""
        await self._fence(stamp)
        for leader in decisions.leaders:
            self._metadata.brokers[leader.id] = leader
        return await self.decide(stamp.controller_epoch, decisions)

    async def decide(self, controller_epoch: int | None, decisions: Decisions) -> convert.ControlResults:
        """Carry out decisions. `controller_epoch` is that of who sends them; None at startup, when they are
        what ZooKeeper holds and each has the epoch of who wrote it (V3 section E).
        """
        results: list[tuple[bytes, int, ErrorCode.ValueType]] = []
        turn = _Turn(self._telemetry, self._clock, is_live=controller_epoch is not None)
        done = 0
        for topic in decisions.topics:
            settings = topic_settings(topic.topic, topic.configs, self._min_insync_replicas)
            for decision in topic.partitions:
                epoch = decision.controller_epoch if controller_epoch is None else controller_epoch
                code = await self._decide_one(epoch, topic, settings, decision, turn)
                results.append((topic.topic_id, decision.partition, code))
                done += 1
                if done % BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
            self._metadata.note_decisions(topic.topic, topic.topic_id, map(_view, topic.partitions))
        turn.end()
        return results

    async def stop_replicas(self, stamp: Stamp, stops: Sequence[StopDecision]) -> convert.ControlResults:
        """Obey a StopReplica. A replica that is not here has stopped already. Raises ServiceError."""
        await self._fence(stamp)
        results: list[tuple[bytes, int, ErrorCode.ValueType]] = []
        for stop in stops:
            key = (stop.topic_id, stop.partition)
            replica = self._replicas.get(key)
            code: ErrorCode.ValueType = OK
            if replica is not None:
                event = StopRequested(
                    stamp.controller_epoch, stop.leader_epoch, stop.delete, stop.partition_epoch
                )
                code = self._feed(replica, event)
            if stop.delete and code == OK:
                # Where the replica's core has just stopped, this is the quarantine that it began.
                code = await self._put_aside(key)
            results.append((*key, code))
        return results

    async def _put_aside(self, key: PartitionKey) -> ErrorCode.ValueType:
        try:
            await self._directories.quarantine(key, self._clock.wall_us())
        except StorageError as error:
            return error.code
        return OK

    async def update_metadata(self, stamp: Stamp, update: MetadataUpdate) -> None:
        """Take over what the controller says about the cluster. Raises ServiceError where it is fenced."""
        await self._fence(stamp)
        self._metadata.apply(update)

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """The replica's core has stopped. With `delete` its data goes into quarantine (DESIGN §6.6)."""
        if delete:
            self._replicas.remove(replica)
            self._directories.quarantine(replica.key, self._clock.wall_us())

    async def _fence(self, stamp: Stamp) -> None:
        if stamp.cluster_id != self._metadata.cluster_id:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID,
                f"controller {stamp.controller_id} belongs to cluster {stamp.cluster_id[:64]!r}, this broker "
                f"to {self._metadata.cluster_id!r}; point both at the same ZooKeeper",
            )
        try:
            broker_epoch = await self._registration.known(REGISTRATION_WAIT_S)
        except TimeoutError:
            broker_epoch = -1  # not registered: whatever epoch is meant, it is not ours
        # A newer one is another process under our id: our registration was known before it could be read.
        if stamp.broker_epoch != broker_epoch:
            raise ServiceError(
                ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH,
                f"broker epoch {stamp.broker_epoch} is another life of broker {self._broker_id}, now in "
                f"{broker_epoch}; read its registration again",
            )
        if stamp.controller_epoch < self.controller_epoch:
            raise ServiceError(
                ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH,
                f"controller {stamp.controller_id} speaks under epoch {stamp.controller_epoch}, but "
                f"{self.controller_epoch} was elected since; resign",
            )
        self.controller_epoch = stamp.controller_epoch

    # --- one decision ----------------------------------------------------------------------------

    async def _decide_one(
        self,
        controller_epoch: int,
        topic: TopicDecisions,
        settings: TopicSettings,
        decision: PartitionDecision,
        turn: _Turn,
    ) -> ErrorCode.ValueType:
        key = (topic.topic_id, decision.partition)
        replica = self._replicas.get(key)
        if replica is None:
            if self._broker_id not in decision.replicas:
                return ErrorCode.ERROR_CODE_UNKNOWN_PARTITION
            try:
                # What ZooKeeper holds when the broker starts was decided before, whatever its epoch.
                is_first = decision.is_first and turn.is_live
                replica = await self._host(key, topic.topic, settings, is_first)
            except StorageError as error:
                log.error("%s-%d cannot be opened: %s", topic.topic, decision.partition, error)
                return error.code
        self._change_settings(replica, settings)
        before = replica.state
        event = LeaderAndIsrDecided(
            controller_epoch,
            decision.leader,
            decision.leader_epoch,
            decision.isr,
            decision.replicas,
            decision.partition_epoch,
            self._clock.monotonic_ms(),
        )
        code = self._feed(replica, event)
        if code == OK and replica.state.leader_epoch != before.leader_epoch:
            turn.decided(replica)
        return code

    async def _host(
        self, key: PartitionKey, topic: str, settings: TopicSettings, is_first: bool
    ) -> HostedReplica:
        """Start a replica (V3 startReplica): open its log, off the loop where it may have to be recovered."""
        is_new = not self._directories.holds(key)
        if is_new:
            opened = await self._directories.create_log(key, topic, settings.log, is_first)
        else:
            opened = await self._directories.open_log(key, topic, settings.log)
        found = self._replicas.get(key)
        if found is not None:
            return found  # another decision was faster
        state = Replica.opened(
            self._core_settings(settings),
            log_start_offset=opened.log_start_offset,
            log_end_offset=opened.log_end_offset,
            high_watermark=opened.high_watermark_checkpoint,
            epochs=tuple((entry.epoch, entry.start_offset) for entry in opened.epochs.entries),
            # Also an empty log may be one that lost all of its records.
            is_new=is_new,
        )
        replica = HostedReplica(key, topic, settings, state, opened)
        self._replicas.add(replica)
        return replica

    def _core_settings(self, settings: TopicSettings) -> ReplicaSettings:
        return ReplicaSettings(
            self._broker_id,
            self._replica_lag_time_max_ms,
            settings.min_insync_replicas,
            settings.flush_on_disk,
        )

    def _change_settings(self, replica: HostedReplica, settings: TopicSettings) -> None:
        if replica.settings == settings:
            return
        replica.settings = settings
        replica.log.update_settings(settings.log)
        self._shell.feed(replica, SettingsChanged(settings.min_insync_replicas, settings.flush_on_disk))
        self._shell.cover_unflushed(replica)
        if replica.state.is_follower:
            # With flush=replicated it need not wait any more for the flush that it waited for.
            self._shell.fetching.resume(replica)

    def _feed(
        self, replica: HostedReplica, event: LeaderAndIsrDecided | StopRequested
    ) -> ErrorCode.ValueType:
        try:
            refusal = refusal_in(self._shell.feed(replica, event))
        except StorageError as error:
            return error.code
        if refusal is None:
            return OK
        log.info("%s: %s is refused: %s", replica, type(event).__name__, refusal.name)
        return convert.error_code_of(refusal)


class _Turn:
    """The spans of one LeaderAndISR: who became leader, who follower, and the wait for the first commit.

    One span for all partitions of a request: a failover of ten thousand is still one readable trace.
    """

    def __init__(self, telemetry: Telemetry, clock: Clock, is_live: bool) -> None:
        self.is_live = is_live
        """A controller decides just now; not so at startup, when its standing decisions are read."""
        self._telemetry = telemetry
        self._traceparent = current_traceparent() if telemetry.enabled else ""
        self._started_us = clock.wall_us()
        self._decided: list[HostedReplica] = []

    def decided(self, replica: HostedReplica) -> None:
        """The decision gave the replica a new leader epoch."""
        replica.traceparent = self._traceparent
        self._decided.append(replica)

    def end(self) -> None:
        """All decisions are carried out."""
        if not self._traceparent:
            return
        leaders = [replica for replica in self._decided if replica.state.is_leader]
        followers = [replica for replica in self._decided if replica.state.is_follower]
        traceparent = self._span(BECOME_LEADER, leaders)
        self._span(BECOME_FOLLOWER, followers)
        if leaders:
            first_commit = FirstCommit(self._telemetry, traceparent, len(leaders))
            for replica in leaders:
                replica.first_commit = first_commit

    def _span(self, name: str, replicas: list[HostedReplica]) -> str:
        if not replicas:
            return ""
        span = self._telemetry.span(
            name,
            parent=self._traceparent,
            start_time_us=self._started_us,
            attributes={"partitions": len(replicas), "first_partition": str(replicas[0])},
        )
        span.end()
        for replica in replicas:
            replica.traceparent = span.traceparent
        return span.traceparent


def _view(decision: PartitionDecision) -> PartitionView:
    return PartitionView(
        decision.partition,
        decision.leader,
        decision.leader_epoch,
        decision.replicas,
        decision.isr,
        decision.partition_epoch,
    )


def on_disk_but_unassigned(
    directories: LogDirectories, hosted: Iterable[HostedReplica]
) -> list[PartitionKey]:
    """Partitions on disk that are not assigned to this broker: kept, until a StopReplica says delete."""
    assigned = {replica.key for replica in hosted}
    return [key for key in directories.partitions() if key not in assigned]
