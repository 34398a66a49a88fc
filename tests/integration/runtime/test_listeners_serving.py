"""One process, two listeners: each call knows through which one it came; and every server says who it is."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hightide.v1 import replica_service_pb2 as pb
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceStub, add_ReplicaServiceServicer_to_server
from hightide.v1.server_service_pb2 import DescribeServerRequest
from hightide.v1.server_service_pb2_grpc import ServerServiceStub
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.process.server_identity import identity_service, installed_version
from hightide_runtime.process.settings import ServiceSettings
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.listeners import Listener, current_listener
from hightide_runtime.serving.server import Server, ServerLimits, Service, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.zookeeper.session import ZooKeeperSession

INSIDE, OUTSIDE = HostPort("127.0.0.1", 0), HostPort("127.0.0.2", 0)


class Replica:
    """Notes down through which listener each call came; answers once it is released."""

    def __init__(self) -> None:
        self.came_through: list[Listener] = []
        self.arrived = asyncio.Event()
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def ReplicaFetch(  # noqa: N802
        self, request: pb.ReplicaFetchRequest, context: Any
    ) -> pb.ReplicaFetchResponse:
        self.came_through.append(current_listener())
        self.arrived.set()
        await self.let_go.wait()
        return pb.ReplicaFetchResponse()

    async def EndOffsetForLeaderEpoch(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.EndOffsetForLeaderEpochResponse()

    async def DigestBatches(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.DigestBatchesResponse()


@asynccontextmanager
async def served(replica: Replica, **options: Any) -> Any:
    service = Service("hightide.v1.ReplicaService", replica, add_ReplicaServiceServicer_to_server)
    server = await serve(INSIDE, [service], external=OUTSIDE, **options)
    assert server.external_address is not None
    try:
        async with open_channel(server.address) as inside, open_channel(server.external_address) as outside:
            yield server, inside, outside
    finally:
        await server.stop(0)


def with_both(
    test: Callable[[Server, Replica, grpc.aio.Channel, grpc.aio.Channel], Awaitable[None]], **options: Any
) -> None:
    async def run() -> None:
        replica = Replica()
        async with served(replica, **options) as (server, inside, outside):
            await test(server, replica, inside, outside)

    asyncio.run(run())


def test_a_call_knows_through_which_listener_it_came() -> None:
    async def test(server: Server, replica: Replica, inside: Any, outside: Any) -> None:
        for channel in (inside, outside, inside):
            await ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(), timeout=30)
        assert replica.came_through == [Listener.INTERNAL, Listener.EXTERNAL, Listener.INTERNAL]
        assert server.timings["/hightide.v1.ReplicaService/ReplicaFetch"].calls == 3

    with_both(test)


def test_both_listeners_tell_the_same_health() -> None:
    async def test(server: Server, replica: Replica, inside: Any, outside: Any) -> None:
        for serving, status in ((False, "NOT_SERVING"), (True, "SERVING")):
            await server.set_serving(serving)
            for channel in (inside, outside):
                stub = health_pb2_grpc.HealthStub(channel)
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)
                assert health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status) == status

    with_both(test)


def test_the_limit_of_calls_in_hand_is_one_for_both_listeners() -> None:
    async def test(server: Server, replica: Replica, inside: Any, outside: Any) -> None:
        replica.let_go.clear()
        request = pb.ReplicaFetchRequest()
        parked = asyncio.ensure_future(ReplicaServiceStub(inside).ReplicaFetch(request, timeout=60))
        await replica.arrived.wait()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ReplicaServiceStub(outside).ReplicaFetch(request, timeout=30)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        replica.let_go.set()
        await parked

    with_both(test, limits=ServerLimits(max_concurrent_rpcs=1))


def test_an_external_port_in_use_is_a_sentence_that_names_its_flag_and_nothing_listens() -> None:
    async def test(server: Server, replica: Replica, inside: Any, outside: Any) -> None:
        with pytest.raises(StartupError, match=r"in use .* use --external-listen"):
            await serve(INSIDE, [], external=server.external_address)

    with_both(test)


class Settings(ServiceSettings, env_prefix="HIGHTIDE_TEST_"):
    """A service for tests."""


def test_a_server_says_who_it_is_and_what_zookeeper_has_granted(zookeeper_server: EmbeddedZooKeeper) -> None:
    """The session asks for 150 s and gets what the server grants at most, 120 s."""
    arguments = ["--listen", "127.0.0.1:0", "--advertise", "inside:1"]
    arguments += ["--external-listen", "127.0.0.2:0", "--external-advertise", "outside:2"]
    settings = Settings.from_command_line(arguments)

    async def run() -> None:
        clock = SystemClock()
        session = await ZooKeeperSession.connect(zookeeper_server.address, session_timeout_ms=150_000)
        before_ms = clock.wall_us() // 1000
        identity = identity_service("broker", 7, settings, session, clock)
        server = await serve(settings.listen, [identity], external=settings.external_listen)
        try:
            assert server.external_address is not None
            async with open_channel(server.external_address) as channel:
                told = await ServerServiceStub(channel).DescribeServer(DescribeServerRequest(), timeout=30)
        finally:
            await server.stop(0)
            await session.close()
        assert (told.service, told.instance, told.version) == ("broker", "7", installed_version())
        assert (told.advertised, told.external_advertised) == ("inside:1", "outside:2")
        assert told.zookeeper_session_timeout_ms == 120_000
        assert before_ms <= told.started_at_ms <= told.clock_ms <= clock.wall_us() // 1000

    asyncio.run(run())
