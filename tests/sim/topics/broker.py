"""A simulated broker process: the real parts and the real storage, on simulated messages, files and time.

What is not here is what `hightide_broker.broker` does between them: it is a process with signals and a gRPC
server. The order is the same: directories, parts, what ZooKeeper says, server, registration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from hightide.batch import wire
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide_broker.assembly import Assembly
from hightide_broker.coordination.by_controller import ControllerDecider
from hightide_broker.core import effects as fx
from hightide_broker.core.replica import Replica
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.hosting.controlled_shutdown import hand_over_leadership
from hightide_broker.hosting.strays import StrayWatch
from hightide_broker.ports import BrokerPorts
from hightide_broker.replica.held_replicas import HostedReplica
from hightide_broker.settings import BrokerSettings
from hightide_broker.storage import StorageError
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError, StartupError
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.zookeeper.session import ZooKeeperError
from sim.messages import CallFailed, Envelope
from sim.topics.batches import crc_of
from sim.topics.channel import SimChannel
from sim.topics.damage import Damage, damage
from sim.topics.files import MemoryDisk, MemoryFiles
from sim.topics.logs import LogsOnDisk
from sim.topics.loop import SimLoop, SimThreads
from sim.topics.messages import Body, Expired, Fired, Key, Rpc, RpcAnswer
from sim.topics.session import SimSession
from sim.topics.tree import Client

PORT: Final = 9092
LAG_TIME_MAX_MS: Final = 1_000
RETENTION_MS: Final = 700
"""How often segments are looked for whose records are all deleted."""
PATIENCE_S: Final = 15.0
WALL_US_AT_START: Final = 1_700_000_000_000_000
LIFE_US: Final = 1_000_000
"""Between the starts of two lives at least: fetch sessions are numbered from the time on."""


class Surroundings(Protocol):
    """What a broker may do to the rest of the world."""

    cluster_id: str
    values: dict[int, tuple[int, ...]]

    @property
    def now_ms(self) -> int: ...

    def call(self, source: int, target: int, body: Body, then: Callable[[Any], None]) -> int: ...

    def answer(self, envelope: Envelope, body: Body) -> None: ...

    def open_session(self) -> int: ...

    def connection_broken(self, client: Client) -> None: ...

    def node_at(self, address: HostPort) -> int: ...

    def is_reachable(self, source: int, target: int) -> bool: ...

    def acknowledged(self, host: SimHost, key: Key, base_offset: int, crc: int) -> None: ...

    def committed(self, replica: SimReplica) -> None: ...

    def put_aside(self, host: SimHost, key: Key, replica: HostedReplica | None) -> None: ...

    def gave_its_word(self, host: SimHost) -> None: ...


class SimReplica:
    """One replica that a broker runs, as the checkers of sim.checkers read it, with its files as of now."""

    alive = True

    def __init__(self, host: SimHost, hosted: HostedReplica) -> None:
        self.host = host
        self.hosted = hosted
        self.broker_id = host.broker_id
        self.lives = host.number_of(hosted)
        self.key = hosted.key
        self.topic = hosted.topic
        self.disk = host.logs.log(hosted.key)

    @property
    def state(self) -> Replica:
        """What its core has decided."""
        return self.hosted.state


class Clock:
    """The clocks of one machine."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._booted_ms = 0
        self.jumped_us = 0

    def reboot(self) -> None:
        """The machine begins to count anew."""
        self._booted_ms = self._now_ms()

    def monotonic_ms(self) -> int:
        """Since the machine came up; never goes back."""
        return self._now_ms() - self._booted_ms

    def wall_us(self) -> int:
        """May jump."""
        return WALL_US_AT_START + self._now_ms() * 1000 + self.jumped_us


class _Directories(LogDirectories):
    """Tells who is put aside."""

    told: Callable[[Key], None]

    def quarantine(self, key: Key) -> asyncio.Future[None]:
        if key not in self._leaving:
            self.told(key)
        return super().quarantine(key)


@dataclass(frozen=True)
class _Method:
    parse: Callable[[bytes], Any]
    handler: Callable[[Any, Any], Awaitable[Any]]
    serialise: Callable[[Any], bytes]


class SimHost:
    """One broker's machine: its process, and its disks, which outlive it."""

    def __init__(self, world: Surroundings, broker_id: int, min_insync_replicas: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.paths = (f"/{broker_id}/a", f"/{broker_id}/b")
        self.settings = BrokerSettings.model_construct(
            **{name: field.default for name, field in BrokerSettings.model_fields.items()}
            | {
                "broker_id": broker_id,
                "listen": HostPort(f"broker{broker_id}", PORT),
                "data_dir": tuple(map(Path, self.paths)),
                "replica_lag_time_max_ms": LAG_TIME_MAX_MS,
                "min_insync_replicas": min_insync_replicas,
                "retention_check_interval_ms": RETENTION_MS,
            }
        )
        self.disk = MemoryDisk(self.paths)
        self.logs = LogsOnDisk(self.disk, self.paths, world.values)
        self.clock = Clock(lambda: world.now_ms)
        self.disk_latency_ms = 0
        self.is_doubtful = False
        """The machine has lost its power, and the broker has not registered since: it has not told yet."""
        self._numbers: dict[Key, tuple[HostedReplica | None, int]] = {}
        self.alive = False
        self.paused = False
        self.lives = 0
        self.is_damaged = False
        """Whether its files are not what it left, and it has not told so: nobody can count on it."""
        self.has_rebooted = False
        """Whether its machine went down since the broker last registered: what a process writes for the next
        one to compare with holds for one boot, and a life that ended sooner may not have written it."""

    # --- the process -----------------------------------------------------------------------------

    def start(self) -> None:
        """A new life on the disks that the last one left."""
        assert not self.alive
        self.alive = True
        self.lives += 1
        self.clock.jumped_us += LIFE_US
        self.parts: Assembly | None = None
        self.end: str = ""
        """Why the process ended by itself; empty while it runs."""
        self.in_hand: list[Envelope] = []
        """Requests that are not answered."""
        self._methods: dict[str, _Method] = {}
        self._is_stopping = False
        self.threads: dict[str, SimThreads] = {}
        """Beside the loop's."""
        self._stopped: dict[Key, HostedReplica] = {}
        self.loop = SimLoop(lambda: self.world.now_ms)
        self.files = MemoryFiles(self.disk, self.clock.wall_us)
        self.client = Client(self.broker_id, self.lives)
        self.sim_session = SimSession(self.world, self.client, self.loop)
        self.loop.create_task(self._run())
        self.loop.settle()

    def crash(self) -> None:
        """The process dies."""
        assert self.alive
        self.alive = False
        self.paused = False
        self.files.ended = True
        self.loop.end()

    def stop(self) -> None:
        """The process is told to stop, and ends when it has handed over what it leads."""
        if self.parts is not None and self._methods and not self._is_stopping:
            self._is_stopping = True
            self.loop.create_task(self._stop(self.parts))
            self.loop.settle()

    def cut_power(self, random: Random) -> None:
        """The machine of a dead process goes down, and what was not synced with it."""
        assert not self.alive
        self.has_rebooted = True
        self.disk.cut_power(random)
        self.is_doubtful = True
        self.clock.reboot()

    def damage(self, random: Random, kinds: Sequence[Damage]) -> str:
        """Something happens to the files of a dead process, while its machine stays up; says what, empty
        where there are none."""
        assert not self.alive
        assert not self.has_rebooted
        said = damage(self.disk, self.paths, random, kinds)
        self.is_damaged = self.is_damaged or bool(said)
        return said

    async def _run(self) -> None:
        try:
            await self._live()
        except (ZooKeeperError, StorageError, StartupError) as error:
            self.end = f"{type(error).__name__}: {error}"

    async def _live(self) -> None:
        session: Any = self.sim_session
        ports = BrokerPorts(self.clock, session, self._connect, self._threads)
        directories = await _Directories.open(
            self.settings.data_dir, self.world.cluster_id, self.broker_id, self.files, self._threads,
            self.clock,
        )  # fmt: skip
        assert isinstance(directories, _Directories)
        directories.told = self._put_aside
        parts = Assembly(
            self.settings, ports, Telemetry.off(), self.world.cluster_id, directories,
            self._threads(1, "records"), is_measured=False,
        )  # fmt: skip
        self._listen(parts)
        self.parts = parts
        await parts.take_over_from_zookeeper(PATIENCE_S)
        self._methods = _methods(parts)
        keeping = asyncio.create_task(parts.registration.keep(session.session_id, PATIENCE_S))
        await parts.registration.register(PATIENCE_S)
        self.is_doubtful = self.is_damaged = self.has_rebooted = False
        self.world.gave_its_word(self)
        await asyncio.wait((keeping, parts.failure), return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            keeping.result()
        raise StartupError("no data directory is left")

    async def _stop(self, parts: Assembly) -> None:
        session: Any = self.sim_session
        await parts.stop_following()
        await hand_over_leadership(
            session, self.broker_id, self.broker_epoch, self.settings.controlled_shutdown_timeout_ms,
            self._connect,
        )  # fmt: skip
        parts.answer_waiters()
        self._methods = {}
        await parts.registration.withdraw()
        await parts.close()
        await parts._directories.close(clean=True)
        self.end = "it was told to stop"

    def _connect(self, address: HostPort, *, ping_ms: int | None = None) -> Any:
        return SimChannel(self.world, self.broker_id, self.world.node_at(address))

    def _threads(self, count: int, name: str) -> SimThreads:
        made = self.threads[name] = SimThreads(self.loop, lambda: self.disk_latency_ms / 1000)
        return made

    # --- what the checkers are told ----------------------------------------------------------------

    def _listen(self, parts: Assembly) -> None:
        performs = parts._shell.performs
        advance, stop = performs[fx.AdvanceHighWatermark], performs[fx.ReplicaStopped]

        def advanced(replica: HostedReplica, effect: Any, payload: Any) -> None:
            advance(replica, effect, payload)
            self.world.committed(SimReplica(self, replica))

        def stopped(replica: HostedReplica, effect: Any, payload: Any) -> None:
            self._stopped[replica.key] = replica
            stop(replica, effect, payload)
            self._stopped.pop(replica.key, None)

        performs[fx.AdvanceHighWatermark] = advanced
        performs[fx.ReplicaStopped] = stopped

    def _put_aside(self, key: Key) -> None:
        if key in self._stopped or key in self.logs.partitions():
            self.world.put_aside(self, key, self._stopped.get(key))

    @property
    def replicas(self) -> dict[Key, SimReplica]:
        """What the process runs."""
        if not self.alive or self.parts is None:
            return {}
        return {each.key: SimReplica(self, each) for each in self.parts._replicas}

    def hosted(self) -> Iterable[HostedReplica]:
        """The same, as the process has them."""
        return () if not self.alive or self.parts is None else self.parts._replicas

    def replica(self, key: Key) -> SimReplica | None:
        """One of them."""
        found = None if not self.alive or self.parts is None else self.parts._replicas.get(key)
        return None if found is None else SimReplica(self, found)

    def number_of(self, hosted: HostedReplica) -> int:
        """Which of all the replicas of its partition it is that were ever started here."""
        known, number = self._numbers.get(hosted.key, (None, 0))
        if known is not hosted:
            number += 1
            self._numbers[hosted.key] = (hosted, number)
        return number

    @property
    def strays(self) -> StrayWatch:
        """Who looks for what is not assigned here any more."""
        assert self.parts is not None
        assert isinstance(self.parts.decider, ControllerDecider)
        return self.parts.decider.strays

    @property
    def session(self) -> int:
        """The id of the ZooKeeper session of this life."""
        return self.sim_session.session_id

    @property
    def broker_epoch(self) -> int:
        """Of this life; -1 before it is registered."""
        return -1 if self.parts is None else self.parts.registration.broker_epoch

    @property
    def has_failed_disk(self) -> bool:
        """Whether a data directory of this life is broken."""
        return bool(self.files.broken)

    def tick(self) -> None:
        """Time passed: the parts have timers of their own."""

    # --- what comes in ---------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A message reaches this life of the broker."""
        body: Any = envelope.body
        match body:
            case Rpc(method, request):
                found = self._methods.get(method)
                if found is None:
                    self.world.answer(envelope, CallFailed())  # It does not listen yet.
                else:
                    self.in_hand.append(envelope)
                    self.loop.create_task(self._serve(envelope, method, found, request))
            case Fired(client, event) if client == self.client:
                self.sim_session.fired(event)
            case Expired(client, session) if client == self.client:
                self.sim_session.expired(session)
            case Fired() | Expired():
                pass
            case _:
                raise AssertionError(envelope)

    async def _serve(self, envelope: Envelope, name: str, method: _Method, request: bytes) -> None:
        answer: Any
        try:
            asked = method.parse(request)
            answered = await method.handler(asked, _Call(str(envelope.source)))
            if name == "Produce":
                self._note_acknowledged(asked, answered)
            answer = method.serialise(answered)
        except ServiceError as error:
            answer = error
        except Exception as error:
            self.loop.faults.append(error)
            raise
        self.in_hand.remove(envelope)
        self.world.answer(envelope, RpcAnswer(name, answer))

    def _note_acknowledged(self, asked: Any, answered: Any) -> None:
        if asked.acks == broker_pb2.ACKS_ALL:
            for each, result in zip(asked.partitions, answered.partitions, strict=True):
                if not result.error_code:
                    key = (each.topic_id, each.partition)
                    self.world.acknowledged(self, key, result.base_offset, crc_of(each.batches))

    def produce(self, key: Key, batch: bytes, acks: int) -> None:
        """A producer that stands beside the broker sends a batch; it hears the answer at once."""
        request = wire.serialise_produce_request(
            wire.ProduceRequest(acks, 30_000, (wire.ProducePartition(*key, -1, (batch,)),))
        )

        async def produced() -> None:
            try:
                method = self._methods["Produce"]
                asked = method.parse(request)
                self._note_acknowledged(asked, await method.handler(asked, _Call(str(self.client))))
            except ServiceError:
                return
            except Exception as error:
                self.loop.faults.append(error)
                raise

        if "Produce" in self._methods:
            self.loop.create_task(produced())
            self.loop.settle()

    def delete_records(self, key: Key, before_offset: int) -> None:
        """An operator who stands beside the broker deletes records; nobody waits for the answer."""
        asked = broker_pb2.DeleteRecordsRequest(
            partitions=[
                broker_pb2.DeleteRecordsPartition(
                    topic_id=key[0], partition=key[1], before_offset=before_offset
                )
            ]
        )

        async def deleted() -> None:
            try:
                await self._methods["DeleteRecords"].handler(asked, _Call(str(self.client)))
            except ServiceError:
                return
            except Exception as error:
                self.loop.faults.append(error)
                raise

        if "DeleteRecords" in self._methods:
            self.loop.create_task(deleted())
            self.loop.settle()


class _Call:
    """What a servicer may ask of a call: whose connection it came on. No interceptor counts its answer."""

    def __init__(self, source: str) -> None:
        self._source = source

    def peer(self) -> str:
        return f"sim:{self._source}"


def _methods(parts: Assembly) -> dict[str, _Method]:
    client, replica = parts.rpcs()
    assert isinstance(parts.decider, ControllerDecider)
    control = parts.decider.rpcs
    return {
        "Produce": _Method(
            wire.parse_produce_request, client.Produce, broker_pb2.ProduceResponse.SerializeToString
        ),
        "Fetch": _Method(broker_pb2.FetchRequest.FromString, client.Fetch, wire.serialise_fetch_response),
        "GetMetadata": _Method(
            broker_pb2.GetMetadataRequest.FromString,
            client.GetMetadata,
            broker_pb2.GetMetadataResponse.SerializeToString,
        ),
        "InitProducerId": _Method(
            broker_pb2.InitProducerIdRequest.FromString,
            client.InitProducerId,
            broker_pb2.InitProducerIdResponse.SerializeToString,
        ),
        "DeleteRecords": _Method(
            broker_pb2.DeleteRecordsRequest.FromString,
            client.DeleteRecords,
            broker_pb2.DeleteRecordsResponse.SerializeToString,
        ),
        "ReplicaFetch": _Method(
            replica_pb2.ReplicaFetchRequest.FromString,
            replica.ReplicaFetch,
            wire.serialise_replica_fetch_response,
        ),
        "EndOffsetForLeaderEpoch": _Method(
            replica_pb2.EndOffsetForLeaderEpochRequest.FromString,
            replica.EndOffsetForLeaderEpoch,
            replica_pb2.EndOffsetForLeaderEpochResponse.SerializeToString,
        ),
        "DigestBatches": _Method(
            replica_pb2.DigestBatchesRequest.FromString,
            replica.DigestBatches,
            replica_pb2.DigestBatchesResponse.SerializeToString,
        ),
        "LeaderAndISR": _Method(
            control_pb2.LeaderAndISRRequest.FromString,
            control.LeaderAndISR,
            control_pb2.LeaderAndISRResponse.SerializeToString,
        ),
        "StopReplica": _Method(
            control_pb2.StopReplicaRequest.FromString,
            control.StopReplica,
            control_pb2.StopReplicaResponse.SerializeToString,
        ),
        "UpdateMetadata": _Method(
            control_pb2.UpdateMetadataRequest.FromString,
            control.UpdateMetadata,
            control_pb2.UpdateMetadataResponse.SerializeToString,
        ),
    }
