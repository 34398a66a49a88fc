"""Brief calls of a blocking client share a stream, and end as calls by themselves do: over real gRPC."""

from __future__ import annotations

import asyncio
import queue
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from hightide import tracing
from hightide.batch.call_frames import OPEN_CALL_STREAM
from hightide.calls.call import Call, MessageCall, Method
from hightide.calls.notice import Notice
from hightide.errors import (
    AddressUnreachableError,
    HightideError,
    NotLeaderError,
    RequestTimeoutError,
)
from hightide.transport.call_stream import StreamedCall
from hightide.transport.driver import Driver, now_ms
from hightide.transport.thread_condition import ThreadCondition
from hightide.transport.transport import Transport
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse
from hightide.v1.broker_service_pb2_grpc import BrokerServiceServicer, add_BrokerServiceServicer_to_server
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.server import Server, Service, serve

LOOPBACK = HostPort("127.0.0.1", 0)
NOT_LEADER = ServiceError(ErrorCode.ERROR_CODE_NOT_LEADER, "broker 1 does not lead", {"leader_epoch": "7"})
METADATA = "/hightide.v1.BrokerService/GetMetadata"


class Broker(BrokerServiceServicer):
    """Answers, refuses, or waits, by the name of the topic."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def GetMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        if "refused" in request.topics:
            raise NOT_LEADER
        if "waits" in request.topics:
            self.waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return GetMetadataResponse(cluster_id=request.topics[0])


@asynccontextmanager
async def broker(*, call_streams: bool = True) -> AsyncIterator[tuple[Server, Broker]]:
    servicer = Broker()  # type: ignore[abstract]
    service = Service("hightide.v1.BrokerService", servicer, add_BrokerServiceServicer_to_server)
    server = await serve(LOOPBACK, [service], call_streams=call_streams)
    try:
        yield server, servicer
    finally:
        await server.stop(0.1)


def metadata_call(address: object, topic: str, timeout_ms: int = 60_000) -> MessageCall[GetMetadataResponse]:
    request = GetMetadataRequest(topics=[topic])
    call = MessageCall(str(address), Method.GET_METADATA, timeout_ms, request, GetMetadataResponse)
    call.is_brief, call.started_ms = True, now_ms()
    return call


class Caller:
    """A transport, and what its calls ended with."""

    def __init__(self) -> None:
        self.transport = Transport()
        self.ended: queue.SimpleQueue[bytes | HightideError] = queue.SimpleQueue()

    def start(self, call: Call[Any]) -> Any:
        return self.transport.start(call, call.encode(), lambda _, outcome: self.ended.put(outcome))

    async def outcome(self) -> bytes | HightideError:
        return await asyncio.to_thread(self.ended.get)

    async def cluster_id(self) -> str:
        outcome = await self.outcome()
        assert isinstance(outcome, bytes), outcome
        return GetMetadataResponse.FromString(outcome).cluster_id


@pytest.fixture
def caller() -> Iterator[Caller]:
    made = Caller()
    yield made
    made.transport.close()


def streams_of(server: Server) -> int:
    timing = server.timings.get(OPEN_CALL_STREAM)
    return 0 if timing is None else timing.begun


def test_brief_calls_share_a_stream_and_others_go_by_themselves(caller: Caller) -> None:
    async def scenario() -> None:
        async with broker() as (server, _):
            for topic in ("a", "b"):
                assert isinstance(caller.start(metadata_call(server.address, topic)), StreamedCall)
                assert await caller.cluster_id() == topic
            alone = metadata_call(server.address, "c")
            alone.is_brief = False
            assert isinstance(caller.start(alone), grpc.Future)
            assert await caller.cluster_id() == "c"
            assert streams_of(server) == 1
            assert server.timings[METADATA].calls == 3

    asyncio.run(scenario())


def test_a_refusal_is_the_typed_error_that_the_server_names(caller: Caller) -> None:
    async def scenario() -> None:
        async with broker() as (server, _):
            caller.start(metadata_call(server.address, "refused"))
            error = await caller.outcome()
            assert isinstance(error, NotLeaderError)
            assert error.message == NOT_LEADER.message

    asyncio.run(scenario())


def test_a_call_that_is_given_up_ends_here_and_at_the_server(caller: Caller) -> None:
    async def scenario() -> None:
        async with broker() as (server, servicer):
            started = caller.start(metadata_call(server.address, "waits"))
            await servicer.waits.wait()
            started.cancel()
            assert isinstance(await caller.outcome(), AddressUnreachableError)
            await servicer.cancelled.wait()
            started.cancel()
            caller.start(metadata_call(server.address, "after"))
            assert await caller.cluster_id() == "after"
            assert streams_of(server) == 1

    asyncio.run(scenario())


def test_calls_under_way_learn_that_the_broker_has_gone_and_later_ones_use_a_new_stream(
    caller: Caller,
) -> None:
    async def scenario() -> None:
        async with broker() as (server, servicer):
            caller.start(metadata_call(server.address, "waits"))
            await servicer.waits.wait()
        assert isinstance(await caller.outcome(), HightideError)
        async with broker() as (server, _):
            caller.start(metadata_call(server.address, "again"))
            assert await caller.cluster_id() == "again"

    asyncio.run(scenario())


def test_a_broker_of_an_earlier_version_gets_each_call_by_itself(caller: Caller) -> None:
    async def scenario() -> None:
        async with broker(call_streams=False) as (server, _):
            for topic in ("a", "b"):
                caller.start(metadata_call(server.address, topic))
                assert await caller.cluster_id() == topic
            assert server.timings[METADATA].calls == 2

    asyncio.run(scenario())


class Asking:
    """A core that makes one call, whose outcome it keeps."""

    def __init__(self, call: Call[Any]) -> None:
        self.wake_at_ms: float | None = None
        self.cancelled: list[Call[Any]] = []
        self.callbacks: list[Any] = []
        self.notices: deque[Notice] = deque()
        self.outcome: Any = None
        self._calls = [call]

    def be_traced(self) -> None: ...

    def unfinished(self) -> tuple[()]:
        return ()

    def facts(self, *, is_last: bool = False) -> list[Any]:
        return []

    def poll(self, now_ms: float) -> list[Call[Any]]:
        calls, self._calls = self._calls, []
        for call in calls:
            call.started_ms = now_ms
        return calls

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        self.outcome = outcome


def test_a_call_that_nobody_answers_times_out_by_the_driver() -> None:
    async def scenario() -> None:
        async with broker() as (server, servicer):
            core, changed = Asking(metadata_call(server.address, "waits", 200)), ThreadCondition()
            transport = Transport()
            driver = Driver(core, transport, changed, "asking", tracing.Reporter("poll", None))

            def outcome() -> Any:
                with changed:
                    driver.start()
                    driver.poke()
                    changed.wait_for(lambda: core.outcome is not None)
                return core.outcome

            try:
                error = await asyncio.to_thread(outcome)
            finally:
                await asyncio.to_thread(driver.stop)
                transport.close()
            assert isinstance(error, RequestTimeoutError)
            assert "within 200 ms" in str(error)
            await servicer.cancelled.wait()

    asyncio.run(scenario())
