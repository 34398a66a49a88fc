"""Carrying out the controller's orders: LeaderAndISR, StopReplica, UpdateMetadata (V3 section C).

The fences are checked first, in this order: cluster id, broker epoch, controller epoch, the number of the
request. The core of each replica checks leader epochs and partition epochs.

Theory of operation. An order about a replica that runs, or about one without a log yet, is carried out at
once. An order that has to wait for a disk (opening and perhaps recovering a log, a quarantine) waits without
holding up the others. Later orders for the same partition wait for it (`partition_queue`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.telemetry.span_kinds import BECOME_FOLLOWER, BECOME_LEADER
from hightide_runtime.telemetry.trace_context import current_traceparent, root_of
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_broker.cluster.metadata import LeaderChange, MetadataCache, MetadataUpdate
from hightide_broker.cluster.partition_decisions import (
    Decisions,
    PartitionDecision,
    PartitionKey,
    Stamp,
    StopDecision,
)
from hightide_broker.cluster.topic_settings import topic_settings
from hightide_broker.contract.convert_control import ControlResults
from hightide_broker.core.decisions import refuse_decision
from hightide_broker.core.events import LeaderAndIsrDecided, StopRequested
from hightide_broker.core.replica import Decision, Replica, Role
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.hosting.partition_queue import PartitionQueues, QueuePlace
from hightide_broker.hosting.registration import Registration
from hightide_broker.hosting.replica_lifecycle import OK, ReplicaLifecycle, ReplicaOrder
from hightide_broker.hosting.strays import HeldReplica
from hightide_broker.replica.first_commit import FirstCommit
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import ReplicaShell
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)

REGISTRATION_WAIT_S: Final = 5.0
CHANGE_TOLD_S: Final = 60.0
"""How long answers with metadata name the trace that began a leader epoch. Clients ask at once after a
change."""
BREATHE_EVERY: Final = 200
"""Partitions after which other tasks of the event loop run: 10,000 decisions must not delay produces for
long."""
SAMPLE: Final = 10
"""Partitions that a span names; it counts the others."""
STOPS_AT_ONCE: Final = 50
"""Stops that begin before other tasks of the event loop run. Each costs more than a decision."""
OPENINGS_MAX: Final = 16
"""Decisions of one request that wait for disks at the same time."""

LET_GO_MAX: Final = 10_000
"""How many stopped replicas are remembered. A late command is late by a minute at most."""

_OBEYING: Final = frozenset({Role.LEADER, Role.TRUNCATING, Role.FETCHING, Role.OFFLINE})


@dataclass(frozen=True, slots=True)
class ControlListeners:
    """Those parts of a broker that act on what the controller says, beside the replicas."""

    suspect: Callable[[Iterable[PartitionKey]], None]
    """These replicas may not be assigned to this broker any more (`strays.StrayWatch`)."""
    controller_elected: Callable[[], None]
    """The first word of a new controller has come."""
    limit_moves: Callable[[int], None]
    """The speed limit of moves is this many bytes a second; 0: there is none."""


class ControlHandler:
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
        listeners: ControlListeners,
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
        self._min_insync_replicas = min_insync_replicas
        self._lifecycle = ReplicaLifecycle(broker_id, replicas, shell, directories, replica_lag_time_max_ms)
        self._queues = PartitionQueues()
        self._let_go: dict[PartitionKey, None] = {}
        """The replicas that this life of the broker has put aside, and that were not assigned again. The
        oldest are forgotten."""
        self.controller_epoch = 0
        """The newest controller epoch seen: an older one is refused."""
        self._sequence = 0
        """The highest number of a request of that controller: a lower one is refused."""
        self._listeners = listeners

    async def leader_and_isr(self, stamp: Stamp, decisions: Decisions) -> ControlResults:
        """Carry out a LeaderAndISR, and return the outcome of each decision. Raises ServiceError if it is
        fenced."""
        await self._fence(stamp)
        for leader in decisions.leaders:
            self._metadata.brokers[leader.id] = leader
        return await self.decide(decisions)

    async def decide(self, decisions: Decisions, *, is_live: bool = True) -> ControlResults:
        """Carry out decisions. `is_live` is true for a controller's, and false at startup, when the decisions
        are what ZooKeeper holds (V3 section E)."""
        spans = _Spans(self._telemetry, self._clock, is_live=is_live)
        orders = list(self._orders(decisions))
        codes: dict[PartitionKey, ErrorCode.ValueType] = {}
        at_once: list[ReplicaOrder] = []
        waiting: list[tuple[ReplicaOrder, QueuePlace]] = []
        for order in orders:
            if self._queues.is_free(order.key) and self._lifecycle.is_at_hand(order):
                at_once.append(order)
            else:
                waiting.append((order, self._queues.take(order.key)))
        place = self._queues.take_free(order.key for order in at_once)
        try:
            for done, order in enumerate(at_once, start=1):
                codes[order.key] = await self._obey(order, spans)
                if done % BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
            place.end()
            self._note(decisions, spans)
            await self._obey_in_turn(waiting, spans, codes)
        finally:
            place.end()
            for _, each in waiting:
                each.end()
            self._listeners.suspect(self._left_by(orders))
        spans.end()
        return [(*order.key, codes[order.key]) for order in orders]

    async def stop_replicas(self, stamp: Stamp, stops: Sequence[StopDecision]) -> ControlResults:
        """Carry out a StopReplica, and return the outcome of each stop. A replica that is not here counts as
        stopped. If data is to be deleted, the call returns when it is in quarantine. Raises ServiceError if
        it is fenced."""
        await self._fence(stamp)
        under_way: list[asyncio.Task[ErrorCode.ValueType]] = []
        for stop in stops:
            # Each goes on even if the caller has given up.
            under_way.append(asyncio.create_task(self._stop_one(stamp.controller_epoch, stop)))
            if len(under_way) % STOPS_AT_ONCE == 0:
                await asyncio.sleep(0)
        if under_way:
            await asyncio.wait(under_way)
        codes = [each.result() for each in under_way]
        log.info(
            "stopped %d of %d replicas, as controller %d decided; %d with their data",
            codes.count(OK), len(stops), stamp.controller_id, sum(stop.delete for stop in stops),
        )  # fmt: skip
        return [(each.topic_id, each.partition, code) for each, code in zip(stops, codes, strict=True)]

    async def update_metadata(self, stamp: Stamp, update: MetadataUpdate) -> None:
        """Apply the controller's metadata about the cluster. Raises ServiceError if it is fenced."""
        await self._fence(stamp)
        forgotten = self._metadata.apply(update, self._leader_change())
        if update.reassignment_throttle_bytes_per_s is not None:
            self._listeners.limit_moves(update.reassignment_throttle_bytes_per_s)
        self._listeners.suspect(self._suspects(update, forgotten))

    def _leader_change(self) -> LeaderChange | None:
        """The trace of this call, which metadata names for a while; None if the call has no trace."""
        caller = current_traceparent()
        if not caller:
            return None
        change = LeaderChange(root_of(caller))
        asyncio.get_running_loop().call_later(CHANGE_TOLD_S, setattr, change, "traceparent", "")
        return change

    def stopped(self, replica: HostedReplica, delete: bool) -> None:
        """Take note that the core of a replica has stopped. Called by the shell."""
        self._lifecycle.stopped(replica, delete)
        if not delete:
            self._listeners.suspect((replica.key,))

    # --- strays ----------------------------------------------------------------------------------

    def held(self, key: PartitionKey) -> HeldReplica | None:
        """The replica of a partition that this broker holds, running or only on disk; None if it holds
        none."""
        replica = self._replicas.get(key)
        if replica is not None:
            decision = replica.state.decision
            return HeldReplica(key, replica.topic, decision.leader_epoch, decision.partition_epoch)
        home = self._directories.home_of(key)
        return None if home is None or home.failure is not None else HeldReplica(key)

    def not_hosted(self) -> list[PartitionKey]:
        """The partitions that are on disk and do not run."""
        return [key for key in self._directories.partitions() if self._replicas.get(key) is None]

    async def let_go(self, held: HeldReplica) -> bool:
        """Put a replica that is not assigned any more into quarantine, unless there is news about it since.
        Returns whether it is gone. Never raises if a disk fails: the directory is then offline, with
        everything in it."""
        place = self._queues.take(held.key)
        try:
            await place.begin()
            if self.held(held.key) != held:
                return False
            replica = self._replicas.get(held.key)
            if replica is not None:
                event = StopRequested(replica.state.decision.controller_epoch, held.leader_epoch, delete=True)
                if self._lifecycle.feed(replica, event) != OK:
                    return False
            self._note_let_go(held.key)
            await self._lifecycle.put_aside(held.key)
        except StorageError as error:
            log.error("%s is not put aside: %s", held, error)
            return False
        finally:
            place.end()
        return True

    def _note_let_go(self, key: PartitionKey) -> None:
        self._let_go[key] = None
        if len(self._let_go) > LET_GO_MAX:
            del self._let_go[next(iter(self._let_go))]

    def _left_by(self, orders: Iterable[ReplicaOrder]) -> list[PartitionKey]:
        """The replicas that are here after these orders, though no metadata gives them to this broker, or
        though they were put aside before. An order that came late, or waited while a newer controller spoke,
        may be about a partition that is gone. What took it away did not find the replica here. Metadata that
        came late may name it too."""
        found = []
        for order in orders:
            is_doubtful = order.key in self._let_go or not self._is_told_to_be_here(order.key)
            if is_doubtful and self.held(order.key) is not None:
                self._let_go.pop(order.key, None)
                found.append(order.key)
        return found

    def _suspects(self, update: MetadataUpdate, forgotten: Iterable[bytes]) -> list[PartitionKey]:
        """The replicas here that an update does not name, or gives to other brokers. They are to be
        checked."""
        if update.full:
            named: Iterable[PartitionKey] = (*(each.key for each in self._replicas), *self.not_hosted())
        else:
            named = (
                *self._of_topics(forgotten),
                *((each.topic_id, number) for each in update.removed for number in each.partitions),
                *((topic.topic_id, each.partition) for topic in update.topics for each in topic.partitions),
            )
        return [key for key in named if not self._is_told_to_be_here(key) and self.held(key) is not None]

    def _of_topics(self, topic_ids: Iterable[bytes]) -> list[PartitionKey]:
        return [replica.key for topic_id in topic_ids for replica in self._replicas.of_topic(topic_id)]

    def _is_told_to_be_here(self, key: PartitionKey) -> bool:
        view = self._metadata.partition(*key)
        return view is not None and self._broker_id in view.replicas

    # --- fences ----------------------------------------------------------------------------------

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
            broker_epoch = -1  # not registered: the request is for another epoch in any case
        # A newer epoch belongs to another process under our id: our own is known before it can be read.
        if stamp.broker_epoch != broker_epoch:
            raise ServiceError(
                ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH,
                f"broker epoch {stamp.broker_epoch} belongs to another registration of broker "
                f"{self._broker_id}, whose epoch is {broker_epoch}; read it again",
            )
        if stamp.controller_epoch < self.controller_epoch:
            raise ServiceError(
                ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH,
                f"controller {stamp.controller_id} has epoch {stamp.controller_epoch}, and a controller "
                f"with epoch {self.controller_epoch} was elected since; resign",
            )
        if stamp.controller_epoch > self.controller_epoch:
            self.controller_epoch, self._sequence = stamp.controller_epoch, 0
            self._listeners.controller_elected()
        if 0 < stamp.sequence < self._sequence:
            raise ServiceError(
                ErrorCode.ERROR_CODE_TIMED_OUT,
                f"request {stamp.sequence} of controller {stamp.controller_id} comes after its request "
                f"{self._sequence}, so the controller has given it up: it is not carried out",
            )
        self._sequence = max(self._sequence, stamp.sequence)

    # --- one decision ----------------------------------------------------------------------------

    def _orders(self, decisions: Decisions) -> Iterator[ReplicaOrder]:
        for topic in decisions.topics:
            settings = topic_settings(topic.topic, topic.configs, self._min_insync_replicas)
            for told in topic.partitions:
                yield ReplicaOrder((topic.topic_id, told.partition), topic.topic, settings, told)

    def _note(self, decisions: Decisions, spans: _Spans) -> None:
        """Let clients hear of the new leaders at once: the controller's UpdateMetadata comes later. Where a
        topic's name has another id now, the replicas of the old one are to be checked."""
        change = self._leader_change()
        for topic in decisions.topics:
            views = [each.view for each in topic.partitions if not self._is_overtaken(each, spans)]
            if views:
                forgotten = self._metadata.note_decisions(topic.topic, topic.topic_id, views, change)
                self._listeners.suspect(self._of_topics(forgotten))

    async def _obey_in_turn(
        self,
        waiting: Sequence[tuple[ReplicaOrder, QueuePlace]],
        spans: _Spans,
        codes: dict[PartitionKey, ErrorCode.ValueType],
    ) -> None:
        pending = iter(waiting)

        async def obey() -> None:
            for order, place in pending:
                await place.begin()
                codes[order.key] = await self._obey(order, spans)
                place.end()

        await asyncio.gather(*(obey() for _ in range(min(OPENINGS_MAX, len(waiting)))))

    async def _obey(self, order: ReplicaOrder, spans: _Spans) -> ErrorCode.ValueType:
        decision = order.told.decision
        if self._is_overtaken(order.told, spans):
            return ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH
        try:
            replica = await self._lifecycle.replica_for(order, is_live=spans.is_live)
        except StorageError as error:
            log.error("%s-%d cannot be opened: %s", order.topic, order.told.partition, error)
            return error.code
        if self._is_overtaken(order.told, spans):
            return ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH
        if replica is None:
            return ErrorCode.ERROR_CODE_UNKNOWN_PARTITION
        before = replica.state
        adding = frozenset(order.told.adding_replicas)
        if replica.settings == order.settings and _is_obeyed(before, decision):
            replica.adding_replicas = adding
            return OK
        # A decision that comes late brings settings that are late.
        if replica.settings != order.settings and refuse_decision(before, decision) is None:
            self._lifecycle.change_settings(replica, order.settings)
        code = self._lifecycle.feed(replica, LeaderAndIsrDecided(decision, self._clock.monotonic_ms()))
        if code != OK:
            return code
        replica.adding_replicas = adding
        if replica.state.leader_epoch != before.leader_epoch:
            spans.decided(replica)
        return OK

    def _is_overtaken(self, told: PartitionDecision, spans: _Spans) -> bool:
        """Whether a newer controller has sent a request while this one's decision waited."""
        return spans.is_live and told.decision.controller_epoch < self.controller_epoch

    async def _stop_one(self, controller_epoch: int, stop: StopDecision) -> ErrorCode.ValueType:
        key = (stop.topic_id, stop.partition)
        place = self._queues.take(key)
        try:
            await place.begin()
            replica = self._replicas.get(key)
            if replica is not None:
                event = StopRequested(controller_epoch, stop.leader_epoch, stop.delete, stop.partition_epoch)
                code = self._lifecycle.feed(replica, event)
                if code != OK:
                    return code
            if stop.delete:
                self._note_let_go(key)
                await self._lifecycle.put_aside(key)
        except StorageError as error:
            self._listeners.suspect((key,))
            return error.code
        finally:
            place.end()
        return OK


class _Spans:
    """The spans of one LeaderAndISR: replicas that became leader, replicas that became follower, and the wait
    for the first commit.

    There is one span for all partitions of a request, so the trace of a failover of ten thousand stays
    readable.
    """

    def __init__(self, telemetry: Telemetry, clock: Clock, is_live: bool) -> None:
        self.is_live = is_live
        """`is_live` is true for a decision of a controller, and false at startup, when stored decisions are
        read."""
        self._telemetry = telemetry
        self._traceparent = current_traceparent() if telemetry.enabled else ""
        self._clock = clock
        self._started_us = clock.wall_us()
        self._decided: list[HostedReplica] = []

    def decided(self, replica: HostedReplica) -> None:
        """Take note that the decision gave the replica a new leader epoch."""
        replica.traceparent = self._traceparent
        self._decided.append(replica)

    def end(self) -> None:
        """End the spans: all decisions are carried out."""
        if not self._traceparent:
            return
        leaders = [replica for replica in self._decided if replica.state.is_leader]
        followers = [replica for replica in self._decided if replica.state.is_follower]
        traceparent = self._span(BECOME_LEADER, leaders)
        self._span(BECOME_FOLLOWER, followers)
        if leaders:
            first_commit = FirstCommit(self._telemetry, self._clock, traceparent, len(leaders))
            for replica in leaders:
                replica.first_commit = first_commit

    def _span(self, name: str, replicas: list[HostedReplica]) -> str:
        if not replicas:
            return ""
        span = self._telemetry.span(
            name,
            parent=self._traceparent,
            start_time_us=self._started_us,
            attributes={
                "partition_count": len(replicas),
                "partition_sample": ", ".join(map(str, replicas[:SAMPLE])),
                "leader_epoch": max(replica.state.leader_epoch for replica in replicas),
            },
        )
        span.end()
        for replica in replicas:
            replica.traceparent = span.traceparent
        return span.traceparent


def _is_obeyed(state: Replica, decision: Decision) -> bool:
    """Whether the replica acts on this very decision already. Its core would give the same answer, at a
    higher cost."""
    known = state.decision
    return (
        known.partition_epoch == decision.partition_epoch
        and known.leader_epoch == decision.leader_epoch
        and known.controller_epoch == decision.controller_epoch
        and known.leader == decision.leader
        and known.replicas == decision.replicas
        and state.role in _OBEYING
    )
