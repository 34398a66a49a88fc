"""A simulated controller process: the real shell and core, on simulated messages and time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import grpc
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_controller.authority import authority_of
from hightide_controller.brokers.broker_connections import BrokerConnections
from hightide_controller.brokers.broker_link import BrokerLink
from hightide_controller.brokers.revival_probe import RevivalProbe
from hightide_controller.contract.convert import Identity
from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.mutation_quota import MutationQuota
from hightide_controller.servicer import ControllerServicer
from hightide_controller.settings import ControllerSettings
from hightide_controller.shell import ControllerShell
from hightide_runtime.addresses import HostPort
from hightide_runtime.cluster_settings.acl_requests import AclRequests
from hightide_runtime.cluster_settings.quota_requests import QuotaRequests
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.telemetry.tracing import Telemetry
from msgspec.structs import replace
from sim.messages import Envelope, ProcessDied
from sim.topics.channel import SimChannel
from sim.topics.loop import SimLoop
from sim.topics.messages import Body, Expired, Fired, Rpc, RpcAnswer
from sim.topics.session import SimSession
from sim.topics.tree import Client


class Surroundings(Protocol):
    """What a controller may do to the rest of the world."""

    cluster_id: str

    @property
    def now_ms(self) -> int: ...

    def died_ms(self, node_id: int) -> int: ...

    def telemetry_of(self, controller_id: int) -> Telemetry: ...

    def call(self, source: int, target: int, body: Body, then: Callable[[Any], None]) -> int: ...

    def answer(self, envelope: Envelope, body: Body) -> None: ...

    def is_reachable(self, source: int, target: int) -> bool: ...

    def open_session(self) -> int: ...

    def connection_broken(self, client: Client) -> None: ...


class _Clock:
    def __init__(self, world: Surroundings) -> None:
        self._world = world

    def monotonic_ms(self) -> int:
        return self._world.now_ms

    def wall_us(self) -> int:
        return self._world.now_ms * 1000


class _NoWatcher:
    """Deaths are told by the world."""

    def close(self) -> None: ...


class _SimConnections(BrokerConnections):
    def __init__(self, real: BrokerConnections, channel_to: Callable[[int], SimChannel]) -> None:
        super().__init__(
            real._callbacks,
            real._on_death,
            real._on_revival,
            real._telemetry,
            real._clock,
            real._open_channel,
            5_000,
            0,
        )
        self._channel_to = channel_to

    def _open(self, broker: ev.Broker) -> None:
        def opened(address: HostPort, *, ping_ms: int | None = None) -> Any:
            return self._channel_to(broker.broker_id)

        self._links[broker.broker_id] = BrokerLink(
            broker, self._callbacks, self._telemetry, self._clock, 5_000, opened
        )
        self._watchers[broker.broker_id] = _NoWatcher()  # type: ignore[assignment]

    def _probe(self, broker: ev.Broker) -> RevivalProbe:
        probe = super()._probe(broker)
        probe._is_answered = partial(self._is_answered, broker, probe)  # type: ignore[method-assign]
        return probe

    async def _is_answered(self, broker: ev.Broker, probe: RevivalProbe) -> bool:
        channel = self._channel_to(broker.broker_id)
        if not channel.is_open:
            return False
        update = channel.unary_unary("UpdateMetadata", control_pb2.UpdateMetadataRequest.SerializeToString)
        try:
            await update(probe._message(), timeout=probe._timeout_s)
        except grpc.aio.AioRpcError:
            return False
        return True


class _Shell(ControllerShell):
    def __init__(self, world: Surroundings, controller_id: int, session: Any) -> None:
        settings = ControllerSettings.model_construct(
            **{name: field.default for name, field in ControllerSettings.model_fields.items()}
            | {"controller_id": controller_id, "refresh_interval_ms": 500, "resignation_rest_ms": 500}
        )
        identity = Identity(world.cluster_id, controller_id, f"controller{controller_id}", 9192)
        super().__init__(
            settings, identity, session, world.telemetry_of(controller_id), _Clock(world), open_channel
        )
        self.fault: Exception | None = None
        """Of ours: what the shell died of."""
        self.state = ClusterState(controller_id)
        self._connections = _SimConnections(
            self._connections, lambda broker_id: SimChannel(world, controller_id, broker_id)
        )

    def _watch_peer(self, address: HostPort, on_death: Callable[[int], None]) -> None:
        """Sessions of controllers end; nobody watches their processes."""

    def _take(self, event: ev.Event, arrived_us: int) -> None:
        try:
            super()._take(event, arrived_us)
        except Exception as error:
            self.fault = error
            raise

    async def _unless_it_fails(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the top of a task; `tick` raises it
            self.fault = error
            self.failed.set()

    def put(self, event: ev.Event) -> None:
        """Bring an event to the core."""
        self.inbox.put(event)

    def told_of_peer(self) -> None:
        """The failure detector: the active controller is gone."""
        assert self.active is not None
        self._controller_died(self.active, self._clock.wall_us())

    def told_of_death(self, broker: ev.Broker, broke_ms: int) -> None:
        """The failure detector: this life of a broker is gone."""
        self._broker_died(broker, broke_ms * 1000, "process_died")


class SimControllerProcess:
    """One controller process; two of them stand by for each other."""

    def __init__(self, world: Surroundings, controller_id: int) -> None:
        self.world = world
        self.controller_id = controller_id
        self.alive = False
        self.paused = False
        self.lives = 0

    def start(self) -> None:
        """A new process: nothing survives but ZooKeeper."""
        assert not self.alive
        self.alive = True
        self.lives += 1
        self.loop = SimLoop(lambda: self.world.now_ms)
        self.client = Client(self.controller_id, self.lives)
        self.sim_session = SimSession(self.world, self.client, self.loop)
        self.answers: dict[int, object] = {}
        """Request id → the answer that a client got."""

        async def begin() -> None:
            self.shell = _Shell(self.world, self.controller_id, self.sim_session)
            self.shell.start()

        self.loop.create_task(begin())
        self.loop.settle()

    @property
    def session(self) -> int:
        """The id of the ZooKeeper session of this life."""
        return self.sim_session.session_id

    def crash(self) -> None:
        """The process dies."""
        self.alive = False
        self.paused = False
        self.loop.end()

    @property
    def is_active(self) -> bool:
        """Whether this process believes to be the active controller."""
        return self.alive and self.shell.state.role is Role.ACTIVE

    def peer_died(self) -> None:
        """The failure detector: the process of the active controller is gone, though its session lives on."""
        self.shell.told_of_peer()
        self.loop.settle()

    def tick(self) -> None:
        """Time passed: the shell has a timer of its own."""
        if self.shell.failed.is_set():
            raise AssertionError("the shell gave up") from self.shell.fault

    def ask(self, event: Any, kind: Any) -> int:
        """A client's request; its id."""
        request_id = self.shell.take_request_id()

        async def asked() -> None:
            try:
                self.answers[request_id] = await self.shell.ask(replace(event, request_id=request_id), kind)
            except ServiceError as error:
                self.answers[request_id] = error

        self.loop.create_task(asked())
        self.loop.settle()
        return request_id

    def tell(self, event: ev.Event) -> None:
        """Something that a broker tells by an RPC of its own."""
        self.shell.put(event)
        self.loop.settle()

    def receive(self, envelope: Envelope) -> None:
        """A watch, a notice of ZooKeeper or of the failure detector."""
        body: Any = envelope.body
        match body:
            case Fired(client, event) if client == self.client:
                self.sim_session.fired(event)
            case Expired(client, session) if client == self.client:
                self.sim_session.expired(session)
            case Fired() | Expired():
                pass
            case Rpc(method, request):
                self.loop.create_task(self._serve(envelope, method, request))
            case ProcessDied(broker_id, broker_epoch):
                self.shell.told_of_death(ev.Broker(broker_id, broker_epoch), self.world.died_ms(broker_id))
            case _:
                raise AssertionError(envelope)

    def serve(self, method: str, request: Any, traceparent: str = "") -> None:
        """An operator calls an RPC, within this span of its program; nobody waits for the answer."""

        async def called() -> None:
            with contextlib.suppress(ServiceError), Telemetry.off().within(traceparent):
                await getattr(self._servicer(), method)(request, None)

        self.loop.create_task(called())
        self.loop.settle()

    def _servicer(self) -> ControllerServicer:
        session: Any = self.sim_session
        authority = authority_of(self.shell)
        acls = AclRequests(session, authority, is_enforced=False, super_users=())
        mutations = MutationQuota(self.shell.counters, LiveQuotas(lambda: self.world.now_ms / 1000))
        return ControllerServicer(self.shell, acls, QuotaRequests(session, authority), mutations)

    async def _serve(self, envelope: Envelope, method: str, request: bytes) -> None:
        """What brokers ask of a controller."""
        asked = getattr(controller_pb2, f"{method}Request").FromString(request)
        answer: bytes | ServiceError
        try:
            response = await getattr(self._servicer(), method)(asked, None)
            answer = response.SerializeToString()
        except ServiceError as error:
            answer = error
        self.world.answer(envelope, RpcAnswer(method, answer))
