"""A simulated broker of many partitions: real replica cores, a disk, and the shell's rules about who is held.

What the shell of a broker does with files and RPCs is done here in memory; what it reads from ZooKeeper at
its start, how it looks for strays, and how it understands the controller's messages is the real code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker import convert, convert_control
from hightide_broker.core import effects as fx
from hightide_broker.core import events as ev
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.lineage import NO_EPOCH
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import ReplicaSettings
from hightide_broker.decisions import Decisions, PartitionDecision, TopicDecisions
from hightide_broker.metadata import MetadataUpdate
from hightide_broker.startup import read_cluster
from hightide_broker.strays import Held, StrayWatch
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes import (
    BrokerIncarnationZnode,
    BrokerZnode,
    LeaderAndIsrZnode,
    TopicIdZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    SessionState,
    SessionStateChanged,
    SetData,
    ZooKeeperError,
)
from sim.broker import SimBroker
from sim.disk import Disk
from sim.messages import AskEpoch, CallFailed, Envelope, Fetch, Record
from sim.topics.loop import SimLoop
from sim.topics.messages import Addressed, Body, Expired, Fired, Key, Rpc, RpcAnswer
from sim.topics.session import SimSession
from sim.topics.tree import Client

Reply = Callable[[Any], None]
RETRY_S = 0.2
OK = ErrorCode.ERROR_CODE_UNSPECIFIED


class Surroundings(Protocol):
    """What a broker may do to the rest of the world."""

    cluster_id: str

    @property
    def now_ms(self) -> int: ...

    def call(self, source: int, target: int, body: Body, then: Reply) -> int: ...

    def answer(self, envelope: Envelope, body: Body) -> None: ...

    def open_session(self) -> int: ...

    def connection_broken(self, client: Client) -> None: ...

    def acknowledged(self, replica: SimReplica, offset: int, record: Record) -> None: ...

    def committed(self, replica: SimReplica) -> None: ...

    def log_changed(self) -> None: ...

    def put_aside(self, host: SimHost, key: Key, why: str) -> None: ...


class _Partition:
    """What one replica sees of the world: messages about its partition."""

    def __init__(self, world: Surroundings, key: Key) -> None:
        self._world = world
        self._key = key
        self.replica: SimReplica | None = None

    @property
    def now_ms(self) -> int:
        return self._world.now_ms

    def call(self, source: int, target: int, body: Any, then: Reply) -> int:
        def unpacked(answer: Any) -> None:
            assert self.replica is not None
            if self.replica.alive:
                then(answer.body if isinstance(answer, Addressed) else answer)

        return self._world.call(source, target, Addressed(self._key, body), unpacked)

    def answer(self, envelope: Envelope, body: Any) -> None:
        self._world.answer(envelope, body if isinstance(body, CallFailed) else Addressed(self._key, body))

    def open_session(self) -> int:
        raise AssertionError("a replica has no session of its own")

    def acknowledged(self, broker_id: int, offset: int, record: Record) -> None:
        assert self.replica is not None
        self._world.acknowledged(self.replica, offset, record)

    def committed(self, broker: SimBroker) -> None:
        assert self.replica is not None
        self._world.committed(self.replica)

    def log_changed(self) -> None:
        self._world.log_changed()

    def deleting(self, before_offset: int) -> None:
        raise AssertionError("nobody lets go of records in these schedules")


class SimReplica(SimBroker):
    """One replica that a broker hosts, from its start to its stop."""

    def __init__(
        self, host: SimHost, key: Key, topic: str, first_leader_epoch: int, disk: Disk, *, is_new: bool
    ) -> None:
        surroundings = _Partition(host.world, key)
        super().__init__(surroundings, host.settings, ())
        surroundings.replica = self
        self.host = host
        self.key = key
        self.topic = topic
        self.first_leader_epoch = first_leader_epoch
        self.disk = disk
        self.lives = 0 if is_new else 1
        self.open()
        self.broker_epoch = host.broker_epoch
        self.incarnation = host.incarnation
        self.lives = host.take_session_ids()
        self.sessions = LeaderSessions(self.lives)

    def _store_isr(self, effect: fx.StoreIsr) -> None:
        self.host.spawn(self.host.store_isr(self, effect))

    def _look_then(self, then: Any) -> None:
        self.host.spawn(self.host.read_isr(self))

    def _perform(self, effect: fx.Effect, records: tuple[Record, ...]) -> None:
        if isinstance(effect, fx.ReplicaStopped):
            self.host.stopped(self, effect.delete)
        else:
            super()._perform(effect, records)

    def close(self) -> None:
        """It runs no more: what waits here is told so."""
        self.alive = False
        for envelope in self.parked.values():
            self.world.answer(envelope, CallFailed())
        self.parked = {}


@dataclass(frozen=True)
class HostMends:
    """Which rules of the broker's shell are in force; only a test turns one off."""

    checked_markers: bool = True
    """A leader's ISR write checks that the marker of its topic's id stands."""
    marker_versions: bool = True
    """It checks the marker's version, which grows when partitions are removed."""
    old_logs_put_aside: bool = True
    """A log of a removed partition is put aside when its number is used again (first leader epoch)."""
    careful_strays: bool = True
    """What ZooKeeper said about a stray holds only while nothing was decided about it since."""


class SimHost:
    """One broker process and its disk."""

    def __init__(self, world: Surroundings, settings: ReplicaSettings, mends: HostMends) -> None:
        self.world = world
        self.broker_id = settings.broker_id
        self.settings = settings
        self.mends = mends
        self.disks: dict[Key, Disk] = {}
        self.quarantine: list[tuple[Key, Disk]] = []
        self.failed: set[Key] = set()
        """Replicas whose log directory has failed in this life."""
        self.replicas: dict[Key, SimReplica] = {}
        self.alive = False
        self.paused = False
        self.lives = 0
        self._session_ids = 0

    # --- the process -----------------------------------------------------------------------------

    def start(self) -> None:
        """A new life on the disk that the last one left."""
        assert not self.alive
        self.alive = True
        self.lives += 1
        self.broker_epoch = -1
        self.incarnation = -1
        self.controller_epoch = 0
        self.replicas = {}
        self.failed = set()
        self.markers: dict[bytes, tuple[int, dict[int, int]]] = {}
        """Topic id → version of its marker, and the first leader epochs as of that version."""
        self.loop = SimLoop(lambda: self.world.now_ms)
        self.client = Client(self.broker_id, self.lives)
        self.sim_session = SimSession(self.world, self.client, self.loop)
        self.spawn(self._live())
        self.loop.settle()

    @property
    def session(self) -> int:
        """The id of the ZooKeeper session of this life."""
        return self.sim_session.session_id

    def crash(self) -> None:
        """The process dies."""
        assert self.alive
        self.alive = False
        self.paused = False
        for replica in self.replicas.values():
            replica.alive = False
        self.loop.end()

    def take_session_ids(self) -> int:
        """Where the fetch sessions of one more replica begin."""
        self._session_ids += 1000
        return self._session_ids

    def spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """Run a coroutine on this process's loop."""
        return self.loop.create_task(work)  # type: ignore[arg-type]

    async def _live(self) -> None:
        self.incarnation = await self._begin_incarnation()
        stored = await self._retried(lambda: read_cluster(self._session, self.broker_id))
        self.controller_epoch = stored.controller_epoch
        self._decide(None, stored.decisions)
        self.strays = StrayWatch(
            self.broker_id, self.world.cluster_id, self._session, self.held, self._let_go
        )
        self.strays.suspect([key for key in self.disks if key not in self.replicas])
        await self._register()
        while True:
            event = await self.sim_session.events.get()
            if isinstance(event, SessionStateChanged) and event.state is SessionState.LOST:
                self.broker_epoch = -1
                await self._register()

    @property
    def _session(self) -> Any:
        return self.sim_session

    async def _retried(self, work: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await work()
            except (ConnectionLost, SessionExpired):
                await self.loop.after(RETRY_S)

    async def _begin_incarnation(self) -> int:
        path = BrokerIncarnationZnode.path(self.broker_id)
        while True:
            try:
                found = await self.sim_session.exists(path)
                if found is None:
                    await self.sim_session.create(path, BrokerIncarnationZnode.encode())
                    return 0
                return await self.sim_session.set(path, BrokerIncarnationZnode.encode(), found.version)
            except (BadVersion, NodeExists, NoNode):
                continue
            except ZooKeeperError:
                await self.loop.after(RETRY_S)

    async def _register(self) -> None:
        path = BrokerZnode.path(self.broker_id)
        data = BrokerZnode(f"broker{self.broker_id}", 9092, self.world.now_ms).encode()
        while True:
            try:
                found = await self.sim_session.exists(path)
                if found is not None and found.ephemeral_owner == self.sim_session.session_id:
                    break
                old: tuple[Operation, ...] = () if found is None else (Delete(path, found.version),)
                await self.sim_session.multi((*old, Create(path, data, ephemeral=True)))
            except (BadVersion, NodeExists, NoNode):
                continue
            except ZooKeeperError:
                await self.loop.after(RETRY_S)
        self.broker_epoch = found.czxid
        for replica in self.replicas.values():
            replica.broker_epoch = found.czxid
            replica.incarnation = self.incarnation
            replica.refused = False
            replica._fetch()

    def tick(self) -> None:
        """Time passed."""
        for replica in list(self.replicas.values()):
            replica.tick()

    # --- who is held -----------------------------------------------------------------------------

    def _decide(self, controller_epoch: int | None, decisions: Decisions) -> convert_control.ControlResults:
        results: list[tuple[bytes, int, ErrorCode.ValueType]] = []
        for topic in decisions.topics:
            for decision in topic.partitions:
                epoch = decision.controller_epoch if controller_epoch is None else controller_epoch
                code = self._decide_one(epoch, topic, decision, is_live=controller_epoch is not None)
                results.append((topic.topic_id, decision.partition, code))
        return results

    def _decide_one(
        self, controller_epoch: int, topic: TopicDecisions, decision: PartitionDecision, *, is_live: bool
    ) -> ErrorCode.ValueType:
        key = (topic.topic_id, decision.partition)
        if key in self.failed:
            return ErrorCode.ERROR_CODE_STORAGE_FAILED
        replica = self.replicas.get(key)
        if replica is not None:
            is_stale = controller_epoch < replica.state.decision.controller_epoch
            if not is_stale and self._is_of_a_removed_partition(replica, decision):
                if self.broker_id in decision.replicas:
                    self._put_aside(key, "it was removed and added again")
                replica = self.replicas.get(key)
        if replica is None:
            if self.broker_id not in decision.replicas:
                return ErrorCode.ERROR_CODE_UNKNOWN_PARTITION
            replica = self._host(key, topic.topic, decision, is_live)
        refusal = refusal_in(
            replica.feed(
                ev.LeaderAndIsrDecided(
                    controller_epoch,
                    decision.leader,
                    decision.leader_epoch,
                    decision.isr,
                    decision.replicas,
                    decision.partition_epoch,
                    self.world.now_ms,
                )
            )
        )
        return OK if refusal is None else convert.error_code_of(refusal)

    def _is_of_a_removed_partition(self, replica: SimReplica, decision: PartitionDecision) -> bool:
        return self.mends.old_logs_put_aside and (
            NO_EPOCH < replica.state.leader_epoch < decision.first_leader_epoch
            or has_epochs_before(replica.disk, decision.first_leader_epoch)
        )

    def _host(self, key: Key, topic: str, decision: PartitionDecision, is_live: bool) -> SimReplica:
        first = decision.first_leader_epoch
        disk = self.disks.get(key)
        if disk is not None and self.mends.old_logs_put_aside and has_epochs_before(disk, first):
            self._put_aside(key, "it was removed and added again")
            disk = None
        is_new = disk is None
        if disk is None:
            disk = self.disks[key] = Disk()
        replica = SimReplica(self, key, topic, first, disk, is_new=is_new)
        self.replicas[key] = replica
        return replica

    def _put_aside(self, key: Key, why: str) -> None:
        if key in self.replicas or key in self.disks:
            self.world.put_aside(self, key, why)
        if (replica := self.replicas.pop(key, None)) is not None:
            replica.close()
        if (disk := self.disks.pop(key, None)) is not None:
            self.quarantine.append((key, disk))
        self.world.log_changed()

    def stopped(self, replica: SimReplica, delete: bool) -> None:
        """The replica's core has stopped."""
        if delete:
            self._put_aside(replica.key, "it is told to stop")

    def held(self, key: Key) -> Held | None:
        """What this broker holds of a partition, running or on disk."""
        replica = self.replicas.get(key)
        if replica is not None:
            decision = replica.state.decision
            return Held(key, replica.topic, decision.leader_epoch, decision.partition_epoch)
        return Held(key) if key in self.disks else None

    async def _let_go(self, held: Held) -> bool:
        if self.mends.careful_strays and self.held(held.key) != held:
            return False
        self._put_aside(held.key, "it is a stray")
        return True

    def fail(self, key: Key) -> None:
        """The log directory of this replica fails."""
        self.failed.add(key)
        replica = self.replicas[key]
        replica.feed(ev.StorageFailed())

    # --- ISRs ------------------------------------------------------------------------------------

    async def store_isr(self, replica: SimReplica, effect: fx.StoreIsr) -> None:
        """Write an ISR: the marker of the topic, the lives of those that join, the set."""
        expected = effect.expected_partition_epoch
        path = LeaderAndIsrZnode.path(replica.topic, replica.key[1])
        data = LeaderAndIsrZnode(self.broker_id, effect.leader_epoch, effect.isr, effect.controller_epoch)
        marker: tuple[Check, ...] = ()
        lives = tuple(Check(BrokerIncarnationZnode.path(who), life) for who, life in effect.joining)
        event: ev.Event
        try:
            if self.mends.checked_markers:
                marker = (await self._marker(replica, effect),)
            versions = await self.sim_session.multi((*marker, *lives, SetData(path, data.encode(), expected)))
            event = ev.IsrStored(versions[-1])
        except (BadVersion, NoNode) as error:
            self.markers.pop(replica.key[0], None)
            event = ev.IsrStoreRefused(expected, for_good=error.path in [life.path for life in lives])
        except (ConnectionLost, SessionExpired):
            event = ev.IsrStoreUnknown(expected)
        if self.replicas.get(replica.key) is replica:
            replica.feed(event)

    async def _marker(self, replica: SimReplica, effect: fx.StoreIsr) -> Check:
        """What an ISR write checks of its topic; BadVersion where the number is another partition's."""
        topic_id, partition = replica.key
        path, topic_path = TopicIdZnode.path(topic_id), TopicZnode.path(replica.topic)
        if not self.mends.marker_versions:
            return Check(path, -1)
        if topic_id not in self.markers:
            found = await self.sim_session.multi_read((path, topic_path))
            if path not in found or topic_path not in found:
                raise NoNode(path)
            topic = TopicZnode.decode(found[topic_path].data)
            if topic.topic_id != topic_id:
                raise NoNode(path)
            self.markers[topic_id] = (found[path].version, dict(topic.first_leader_epochs))
        version, first_leader_epochs = self.markers[topic_id]
        if effect.leader_epoch < first_leader_epochs.get(partition, 0):
            raise BadVersion(path)
        return Check(path, version)

    async def read_isr(self, replica: SimReplica) -> None:
        """Read a leaderAndISR, however often it takes; a leader whose topic is gone stops."""
        path = LeaderAndIsrZnode.path(replica.topic, replica.key[1])
        marker = TopicIdZnode.path(replica.key[0])
        while self.replicas.get(replica.key) is replica and replica.state.is_leader:
            try:
                found = await self.sim_session.multi_read((path, marker))
            except (ConnectionLost, SessionExpired):
                await self.loop.after(RETRY_S)
                continue
            if self.replicas.get(replica.key) is not replica:
                return
            if self.mends.checked_markers and marker not in found:
                decision = replica.state.decision
                replica.feed(ev.StopRequested(decision.controller_epoch, decision.leader_epoch, delete=False))
                self.strays.suspect((replica.key,))
                return
            if path in found:
                read = LeaderAndIsrZnode.decode(found[path].data)
                replica.feed(
                    ev.LeaderAndIsrRead(
                        read.leader, read.leader_epoch, read.isr, found[path].version, self.world.now_ms
                    )
                )
                return
            await self.loop.after(RETRY_S)

    # --- what comes in ---------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A message reaches this life of the broker."""
        body: Any = envelope.body
        match body:
            case Addressed(key, inner):
                self._at_replica(envelope, key, inner)
            case Rpc(method, request):
                self.world.answer(envelope, RpcAnswer(self._call(method, request)))
            case Fired(client, event) if client == self.client:
                self.sim_session.fired(event)
            case Expired(client, session) if client == self.client:
                self.sim_session.expired(session)
            case Fired() | Expired():
                pass
            case _:
                raise AssertionError(envelope)

    def _at_replica(self, envelope: Envelope, key: Key, inner: Any) -> None:
        assert isinstance(inner, Fetch | AskEpoch)
        replica = self.replicas.get(key)
        if replica is None:
            self.world.answer(envelope, CallFailed())
        else:
            replica.receive(replace(envelope, body=inner))

    def _call(self, method: str, request: Any) -> Any:
        try:
            self._fence(request.stamp)
            match method:
                case "LeaderAndISR":
                    results = self._decide(
                        request.stamp.controller_epoch, convert_control.decisions_in(request)
                    )
                    return control_pb2.LeaderAndISRResponse(
                        partitions=convert_control.control_results_out(results)
                    )
                case "StopReplica":
                    return self._stop(request)
                case _:
                    assert method == "UpdateMetadata", method
                    self._suspect(convert_control.metadata_update_in(request))
                    return control_pb2.UpdateMetadataResponse()
        except ServiceError as error:
            return error

    def _fence(self, stamp: control_pb2.ControllerStamp) -> None:
        if self.broker_epoch == -1 or stamp.broker_epoch != self.broker_epoch:
            raise ServiceError(ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH, "another life is meant")
        if stamp.controller_epoch < self.controller_epoch:
            raise ServiceError(ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH, "a newer controller has spoken")
        self.controller_epoch = stamp.controller_epoch

    def _stop(self, request: control_pb2.StopReplicaRequest) -> control_pb2.StopReplicaResponse:
        results = []
        for stop in convert_control.stops_in(request):
            key = (stop.topic_id, stop.partition)
            code: ErrorCode.ValueType = OK
            if (replica := self.replicas.get(key)) is not None:
                refusal = refusal_in(
                    replica.feed(
                        ev.StopRequested(
                            request.stamp.controller_epoch,
                            stop.leader_epoch,
                            stop.delete,
                            stop.partition_epoch,
                        )
                    )
                )
                code = OK if refusal is None else convert.error_code_of(refusal)
            if stop.delete and code == OK:
                self._put_aside(key, "it is told to stop")
            results.append((*key, code))
        return control_pb2.StopReplicaResponse(partitions=convert_control.control_results_out(results))

    def _suspect(self, update: MetadataUpdate) -> None:
        told = {
            (topic.topic_id, each.partition): self.broker_id in each.replicas
            for topic in update.topics
            for each in topic.partitions
        }
        lost = {(each.topic_id, number) for each in update.removed for number in each.partitions}
        suspects = [
            key
            for key in {**self.disks, **self.replicas}
            if not told.get(key, not update.full) or key in lost or key[0] in update.deleted_topic_ids
        ]
        self.strays.suspect(suspects)


def has_epochs_before(disk: Disk, first_leader_epoch: int) -> bool:
    """Whether a log is that of a partition that was removed before this one was added."""
    return any(epoch < first_leader_epoch for epoch in disk.epochs)


def refusal_in(effects: fx.Effects) -> Refusal | None:
    """Why the replica refused, where it did."""
    return next((effect.refusal for effect in effects if isinstance(effect, fx.Refuse)), None)
