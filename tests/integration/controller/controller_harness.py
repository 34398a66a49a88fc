"""Real controller processes over a real ZooKeeper, and brokers that only note down what they are told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_control_service_pb2_grpc as control_grpc
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1.errors_pb2 import ErrorCode
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from hightide_runtime.process.environment import service_environment
from hightide_runtime.serving.server import Server, Service, serve
from hightide_runtime.znodes.cluster_znodes import BrokerZnode, ControllerZnode, LeaderAndIsrZnode
from hightide_runtime.zookeeper.session import ConnectionLost, NoNode, Znode, ZooKeeperSession

BROKER_SERVICE = "hightide.v1.BrokerControlService"
PATIENCE_S = 60.0
CALL_S = 30.0
SESSION_TIMEOUT_MS = 30_000
"""So long that no session ends by itself, however busy the machine: a test that needs one ended ends it."""


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Wait until something holds, and give it back."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        found = await condition()
        if found:
            return found
        assert asyncio.get_running_loop().time() < deadline, f"it never came to this: {what}"
        # Nothing tells when a process or ZooKeeper has come so far: look again, within the bound above.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.005)


class StubBroker(control_grpc.BrokerControlServiceServicer):
    """Registers, listens, and notes down what the controller says."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.decisions: list[control_pb2.LeaderAndISRRequest] = []
        self.updates: list[control_pb2.UpdateMetadataRequest] = []
        self.broker_epoch = 0
        self.newest_controller_epoch = 0
        self.failures_to_come = 0
        self.swallows = False
        """Whether it takes what it is told, and never answers."""
        self.refused = 0
        """Messages that were addressed to another life."""
        self.port = free_port()
        self._session: ZooKeeperSession | None = None
        self._server: Server | None = None

    async def start(self, zookeeper: str) -> None:
        await self.listen()
        self._session = await ZooKeeperSession.connect(zookeeper, session_timeout_ms=SESSION_TIMEOUT_MS)
        await self._session.ensure_cluster_id()
        znode = BrokerZnode("127.0.0.1", self.port, started_at_ms=1)
        path = BrokerZnode.path(self.broker_id)
        self.broker_epoch = (await self._session.create(path, znode.encode(), ephemeral=True)).czxid

    async def listen(self) -> None:
        """Begin to answer; again, after `die`, as the same life."""
        self._server = await serve(
            HostPort("127.0.0.1", self.port),
            [Service(BROKER_SERVICE, self, control_grpc.add_BrokerControlServiceServicer_to_server)],
        )
        await self._server.set_serving(True)

    async def die(self) -> None:
        """What a SIGKILL looks like from outside: streams break, the port refuses, the session lives on."""
        assert self._server is not None
        await self._server.stop(grace_s=0)
        self._server = None

    async def stop(self) -> None:
        if self._server is not None:
            await self.die()
        if self._session is not None:
            await self._session.close()

    async def LeaderAndISR(  # noqa: N802
        self, request: control_pb2.LeaderAndISRRequest, context: Any
    ) -> control_pb2.LeaderAndISRResponse:
        self._fence(request.stamp)
        await self._swallow()
        if self.failures_to_come:
            self.failures_to_come -= 1
            raise ServiceError(ErrorCode.ERROR_CODE_OVERLOADED, "try again")
        self.decisions.append(request)
        return control_pb2.LeaderAndISRResponse(
            partitions=[
                control_pb2.ControlPartitionResult(topic_id=topic.topic_id, partition=p.partition)
                for topic in request.topics
                for p in topic.partitions
            ]
        )

    async def StopReplica(  # noqa: N802
        self, request: control_pb2.StopReplicaRequest, context: Any
    ) -> control_pb2.StopReplicaResponse:
        raise AssertionError("nothing stops replicas yet")

    async def UpdateMetadata(  # noqa: N802
        self, request: control_pb2.UpdateMetadataRequest, context: Any
    ) -> control_pb2.UpdateMetadataResponse:
        self._fence(request.stamp)
        await self._swallow()
        self.updates.append(request)
        return control_pb2.UpdateMetadataResponse()

    async def _swallow(self) -> None:
        if self.swallows:
            await asyncio.Event().wait()

    def _fence(self, stamp: control_pb2.ControllerStamp) -> None:
        if stamp.broker_epoch != self.broker_epoch:
            self.refused += 1
            raise ServiceError(
                ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH, "another life of this broker is meant"
            )
        if stamp.controller_epoch < self.newest_controller_epoch:
            raise ServiceError(ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH, "there is a newer controller")
        self.newest_controller_epoch = stamp.controller_epoch

    def told(self, topic: str) -> dict[int, control_pb2.LeaderAndISRPartition]:
        """The latest decision about each partition of a topic."""
        return {
            partition.partition: partition
            for request in self.decisions
            for each in request.topics
            if each.topic == topic
            for partition in each.partitions
        }


class Cluster:
    """A ZooKeeper session to look with, stub brokers, and the address of each controller process."""

    def __init__(self, zookeeper: str, directory: Path, controller_arguments: Sequence[str] = ()) -> None:
        self.zookeeper = zookeeper
        self.directory = directory
        self.controller_arguments = tuple(controller_arguments)
        self.brokers: dict[int, StubBroker] = {}
        self.controllers: dict[int, ManagedProcess] = {}
        self.ports: dict[int, int] = {}
        self._channels: list[grpc.aio.Channel] = []
        self._guard = ProcessGuard()
        self.session: ZooKeeperSession

    def start_controller(self, controller_id: int) -> None:
        """Start it, or start it again on the same port."""
        port = self.ports.setdefault(controller_id, free_port(self.ports.values()))
        command = [
            *(sys.executable, "-m", "hightide_controller.main", "--controller-id", str(controller_id)),
            *("--listen", f"127.0.0.1:{port}", "--zookeeper", self.zookeeper),
            *("--zookeeper-session-timeout-ms", str(SESSION_TIMEOUT_MS)),
            *self.controller_arguments,
        ]
        environment = {
            **service_environment(os.environ),
            "HIGHTIDE_TRACE_DIR": str(self.directory / "traces"),
        }
        log = self.directory / f"controller-{controller_id}.log"
        process = ManagedProcess(f"controller-{controller_id}", command, environment, log)
        process.start(self._guard)
        self.controllers[controller_id] = process

    def kill_controller(self, controller_id: int) -> None:
        self.controllers[controller_id].kill()

    async def start_broker(self, broker_id: int) -> StubBroker:
        broker = StubBroker(broker_id)
        await broker.start(self.zookeeper)
        self.brokers[broker_id] = broker
        return broker

    async def active(self, after_epoch: int = 0) -> ControllerZnode:
        """Whoever is active under a later epoch than the one given."""

        async def look() -> ControllerZnode | None:
            try:
                found = ControllerZnode.decode((await self.session.get(ControllerZnode.path())).data)
            except (NoNode, ConnectionLost):
                return None
            return found if found.controller_epoch > after_epoch else None

        found: ControllerZnode = await until(look, "a controller is active")
        await self._wait_until_listening(found.port)
        return found

    async def _wait_until_listening(self, port: int) -> None:
        async def connects() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return False
            writer.close()
            return True

        await until(connects, f"port {port} listens")

    async def stub(self, controller_id: int | None = None) -> controller_grpc.ControllerServiceAsyncStub:
        """Of a controller; of the active one, once it acts, by default."""
        port = (await self.active()).port if controller_id is None else self.ports[controller_id]
        await self._wait_until_listening(port)
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self._channels.append(channel)
        stub: controller_grpc.ControllerServiceAsyncStub = controller_grpc.ControllerServiceStub(channel)

        async def acts() -> bool:
            try:
                await stub.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    return False
                raise
            return True

        if controller_id is None:
            await until(acts, "the controller that was elected acts")
        return stub

    async def knows_the_active_one(self, controller_id: int) -> None:
        """Wait until a controller acts, or stands by and would notice if the active one were gone."""
        await self.active()
        stub = await self.stub(controller_id)

        async def knows() -> bool:
            try:
                await stub.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                return "; controller" in (error.details() or "")
            return True

        await until(knows, f"controller {controller_id} knows who is active")

    async def state(self, topic: str, partition: int) -> tuple[LeaderAndIsrZnode, Znode]:
        found = await self.session.get(LeaderAndIsrZnode.path(topic, partition))
        return LeaderAndIsrZnode.decode(found.data), found

    async def led_by(self, topic: str, partition: int, *leaders: int, without: int = -1) -> LeaderAndIsrZnode:
        """Wait until one of these leads in ZooKeeper, and one broker is not in the ISR."""

        async def look() -> LeaderAndIsrZnode | None:
            try:
                state, _ = await self.state(topic, partition)
            except (NoNode, ConnectionLost):
                return None
            return state if state.leader in leaders and without not in state.isr else None

        found: LeaderAndIsrZnode = await until(look, f"{topic}-{partition} is led by {leaders}")
        return found

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        for process in self.controllers.values():
            process.kill()
        self._guard.close()
        for broker in self.brokers.values():
            await broker.stop()
        await self.session.close()


@asynccontextmanager
async def cluster(
    zookeeper: str,
    directory: Path,
    brokers: tuple[int, ...] = (1, 2, 3),
    controllers: tuple[int, ...] = (1,),
    controller_arguments: Sequence[str] = (),
) -> AsyncIterator[Cluster]:
    """Stub brokers that are registered, and controllers that are starting."""
    (directory / "traces").mkdir(exist_ok=True)
    built = Cluster(zookeeper, directory, controller_arguments)
    built.session = await ZooKeeperSession.connect(zookeeper, session_timeout_ms=SESSION_TIMEOUT_MS)
    try:
        await built.session.ensure_cluster_id()
        for broker_id in brokers:
            await built.start_broker(broker_id)
        for controller_id in controllers:
            built.start_controller(controller_id)
            if len(controllers) > 1:
                await built.knows_the_active_one(controller_id)
        yield built
    finally:
        await built.close()


@contextmanager
def paused(process: ManagedProcess) -> Iterator[None]:
    """SIGSTOP, and SIGCONT afterwards."""
    process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send(signal.SIGCONT)
