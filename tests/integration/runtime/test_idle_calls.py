"""The idle call that a client for threads keeps open, at the servers of this project, over real gRPC on
loopback."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import pytest
from hightide.batch.call_frames import OPEN_CALL_STREAM
from hightide.calls.call import MessageCall, Method
from hightide.errors import HightideError
from hightide.transport.transport import Transport
from hightide.v1.broker_service_pb2 import FetchRequest, FetchResponse
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.server import Server, Service, serve
from integration.controller.controller_harness import until
from integration.runtime.test_serving import LOOPBACK

BROKER_SERVICE = "hightide.v1.BrokerService"
PATIENCE_S = 30.0
GRACE_S = 60.0


async def fetch(request: Any, context: Any) -> Any:
    return FetchResponse()


def register(servicer: object, server: Any) -> None:
    handler = grpc.unary_unary_rpc_method_handler(
        fetch,
        request_deserializer=FetchRequest.FromString,
        response_serializer=FetchResponse.SerializeToString,
    )
    server.add_registered_method_handlers(BROKER_SERVICE, {"Fetch": handler})


async def broker(listen: HostPort = LOOPBACK, *, call_streams: bool = True) -> Server:
    return await serve(listen, [Service(BROKER_SERVICE, object(), register)], call_streams=call_streams)


@asynccontextmanager
async def a_client() -> AsyncIterator[Transport]:
    transport = Transport()
    try:
        yield transport
    finally:
        await asyncio.to_thread(transport.close)


async def answer_from(transport: Transport, server: Server) -> bytes | HightideError:
    answered: Future[bytes | HightideError] = Future()
    call = MessageCall(str(server.address), Method.FETCH, 30_000, FetchRequest(), FetchResponse)
    transport.start(call, call.encode(), lambda _, outcome: answered.set_result(outcome))
    return await asyncio.wait_for(asyncio.wrap_future(answered), PATIENCE_S)


async def is_answered(transport: Transport, server: Server) -> bool:
    return not isinstance(await answer_from(transport, server), HightideError)


def idle_calls_at(server: Server) -> int:
    return server.timings[OPEN_CALL_STREAM].in_hand


async def until_idle_calls(server: Server, count: int) -> None:
    async def are_there() -> bool:
        return idle_calls_at(server) == count

    await until(are_there, f"{count} idle calls are open")


def test_a_client_has_one_idle_call_and_takes_it_along_when_it_closes() -> None:
    async def scenario() -> None:
        server = await broker()
        async with a_client() as transport:
            for _ in range(5):
                assert await answer_from(transport, server) == b""
                await until_idle_calls(server, 1)
            assert server.timings[OPEN_CALL_STREAM].begun == 1
        await until_idle_calls(server, 0)
        await server.stop(0)

    asyncio.run(scenario())


def test_a_graceful_stop_does_not_wait_for_idle_calls() -> None:
    async def scenario() -> None:
        server = await broker()
        async with a_client() as transport:
            assert await answer_from(transport, server) == b""
            await until_idle_calls(server, 1)
            await asyncio.wait_for(server.stop(GRACE_S), GRACE_S / 2)
            await until_idle_calls(server, 0)

    asyncio.run(scenario())


def test_after_a_restart_of_its_server_a_client_has_an_idle_call_again() -> None:
    async def scenario() -> None:
        server = await broker()
        async with a_client() as transport:
            for _ in range(3):
                assert await answer_from(transport, server) == b""
                await until_idle_calls(server, 1)
                assert await answer_from(transport, server) == b""
                await server.stop(GRACE_S)
                server = await broker(server.address)
                # The client may find out by this call that its connection is gone.
                await until(partial(is_answered, transport, server), "the server is reached again")
            await until_idle_calls(server, 1)
        await server.stop(0)

    asyncio.run(scenario())


@pytest.mark.parametrize("call_streams", [True, False])
def test_a_client_leaves_no_thread_behind_with_or_without_call_streams(call_streams: bool) -> None:
    async def scenario() -> None:
        server = await broker(call_streams=call_streams)
        before = set(threading.enumerate())
        transport = Transport()
        for _ in range(3):
            assert await answer_from(transport, server) == b""
        transport.close()
        del transport
        gc.collect()

        async def have_ended() -> bool:
            return set(threading.enumerate()) <= before

        await until(have_ended, "the threads of the channel have ended")
        await server.stop(0)

    asyncio.run(scenario())
