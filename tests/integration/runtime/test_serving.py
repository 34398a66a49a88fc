"""What every server answers to bad input, to bugs and to operators, over real gRPC on loopback."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from declared_services import declare
from google.rpc import error_details_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from hightide.v1 import replica_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.replica_service_pb2_grpc import (
    ReplicaServiceServicer,
    ReplicaServiceStub,
    add_ReplicaServiceServicer_to_server,
)
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import INTERNAL_ERROR_MESSAGE, ServiceError, StartupError
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Server, ServerLimits, Service, serve
from hightide_runtime.zookeeper.session import ConnectionLost
from integration.controller.controller_harness import until

REPLICA_SERVICE = "hightide.v1.ReplicaService"
FETCH = f"/{REPLICA_SERVICE}/ReplicaFetch"
LOOPBACK = HostPort("127.0.0.1", 0)
NOT_LEADER = ServiceError(
    ErrorCode.ERROR_CODE_NOT_LEADER, "broker 1 does not lead ä-0", {"leader_epoch": "7"}
)

declare("test.Streaming", "Stream")
declare("test.Echo", "Talk")


class Replica(ReplicaServiceServicer):
    """Fails as it is told, after a number of answers where the method is a stream."""

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure
        self.parked = asyncio.Event()
        self.release = asyncio.Event()

    async def ReplicaFetch(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self._failure is not None:
            raise self._failure
        if request.max_wait_ms:
            self.parked.set()
            await self.release.wait()
        return pb.ReplicaFetchResponse(session_id=request.session_id + 1)

    async def EndOffsetForLeaderEpoch(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise AssertionError("not called")

    async def DigestBatches(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise AssertionError("not called")

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield pb.ReplicaFetchResponse(session_id=1)
        yield pb.ReplicaFetchResponse(session_id=2)
        if self._failure is not None:
            raise self._failure


def add_stream(servicer: Any, server: Any) -> None:
    """As generated code would register a method that answers with a stream."""
    handler = grpc.unary_stream_rpc_method_handler(
        servicer.stream,
        request_deserializer=pb.ReplicaFetchRequest.FromString,
        response_serializer=pb.ReplicaFetchResponse.SerializeToString,
    )
    server.add_registered_method_handlers("test.Streaming", {"Stream": handler})


@asynccontextmanager
async def served(replica: Replica, **options: Any) -> AsyncIterator[tuple[Server, grpc.aio.Channel]]:
    services = [
        Service(REPLICA_SERVICE, replica, add_ReplicaServiceServicer_to_server),
        Service("test.Streaming", replica, add_stream),
    ]
    server = await serve(LOOPBACK, services, **options)
    try:
        async with open_channel(server.address) as channel:
            yield server, channel
    finally:
        await server.stop(0)


def with_server(
    test: Callable[[Server, grpc.aio.Channel, Replica], Awaitable[None]],
    failure: Exception | None = None,
    **options: Any,
) -> None:
    async def run() -> None:
        replica = Replica(failure)
        async with served(replica, **options) as (server, channel):
            await test(server, channel, replica)

    asyncio.run(run())


def raw_unary(channel: grpc.aio.Channel, path: str) -> Callable[..., Any]:
    """A method as bytes, for what no generated stub would send."""
    return channel.unary_unary(path)


def raw_stream(channel: grpc.aio.Channel, path: str) -> Callable[..., Any]:
    return channel.unary_stream(path)


async def failure_of(call: Any) -> tuple[grpc.StatusCode, str, error_details_pb2.ErrorInfo]:
    info = error_details_pb2.ErrorInfo()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    status = rpc_status.from_call(raised.value)
    if status is not None:
        assert status.details[0].Unpack(info)
    return raised.value.code(), raised.value.details() or "", info


def test_an_expected_error_goes_out_as_the_catalogue_says_with_reason_facts_and_sentence() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        call = ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(), timeout=30)
        code, message, info = await failure_of(call)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert message == "broker 1 does not lead ä-0"
        assert (info.reason, info.domain, dict(info.metadata)) == (
            "NOT_LEADER",
            "hightide",
            {"leader_epoch": "7"},
        )

    with_server(test, NOT_LEADER)


def test_an_error_in_the_middle_of_a_stream_goes_out_likewise_after_what_came_before_it() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        parse = pb.ReplicaFetchResponse.FromString
        received = []

        async def read() -> None:
            async for each in raw_stream(channel, "/test.Streaming/Stream")(b"", timeout=30):
                received.append(parse(each).session_id)  # noqa: PERF401 - what came before the error counts

        code, _, info = await failure_of(read())
        assert (received, code, info.reason) == ([1, 2], grpc.StatusCode.FAILED_PRECONDITION, "NOT_LEADER")

    with_server(test, NOT_LEADER)


@pytest.mark.parametrize("path", [FETCH, "/test.Streaming/Stream"])
def test_a_bug_tells_the_client_nothing_of_it_and_the_log_everything(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        async def call() -> None:
            if path == FETCH:
                await raw_unary(channel, path)(b"", timeout=30)
            async for _ in raw_stream(channel, path)(b"", timeout=30):
                pass

        code, message, info = await failure_of(call())
        assert (code, message, info.reason) == (grpc.StatusCode.INTERNAL, INTERNAL_ERROR_MESSAGE, "INTERNAL")
        assert "the secret" not in message

    with_server(test, KeyError("the secret"))
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert path in record.getMessage()
    assert record.exc_info is not None
    assert "the secret" in str(record.exc_info[1])


def test_zookeeper_failing_below_a_servicer_is_told_as_that_and_not_as_a_bug() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        code, _, info = await failure_of(raw_unary(channel, FETCH)(b"", timeout=30))
        assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "ZOOKEEPER_UNAVAILABLE")

    with_server(test, ConnectionLost("no connection to ZooKeeper", outcome_unknown=False))


@pytest.mark.parametrize("garbage", [b"\xff", b"\x08", b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256))])
@pytest.mark.parametrize("path", [FETCH, "/test.Streaming/Stream"])
def test_garbage_bytes_are_an_invalid_request(path: str, garbage: bytes) -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        async def call() -> None:
            if path == FETCH:
                await raw_unary(channel, path)(garbage, timeout=30)
            async for _ in raw_stream(channel, path)(garbage, timeout=30):
                pass

        code, message, info = await failure_of(call())
        assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
        assert f"{len(garbage)} bytes" in message

    with_server(test)


def test_a_message_over_the_limit_is_refused_and_the_next_one_served() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        async with grpc.aio.insecure_channel(str(server.address)) as unlimited:
            code, _, _ = await failure_of(raw_unary(unlimited, FETCH)(bytes(70_000), timeout=30))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await raw_unary(unlimited, FETCH)(b"", timeout=30)

    with_server(test, limits=ServerLimits(max_message_bytes=65_536))


def test_a_call_without_a_deadline_is_served() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        answer = await raw_unary(channel, FETCH)(b"")
        assert pb.ReplicaFetchResponse.FromString(answer).session_id == 1

    with_server(test)


def test_a_call_without_a_deadline_gets_the_servers_and_is_told_when_that_runs_out() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        parked = pb.ReplicaFetchRequest(max_wait_ms=1)
        code, message, info = await failure_of(ReplicaServiceStub(channel).ReplicaFetch(parked))
        assert (code, info.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "TIMED_OUT")
        assert "not done after 50 ms" in message
        assert "-max-time" in message

        async def is_taken() -> bool:
            with suppress(grpc.aio.AioRpcError):
                return bool(await raw_unary(channel, FETCH)(b""))
            return False

        # A client hears of the end of its call before the server has counted it.
        await until(is_taken, "what was given up is not in hand any more")

    with_server(test, limits=ServerLimits(default_deadline_ms=50, max_concurrent_rpcs=1))


def test_a_callers_own_deadline_holds_instead_of_the_servers() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        parked = ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(max_wait_ms=1), timeout=30)
        await replica.parked.wait()
        code, message, _ = await failure_of(
            ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(max_wait_ms=1))
        )
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED, message
        replica.release.set()
        assert (await parked).session_id == 1

    with_server(test, limits=ServerLimits(default_deadline_ms=50))


def test_a_stream_without_a_deadline_is_refused_with_the_way_to_set_one() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        async def call() -> None:
            async for _ in raw_stream(channel, "/test.Streaming/Stream")(b""):
                pass

        code, message, info = await failure_of(call())
        assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED")
        assert "-max-time" in message

    with_server(test)


def test_a_deadline_beyond_the_limit_is_refused() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        _, message, info = await failure_of(raw_unary(channel, FETCH)(b"", timeout=60))
        assert info.reason == "LIMIT_EXCEEDED"
        assert "1000 ms" in message

    with_server(test, limits=ServerLimits(max_deadline_ms=1000))


class Echo:
    """A stream that reads and writes bytes by itself."""

    async def talk(self, requests: Any, context: Any) -> None:
        async for message in requests:
            if message == b"fail":
                raise NOT_LEADER
            await context.write(message)

    def add_to_server(self, servicer: Any, server: Any) -> None:
        handler: Any = grpc.stream_stream_rpc_method_handler(self.talk)
        server.add_registered_method_handlers("test.Echo", {"Talk": handler})


def with_echo(test: Callable[[Server, grpc.aio.Channel], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        echo = Echo()
        services = [
            Service("test.Echo", echo, echo.add_to_server, without_deadline=frozenset({"Talk"})),
            Service(REPLICA_SERVICE, Replica(), add_ReplicaServiceServicer_to_server),
        ]
        server = await serve(LOOPBACK, services, **options)
        try:
            async with open_channel(server.address) as channel:
                await test(server, channel)
        finally:
            await server.stop(0)

    asyncio.run(run())


def test_a_stream_that_reads_and_writes_by_itself_has_the_same_interceptors_around_it() -> None:
    async def test(server: Server, channel: grpc.aio.Channel) -> None:
        call: Any = channel.stream_stream("/test.Echo/Talk")()
        await call.write(b"one")
        assert await call.read() == b"one"
        await call.write(b"fail")
        status, sentence, info = await failure_of(call.read())
        assert (status, info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_LEADER")
        assert sentence == "broker 1 does not lead ä-0"

        async def counted() -> bool:
            return server.timings["/test.Echo/Talk"].failed == 1

        await until(counted, "the failure is counted")

    with_echo(test, small_messages=True)


def test_streams_without_an_end_leave_the_calls_their_places() -> None:
    async def test(server: Server, channel: grpc.aio.Channel) -> None:
        calls: list[Any] = [channel.stream_stream("/test.Echo/Talk")() for _ in range(5)]
        for call in calls:
            await call.write(b"one")
            assert await call.read() == b"one"
        await ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(), timeout=30)
        for call in calls:
            call.cancel()

    with_echo(test, limits=ServerLimits(max_concurrent_rpcs=1))


def test_a_port_in_use_is_a_sentence_that_names_the_port() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        with pytest.raises(StartupError, match=f"port {server.address.port} .* in use"):
            await serve(server.address, [])

    with_server(test)


def test_an_address_of_another_machine_is_a_sentence_that_names_it() -> None:
    with pytest.raises(StartupError, match=r"cannot listen on 192\.0\.2\.1:0"):
        asyncio.run(serve(HostPort("192.0.2.1", 0), []))


def test_health_is_told_by_service_name_and_watchers_hear_of_every_change() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        health = health_pb2_grpc.HealthStub(channel)
        watching = health.Watch(health_pb2.HealthCheckRequest(service=REPLICA_SERVICE))
        heard = [(await watching.read()).status]
        await server.set_serving(True)
        heard.append((await watching.read()).status)
        other = await health.Check(health_pb2.HealthCheckRequest(service=""), timeout=30)
        assert heard == [health_pb2.HealthCheckResponse.NOT_SERVING, health_pb2.HealthCheckResponse.SERVING]
        assert other.status == health_pb2.HealthCheckResponse.SERVING
        # A graceful stop says so, ends the stream, and does not wait for the grace to be over.
        await asyncio.wait_for(server.stop(60), 30)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await watching.read() is grpc.aio.EOF

    with_server(test)


def test_the_health_of_a_service_that_is_not_here_is_not_found() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        health = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=30)
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND

    with_server(test)


def test_a_graceful_stop_lets_a_running_call_end() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        call = ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(max_wait_ms=1), timeout=30)
        sending = asyncio.ensure_future(call)
        await replica.parked.wait()
        stopping = asyncio.ensure_future(server.stop(10))
        await asyncio.sleep(0)
        replica.release.set()
        assert (await sending).session_id == 1
        await stopping

    with_server(test)


def test_a_server_that_is_drained_for_good_goes_on_refusing() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        await server.drain_for_good(0)
        _, _, info = await failure_of(raw_unary(channel, FETCH)(b"", timeout=30))
        assert info.reason == "SHUTTING_DOWN"

    with_server(test)


def test_a_call_that_comes_while_the_server_stops_is_told_so() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        call = ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(max_wait_ms=1), timeout=30)
        sending = asyncio.ensure_future(call)
        await replica.parked.wait()
        stopping = asyncio.ensure_future(server.stop(10))
        await asyncio.sleep(0)
        _, _, info = await failure_of(raw_unary(channel, FETCH)(b"", timeout=30))
        assert info.reason == "SHUTTING_DOWN"
        replica.release.set()
        await sending
        await stopping

    with_server(test)


def test_operators_find_services_by_reflection_and_traffic_by_channelz() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        listing = reflection_pb2.ServerReflectionRequest(list_services="")
        reflecting = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([listing]))
        answer = await reflecting.read()
        names = {service.name for service in answer.list_services_response.service}
        assert {REPLICA_SERVICE, "grpc.health.v1.Health", "grpc.channelz.v1.Channelz"} <= names
        reflecting.cancel()
        channelz = channelz_pb2_grpc.ChannelzStub(channel)
        assert (await channelz.GetServers(channelz_pb2.GetServersRequest(), timeout=30)).server

    with_server(test)


def test_calls_and_failures_are_counted_by_method() -> None:
    async def test(server: Server, channel: grpc.aio.Channel, replica: Replica) -> None:
        await raw_unary(channel, FETCH)(b"", timeout=30)
        await failure_of(raw_unary(channel, FETCH)(b"\xff", timeout=30))
        timing = server.timings[FETCH]

        async def both_are_counted() -> bool:
            return timing.calls == 2

        # A client hears of the end of its call before the server has counted it.
        await until(both_are_counted, "two calls are counted")
        assert timing.failures == {"INVALID_REQUEST": 1}
        assert timing.in_hand == 0
        assert timing.duration_s.total >= timing.duration_s.largest > 0

    with_server(test)


def test_a_method_with_a_codec_gets_and_gives_what_the_codec_makes_of_the_bytes() -> None:
    class Reversing:
        def parse(self, request: bytes) -> Any:
            if not request:
                raise ValueError("empty")
            return pb.ReplicaFetchRequest(session_id=len(request))

        def serialise(self, response: Any) -> bytes:
            return b"%d" % response.session_id

    async def run() -> None:
        service = Service(
            REPLICA_SERVICE, Replica(), add_ReplicaServiceServicer_to_server, {"ReplicaFetch": Reversing()}
        )
        server = await serve(LOOPBACK, [service])
        async with open_channel(server.address) as channel:
            assert await raw_unary(channel, FETCH)(b"abc", timeout=30) == b"4"
            _, _, info = await failure_of(raw_unary(channel, FETCH)(b"", timeout=30))
            assert info.reason == "INVALID_REQUEST"
        await server.stop(0)

    asyncio.run(run())
