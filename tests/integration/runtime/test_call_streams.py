"""Calls on an open stream end as calls by themselves do, over real gRPC on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from hightide.batch.call_frames import OPEN_CALL_STREAM, parse_answer, serialise_call
from hightide.v1 import replica_service_pb2 as pb
from hightide.v1.replica_service_pb2_grpc import add_ReplicaServiceServicer_to_server
from hightide_runtime.serving.call_stream_channel import CallStreamChannel
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.serving.server import Server, ServerLimits, Service, serve
from integration.controller.controller_harness import until
from integration.runtime.test_serving import FETCH, LOOPBACK, NOT_LEADER, REPLICA_SERVICE, Replica, failure_of

CALL_S = 60.0


def fetch_of(session_id: int, max_wait_ms: int = 0) -> bytes:
    return pb.ReplicaFetchRequest(session_id=session_id, max_wait_ms=max_wait_ms).SerializeToString()


class Waiting(Replica):
    """Notes how a call that waits for its release ends."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = asyncio.Event()

    async def ReplicaFetch(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            return await super().ReplicaFetch(request, context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@dataclass
class Both:
    """A server and one connection to it."""

    server: Server
    channel: grpc.aio.Channel
    calls: CallStreamChannel

    async def fetch(self, session_id: int, max_wait_ms: int = 0, timeout_s: float = CALL_S) -> int:
        answer = await self.calls.unary_unary(FETCH)(fetch_of(session_id, max_wait_ms), timeout=timeout_s)
        return pb.ReplicaFetchResponse.FromString(answer).session_id

    @property
    def streams(self) -> int:
        timing = self.server.timings.get(OPEN_CALL_STREAM)
        return 0 if timing is None else timing.begun


@asynccontextmanager
async def both(
    servicer: Replica, *, call_streams: bool = True, limits: ServerLimits | None = None
) -> AsyncIterator[Both]:
    service = Service(REPLICA_SERVICE, servicer, add_ReplicaServiceServicer_to_server)
    server = await serve(LOOPBACK, [service], limits=limits, call_streams=call_streams)
    calls = CallStreamChannel(channel := open_channel(server.address))
    try:
        yield Both(server, channel, calls)
    finally:
        await calls.close()
        await server.stop(0.1)


def test_calls_on_one_stream_are_answered_in_any_order() -> None:
    async def scenario() -> None:
        servicer = Replica()
        async with both(servicer) as it:
            parked = asyncio.create_task(it.fetch(1, max_wait_ms=60_000))
            await servicer.parked.wait()
            assert await it.fetch(5) == 6
            servicer.release.set()
            assert await parked == 2
            assert it.streams == 1
            assert it.server.timings[FETCH].calls == 2

    asyncio.run(scenario())


def test_a_refusal_on_a_stream_says_what_a_refusal_of_a_call_says() -> None:
    async def scenario() -> None:
        async with both(Replica(NOT_LEADER)) as it:
            code, details, info = await failure_of(it.fetch(1))
            assert (code, details) == (NOT_LEADER.status, NOT_LEADER.message)
            assert info.reason == "NOT_LEADER"
            assert info.metadata["leader_epoch"] == "7"
            assert it.server.timings[FETCH].failures == {"NOT_LEADER": 1}

    asyncio.run(scenario())


def test_a_call_is_cancelled_at_its_deadline_and_its_client_learns_that_it_is_over() -> None:
    async def scenario() -> None:
        servicer = Waiting()
        async with both(servicer) as it:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await it.fetch(1, max_wait_ms=60_000, timeout_s=0.2)
            assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await servicer.cancelled.wait()
            assert await it.fetch(5) == 6
            assert it.streams == 1

    asyncio.run(scenario())


def test_the_server_stops_a_call_that_its_client_gives_up() -> None:
    async def scenario() -> None:
        servicer = Waiting()
        async with both(servicer) as it:
            parked = asyncio.create_task(it.fetch(1, max_wait_ms=60_000))
            await servicer.parked.wait()
            parked.cancel()
            await servicer.cancelled.wait()
            assert await it.fetch(5) == 6

    asyncio.run(scenario())


def test_the_end_of_a_stream_ends_its_calls() -> None:
    async def scenario() -> None:
        servicer = Waiting()
        async with both(servicer) as it:
            parked = asyncio.create_task(it.fetch(1, max_wait_ms=60_000))
            await servicer.parked.wait()
            await it.calls.close()
            await servicer.cancelled.wait()
            with pytest.raises((grpc.aio.AioRpcError, ConnectionError)):
                await parked

    asyncio.run(scenario())


def test_calls_of_a_stream_count_against_the_limit_of_unfinished_calls() -> None:
    async def scenario() -> None:
        servicer = Waiting()
        # One connection may hold half of what is free.
        async with both(servicer, limits=ServerLimits(max_concurrent_rpcs=2)) as it:
            parked = asyncio.create_task(it.fetch(1, max_wait_ms=60_000))
            await servicer.parked.wait()
            _, _, info = await failure_of(it.fetch(5))
            assert info.reason == "OVERLOADED"
            servicer.release.set()
            assert await parked == 2

            async def free_again() -> bool:
                try:
                    return await it.fetch(5) == 6
                except grpc.aio.AioRpcError:
                    return False

            await until(free_again, "the place of the first call is free")

    asyncio.run(scenario())


def test_a_server_of_an_earlier_version_gets_each_call_by_itself() -> None:
    async def scenario() -> None:
        async with both(Replica(), call_streams=False) as it:
            assert [await it.fetch(number) for number in (1, 2, 3)] == [2, 3, 4]
            assert it.server.timings[FETCH].calls == 3

    asyncio.run(scenario())


def test_a_server_that_has_too_many_streams_gets_each_call_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients keep a stream each. A follower that came back would have copied nothing until some had gone."""
    monkeypatch.setattr("hightide_runtime.serving.call_streams.STREAMS_MAX", 1)

    async def scenario() -> None:
        async with both(Replica()) as it:
            assert await it.fetch(1) == 2
            late = Both(it.server, it.channel, CallStreamChannel(open_channel(it.server.address)))
            assert [await late.fetch(number) for number in (2, 3, 4)] == [3, 4, 5]
            assert it.streams == 2
            await late.calls.close()

    asyncio.run(scenario())


def test_a_stream_is_tried_again_after_calls_that_were_made_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hightide_runtime.serving.call_streams.STREAMS_MAX", 1)
    monkeypatch.setattr("hightide_runtime.serving.call_stream_channel.WITHOUT_STREAM_S", 0)

    async def scenario() -> None:
        async with both(Replica()) as it:
            assert await it.fetch(1) == 2
            late = Both(it.server, it.channel, CallStreamChannel(open_channel(it.server.address)))
            assert await late.fetch(2) == 3
            await it.calls.close()

            async def comes_on_a_stream() -> bool:
                before = it.streams
                assert await late.fetch(3) == 4
                # Each attempt counts, also one that is refused; two of them were made before.
                return it.streams == before > 2

            await until(comes_on_a_stream, "a call on a stream that is open already")
            await late.calls.close()

    asyncio.run(scenario())


def test_a_stream_through_the_external_listener_carries_only_what_that_listener_serves() -> None:
    async def scenario() -> None:
        service = Service(REPLICA_SERVICE, Replica(), add_ReplicaServiceServicer_to_server)
        server = await serve(LOOPBACK, [service], external=LOOPBACK, call_streams=True)
        assert server.external_address is not None
        async with CallStreamChannel(open_channel(server.external_address)) as calls:
            _, _, info = await failure_of(calls.unary_unary(FETCH)(fetch_of(1), timeout=CALL_S))
            assert info.reason == "NOT_AUTHORIZED"
        await server.stop(0.1)

    asyncio.run(scenario())


async def answers_to(it: Both, *messages: bytes) -> list[Any]:
    stream: Any = it.channel.stream_stream(OPEN_CALL_STREAM)()
    for message in messages:
        await stream.write(message)
    await stream.done_writing()
    return [parse_answer(message) async for message in stream]


def test_what_is_no_method_is_refused_and_the_stream_goes_on() -> None:
    async def scenario() -> None:
        async with both(Replica()) as it:
            answers = await answers_to(
                it,
                serialise_call(1, "/hightide.v1.ReplicaService/Nonsense", 1_000, b""),
                serialise_call(2, OPEN_CALL_STREAM, 1_000, b""),
                serialise_call(3, FETCH, 1_000, fetch_of(7)),
            )
            by_id = {each.call_id: each for each in answers}
            assert b"is no method" in by_id[1].status
            assert b"is no method" in by_id[2].status
            assert pb.ReplicaFetchResponse.FromString(by_id[3].answer).session_id == 8

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "messages",
    [
        (b"\xff\xff",),
        (serialise_call(0, FETCH, 1_000, b""),),
        (serialise_call(-1, FETCH, 1_000, b""),),
        (serialise_call(1, FETCH, 0, b""),),
        (serialise_call(1, FETCH, 1_000, fetch_of(1, 60_000)), serialise_call(1, FETCH, 1_000, b"")),
    ],
    ids=["no message", "number 0", "negative number", "no timeout", "number of an unfinished call"],
)
def test_what_is_no_call_ends_the_stream_with_a_reason(messages: tuple[bytes, ...]) -> None:
    async def scenario() -> None:
        async with both(Replica()) as it:
            _, _, info = await failure_of(answers_to(it, *messages))
            assert info.reason == "INVALID_REQUEST"

    asyncio.run(scenario())
