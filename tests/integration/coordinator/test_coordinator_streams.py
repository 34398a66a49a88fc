"""The streams of consumers over real gRPC: what is written, how a stream ends, and how many there may be."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from declared_services import declare
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_coordinator.streams.consumer_streams import QUEUE_MAX, ConsumerStream, ConsumerStreams
from hightide_coordinator.streams.unread_streams import UnreadStreams
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Service, serve

STREAM = "/test.Consumers/Register"
FENCED = ServiceError(ErrorCode.ERROR_CODE_FENCED_INSTANCE, "another process is instance i", {"group": "g"})
PATIENCE_S = 60
HELLO = pb.RegisterConsumerRequest(registration=pb.ConsumerRegistration(group="g")).SerializeToString()
GOODBYE = pb.RegisterConsumerRequest(goodbye=pb.ConsumerGoodbye()).SerializeToString()

declare("test.Consumers", "Register")


class Rig:
    """Stands in for a shard: takes whatever comes, and does nothing by itself."""

    def __init__(self, streams_max: int, registration_timeout_s: float) -> None:
        self.streams = ConsumerStreams(streams_max, registration_timeout_s)
        self.at_answer: Callable[[], object] = lambda: None
        self.registered: asyncio.Queue[ConsumerStream] = asyncio.Queue()
        self.heard: asyncio.Queue[str | None] = asyncio.Queue()
        self.gone: asyncio.Queue[ConsumerStream] = asyncio.Queue()
        self.refusal: ServiceError | None = None
        self.ended = asyncio.Event()

    async def serve(self, requests: Any, context: Any) -> None:
        try:
            await self.streams.serve(requests, context, self._register)
        finally:
            self.ended.set()

    def _register(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> "Rig":
        if self.refusal is not None:
            raise self.refusal
        self.registered.put_nowait(stream)
        return self

    def answered(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> None:
        kind = message.WhichOneof("message")
        stream.has_said_goodbye = kind == "goodbye"
        self.heard.put_nowait(kind)
        self.at_answer()

    def lost(self, stream: ConsumerStream) -> None:
        self.gone.put_nowait(stream)

    def add_to_server(self, servicer: Any, server: Any) -> None:
        handler: Any = grpc.stream_stream_rpc_method_handler(self.serve)
        server.add_registered_method_handlers("test.Consumers", {"Register": handler})


def with_rig(
    test: Callable[[Rig, grpc.aio.Channel], Awaitable[None]],
    streams_max: int = 100,
    registration_timeout_s: float = PATIENCE_S,
) -> None:
    async def run() -> None:
        rig = Rig(streams_max, registration_timeout_s)
        service = Service("test.Consumers", rig, rig.add_to_server, without_deadline=frozenset({"Register"}))
        server = await serve(HostPort("127.0.0.1", 0), [service], small_messages=True)
        try:
            async with asyncio.timeout(PATIENCE_S), open_channel(server.address) as channel:
                await test(rig, channel)
        finally:
            await server.stop(0)

    asyncio.run(run())


async def joined(rig: Rig, channel: grpc.aio.Channel) -> tuple[Any, ConsumerStream]:
    call: Any = channel.stream_stream(STREAM)()
    await call.write(HELLO)
    return call, await rig.registered.get()


async def failure_of(call: Any) -> tuple[str, str]:
    """The reason and the sentence with which a call ends, after whatever else comes on it."""

    async def drain() -> None:
        while await call.read() is not grpc.aio.EOF:
            pass

    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await drain()
    status = rpc_status.from_call(raised.value)
    info = error_details_pb2.ErrorInfo()
    assert status is not None
    assert status.details[0].Unpack(info)
    return info.reason, raised.value.details() or ""


def test_messages_arrive_in_their_order_and_an_end_comes_after_them() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        for number in range(20):
            assert stream.send(b"%d" % number)
        stream.end(FENCED)
        assert [await call.read() for _ in range(20)] == [b"%d" % number for number in range(20)]
        assert await failure_of(call) == ("FENCED_INSTANCE", FENCED.message)
        assert len(rig.streams) == 0
        assert rig.gone.empty()

    with_rig(test)


def test_an_idle_stream_can_be_ended_without_a_word_of_the_consumer() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        assert stream.send(b"one")
        assert await call.read() == b"one"
        stream.end(FENCED)
        assert (await failure_of(call))[0] == "FENCED_INSTANCE"

    with_rig(test)


def test_a_goodbye_waits_for_its_end_whether_the_consumer_closes_its_side_or_not() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        for closes in (True, False):
            call, stream = await joined(rig, channel)
            await call.write(GOODBYE)
            assert await rig.heard.get() == "goodbye"
            if closes:
                await call.done_writing()
            stream.send(b"last")
            stream.end()
            assert await call.read() == b"last"
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
        assert rig.gone.empty()

    with_rig(test)


def test_a_consumer_that_vanishes_is_lost() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        call.cancel()
        assert await rig.gone.get() is stream
        assert stream.send(b"to nobody"), "whoever is told late may still send"

    with_rig(test)


def test_closing_the_own_side_without_a_goodbye_ends_the_stream() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        await call.done_writing()
        assert (await failure_of(call))[0] == "INVALID_REQUEST"
        assert await rig.gone.get() is stream

    with_rig(test)


def test_bytes_that_are_no_message_end_the_stream() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        await call.write(b"\xff\xff\xff")
        assert (await failure_of(call))[0] == "INVALID_REQUEST"
        assert await rig.gone.get() is stream
        nobody: Any = channel.stream_stream(STREAM)()
        await nobody.write(b"\xff\xff\xff")
        assert (await failure_of(nobody))[0] == "INVALID_REQUEST"
        assert rig.gone.empty(), "who never registered is not lost"

    with_rig(test)


def test_a_refused_registration_ends_the_stream_with_the_reason() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        rig.refusal = FENCED
        call: Any = channel.stream_stream(STREAM)()
        await call.write(HELLO)
        assert (await failure_of(call))[0] == "FENCED_INSTANCE"
        assert rig.gone.empty()

    with_rig(test)


def test_a_consumer_that_never_reads_fills_its_queue_and_no_more() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        megabyte = bytes(1 << 20)
        sent = 0
        while stream.send(megabyte):
            sent += 1
            await asyncio.sleep(0)
        assert QUEUE_MAX <= sent < QUEUE_MAX + 20
        stream.end(FENCED, at_once=True)
        # The status waits behind the one message that is half-way.
        assert (await failure_of(call))[0] == "FENCED_INSTANCE"

    with_rig(test)


def test_consumers_that_stop_reading_together_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        unread = UnreadStreams(2)
        unread.log()
        calls = [await joined(rig, channel) for _ in range(5)]
        for _, stream in calls:
            unread.end(stream)
        unread.log()
        unread.log()
        for call, _ in calls:
            reason, message = await failure_of(call)
            assert reason == "SESSION_TIMED_OUT"
            assert "does not read its stream" in message
        assert unread.count == 5

    with caplog.at_level(logging.WARNING):
        with_rig(test)
    (line,) = [each.message for each in caplog.records if each.name.startswith("hightide_coordinator")]
    assert line.startswith("shard 2: ended the streams of 5 consumers that do not read: at 127.0.0.1:")
    assert line.endswith(" and 2 more")


def test_a_consumer_that_does_not_read_its_last_messages_does_not_hold_its_end_up() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        for _ in range(5):
            assert stream.send(bytes(1 << 20))
        stream.end(FENCED)
        await rig.ended.wait()
        assert (await failure_of(call))[0] == "FENCED_INSTANCE"

    with_rig(test)


def test_a_consumer_that_sends_and_never_reads_does_not_hold_its_end_up() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, stream = await joined(rig, channel)
        for _ in range(QUEUE_MAX // 2):
            assert stream.send(bytes(1 << 20))
        rig.at_answer = lambda: stream.end(FENCED, at_once=True)
        await call.write(GOODBYE)
        await rig.ended.wait()
        assert len(rig.streams) == 0

    with_rig(test)


def test_a_stream_on_which_nobody_registers_is_ended() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call: Any = channel.stream_stream(STREAM)()
        reason, message = await failure_of(call)
        assert reason == "SESSION_TIMED_OUT"
        assert "register" in message
        assert rig.gone.empty()
        assert len(rig.streams) == 0

    with_rig(test, registration_timeout_s=0.2)


def test_more_streams_than_the_limit_are_refused_as_overload() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        call, _ = await joined(rig, channel)
        other: Any = channel.stream_stream(STREAM)()
        assert (await failure_of(other))[0] == "OVERLOADED"
        call.cancel()
        await rig.gone.get()
        await joined(rig, channel)

    with_rig(test, streams_max=1)


def test_a_stop_ends_every_stream_and_refuses_new_ones() -> None:
    async def test(rig: Rig, channel: grpc.aio.Channel) -> None:
        calls = [(await joined(rig, channel))[0] for _ in range(3)]
        await rig.streams.stop(ServiceError(ErrorCode.ERROR_CODE_SHUTTING_DOWN, "look elsewhere"), PATIENCE_S)
        assert len(rig.streams) == 0
        calls.append(channel.stream_stream(STREAM)())
        assert {(await failure_of(call))[0] for call in calls} == {"SHUTTING_DOWN"}

    with_rig(test)
