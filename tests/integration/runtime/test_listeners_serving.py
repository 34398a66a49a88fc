"""One process, two listeners: each call knows through which one it came, what is for the processes of the
cluster is refused outside, and every server says who it is."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import replica_service_pb2 as pb
from hightide.v1.controller_service_pb2_grpc import (
    ControllerServiceServicer,
    ControllerServiceStub,
    add_ControllerServiceServicer_to_server,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.replica_service_pb2_grpc import (
    ReplicaServiceServicer,
    ReplicaServiceStub,
    add_ReplicaServiceServicer_to_server,
)
from hightide.v1.server_service_pb2 import DescribeServerRequest, DescribeServerResponse
from hightide.v1.server_service_pb2_grpc import (
    ServerServiceServicer,
    ServerServiceStub,
    add_ServerServiceServicer_to_server,
)
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError, StartupError
from hightide_runtime.process.server_identity import SERVER_SERVICE, identity_service, installed_version
from hightide_runtime.process.settings import ServiceSettings
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.listeners import Listener, current_listener
from hightide_runtime.serving.server import Server, ServerLimits, Service, serve
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.zookeeper.session import ConnectionLost, ZooKeeperSession
from integration.controller.controller_harness import until

INSIDE, OUTSIDE = HostPort("127.0.0.1", 0), HostPort("127.0.0.2", 0)
FETCH = "/hightide.v1.ReplicaService/ReplicaFetch"


class Described(ServerServiceServicer):
    """Notes down through which listener each call came; answers once it is released."""

    def __init__(self) -> None:
        self.came_through: list[Listener] = []
        self.arrived = asyncio.Event()
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def DescribeServer(  # noqa: N802
        self, request: DescribeServerRequest, context: Any
    ) -> DescribeServerResponse:
        self.came_through.append(current_listener())
        self.arrived.set()
        await self.let_go.wait()
        return DescribeServerResponse()


class Replica(ReplicaServiceServicer):
    """Notes down who fetched."""

    def __init__(self) -> None:
        self.fetched: list[int] = []

    async def ReplicaFetch(  # noqa: N802
        self, request: pb.ReplicaFetchRequest, context: Any
    ) -> pb.ReplicaFetchResponse:
        self.fetched.append(request.replica_id)
        return pb.ReplicaFetchResponse()


class Topics(ControllerServiceServicer):
    """Has one topic, and a ZooKeeper that may be away."""

    async def DeleteTopic(  # noqa: N802
        self, request: controller_pb2.DeleteTopicRequest, context: Any
    ) -> controller_pb2.DeleteTopicResponse:
        if request.topic == "unlucky":
            raise ConnectionLost("ZooKeeper is away", outcome_unknown=True)
        if request.topic != "orders":
            raise ServiceError(ErrorCode.ERROR_CODE_UNKNOWN_TOPIC, "there is none")
        return controller_pb2.DeleteTopicResponse()


class Both:
    """A server with two listeners, and a channel to each of them."""

    def __init__(self) -> None:
        self.described = Described()
        self.replica = Replica()  # type: ignore[abstract]  # nobody calls the rest
        self.server: Server
        self.inside: grpc.aio.Channel
        self.outside: grpc.aio.Channel

    @asynccontextmanager
    async def served(self, **options: Any) -> AsyncIterator[None]:
        services = [
            Service(SERVER_SERVICE, self.described, add_ServerServiceServicer_to_server),
            Service(
                "hightide.v1.ControllerService",
                Topics(),  # type: ignore[abstract]  # nobody calls the rest
                add_ControllerServiceServicer_to_server,
            ),
            Service("hightide.v1.ReplicaService", self.replica, add_ReplicaServiceServicer_to_server),
        ]
        self.server = await serve(INSIDE, services, external=OUTSIDE, **options)
        assert self.server.external_address is not None
        try:
            async with (
                open_channel(self.server.address) as self.inside,
                open_channel(self.server.external_address) as self.outside,
            ):
                yield
        finally:
            await self.server.stop(0)


def with_both(test: Callable[[Both], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        both = Both()
        async with both.served(**options):
            await test(both)

    asyncio.run(run())


def test_a_call_knows_through_which_listener_it_came() -> None:
    async def test(both: Both) -> None:
        for channel in (both.inside, both.outside, both.inside):
            await ServerServiceStub(channel).DescribeServer(DescribeServerRequest(), timeout=30)
        assert both.described.came_through == [Listener.INTERNAL, Listener.EXTERNAL, Listener.INTERNAL]

        async def are_counted() -> bool:
            return both.server.timings["/hightide.v1.ServerService/DescribeServer"].calls == 3

        # A client hears of the end of its call before the server has counted it.
        await until(are_counted, "the calls of both listeners are counted together")

    with_both(test)


def test_what_is_for_the_processes_of_the_cluster_is_refused_outside_and_told_where_it_is_served() -> None:
    """A forged replica id is the first row of the attacks: it comes in where clients come in."""

    async def test(both: Both) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ReplicaServiceStub(both.outside).ReplicaFetch(
                pb.ReplicaFetchRequest(replica_id=2), timeout=30
            )
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "the internal listener alone serves it" in (refused.value.details() or "")
        status = rpc_status.from_call(refused.value)
        assert status is not None
        info = error_details_pb2.ErrorInfo()
        assert status.details[0].Unpack(info)
        assert info.reason == "NOT_AUTHORIZED"
        assert info.metadata["method"] == FETCH
        assert both.replica.fetched == []

        async def is_counted() -> bool:
            return both.server.timings[FETCH].failures == {"NOT_AUTHORIZED": 1}

        # A client hears of the end of its call before the server has counted it.
        await until(is_counted, "the refusal is counted")
        await ReplicaServiceStub(both.inside).ReplicaFetch(pb.ReplicaFetchRequest(replica_id=1), timeout=30)
        assert both.replica.fetched == [1]
        # Beside them a client from outside is served.
        await ServerServiceStub(both.outside).DescribeServer(DescribeServerRequest(), timeout=30)

    with_both(test)


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(each.getMessage()) for each in caplog.records if each.name == "hightide.audit"]


def test_each_administrative_call_has_a_line_in_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def test(both: Both) -> None:
        delete = ControllerServiceStub(both.outside).DeleteTopic
        await delete(
            controller_pb2.DeleteTopicRequest(topic="orders"),
            timeout=30,
            metadata=(("traceparent", traceparent),),
        )
        for topic in ("none", "unlucky"):
            with pytest.raises(grpc.aio.AioRpcError):
                await delete(controller_pb2.DeleteTopicRequest(topic=topic, validate_only=True), timeout=30)
        # A call that only reads has none.
        await ServerServiceStub(both.outside).DescribeServer(DescribeServerRequest(), timeout=30)

    with_both(test)
    lines = audited(caplog)
    assert [(each["subjects"], each["outcome"], each.get("validate_only")) for each in lines] == [
        (["orders"], "OK", None),
        (["none"], "UNKNOWN_TOPIC", True),
        (["unlucky"], "ZOOKEEPER_UNAVAILABLE", True),
    ]
    assert lines[0]["from"].startswith("ipv4:127.0.0.")
    del lines[0]["from"], lines[0]["outcome"], lines[0]["subjects"]
    assert lines[0] == {
        "who": "anonymous",
        "listener": "external",
        "method": "/hightide.v1.ControllerService/DeleteTopic",
        "operation": "delete",
        "resource": "topic",
        "trace": traceparent[3:35],
        "allowed": True,
    }


def test_a_flood_of_refused_calls_is_one_line_in_the_audit_log_and_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(both: Both) -> None:
        fetch = ReplicaServiceStub(both.outside).ReplicaFetch
        for _ in range(20):
            with pytest.raises(grpc.aio.AioRpcError):
                await fetch(pb.ReplicaFetchRequest(replica_id=2), timeout=30)

        async def all_are_told() -> bool:
            lines = audited(caplog)
            return sum(int(each.get("suppressed", 1)) for each in lines) == 20

        await until(all_are_told, "the second is over")
        first = audited(caplog)[0]
        assert (first["method"], first["listener"], first["allowed"]) == (FETCH, "external", False)
        assert "the internal listener alone serves it" in first["why"]

    with_both(test)


async def services_told(channel: grpc.aio.Channel) -> set[str]:
    listing = reflection_pb2.ServerReflectionRequest(list_services="")
    reflecting = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
        iter([listing]), timeout=30
    )
    answer = await reflecting.read()
    reflecting.cancel()
    return {service.name for service in answer.list_services_response.service}


async def servers_told(channel: grpc.aio.Channel) -> str:
    stub = channelz_pb2_grpc.ChannelzStub(channel)
    try:
        await stub.GetServers(channelz_pb2.GetServersRequest(), timeout=30)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


def test_reflection_and_channelz_are_for_those_inside() -> None:
    async def test(both: Both) -> None:
        assert {"hightide.v1.ServerService", "hightide.v1.ReplicaService"} < await services_told(both.inside)
        assert await servers_told(both.inside) == "OK"
        # Nothing is written, since a call whose write fails may end with the status of that.
        asked = reflection_pb2_grpc.ServerReflectionStub(both.outside).ServerReflectionInfo(timeout=30)
        assert await asked.code() is grpc.StatusCode.UNIMPLEMENTED
        assert await servers_told(both.outside) == "UNIMPLEMENTED"

    with_both(test)


def test_a_setting_opens_reflection_and_channelz_to_those_outside_who_are_told_what_they_may_call() -> None:
    async def test(both: Both) -> None:
        told = await services_told(both.outside)
        assert "hightide.v1.ServerService" in told
        assert "hightide.v1.ReplicaService" not in told
        assert await servers_told(both.outside) == "OK"

    with_both(test, external_introspection=True)


def test_both_listeners_tell_the_same_health() -> None:
    async def test(both: Both) -> None:
        for serving, status in ((False, "NOT_SERVING"), (True, "SERVING")):
            await both.server.set_serving(serving)
            for channel in (both.inside, both.outside):
                stub = health_pb2_grpc.HealthStub(channel)
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)
                assert health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status) == status

    with_both(test)


def test_the_limit_of_calls_in_hand_is_one_for_both_listeners() -> None:
    async def test(both: Both) -> None:
        both.described.let_go.clear()
        request = DescribeServerRequest()
        parked = asyncio.ensure_future(ServerServiceStub(both.inside).DescribeServer(request, timeout=60))
        await both.described.arrived.wait()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ServerServiceStub(both.outside).DescribeServer(request, timeout=30)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        both.described.let_go.set()
        await parked

    with_both(test, limits=ServerLimits(max_concurrent_rpcs=1))


def test_an_external_port_in_use_is_a_sentence_that_names_its_flag_and_nothing_listens() -> None:
    async def test(both: Both) -> None:
        with pytest.raises(StartupError, match=r"in use .* use --external-listen"):
            await serve(INSIDE, [], external=both.server.external_address)

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
