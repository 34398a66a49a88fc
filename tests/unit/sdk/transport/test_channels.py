"""The SDK's channels: only calls knock at an address where nobody is; what is parked is left alone."""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]
from hightide.calls.call import MessageCall, Method, StreamCall
from hightide.errors import AddressUnreachableError, HightideError
from hightide.transport.transport import AioTransport, Transport
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse
from hightide.v1.coordinator_service_pb2 import RegisterConsumerRequest, RegisterConsumerResponse
from hightide_local.histories.waiting import aio_wait_until, wait_until

PATIENCE_S = 30.0
RECONNECTING_S = 1.0
"""Within this time a channel that still tries would have come by several times."""

Outcomes = list[object]


class Place:
    """An address: nobody is there until somebody listens."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def is_knocked_at(self, within_s: float) -> bool:
        """Whether anybody connects within this time. Nobody is spoken with."""
        self._socket.listen()
        self._socket.settimeout(within_s)
        try:
            self._socket.accept()[0].close()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.close()


def metadata_call(address: str, method: Method = Method.GET_METADATA) -> MessageCall[GetMetadataResponse]:
    return MessageCall(address, method, 30_000, GetMetadataRequest(), GetMetadataResponse)


def stream_call(address: str) -> StreamCall[RegisterConsumerResponse]:
    request, method = RegisterConsumerRequest(), Method.REGISTER_CONSUMER
    return StreamCall(address, method, 30_000, request, RegisterConsumerResponse)


async def converse(transport: AioTransport, address: str) -> None:
    call = stream_call(address)
    async for _ in transport.open(call, call.encode()).messages():
        pytest.fail("nobody is there to say anything")


async def ask(transport: AioTransport, address: str) -> None:
    await transport.run(metadata_call(address))


def conversation(transport: Transport, address: str) -> object:
    """How a stream ends."""
    ended, said = threading.Event(), list[object]()

    def hear(_: object, what: object) -> None:
        said.append(what)
        ended.set()

    call = stream_call(address)
    transport.open(call, call.encode(), hear)
    assert ended.wait(PATIENCE_S)
    return said[0]


# -- an address where nobody is ------------------------------------------------------------------------------


def test_an_address_that_refused_a_call_is_not_knocked_at_without_another(place: Place) -> None:
    transport = Transport()
    with pytest.raises(AddressUnreachableError) as kept:
        transport.run(metadata_call(place.address))
    assert not place.is_knocked_at(within_s=RECONNECTING_S)
    assert kept.value.address == place.address
    transport.close()


def test_an_address_that_refused_a_call_that_was_begun_is_not_knocked_at_without_another(
    place: Place,
) -> None:
    transport = Transport()
    ended, outcomes = threading.Event(), Outcomes()

    def done(_: object, outcome: object) -> None:
        outcomes.append(outcome)
        ended.set()

    held_before = channels(cygrpc.Channel)
    transport.start(metadata_call(place.address), b"", done)
    assert ended.wait(PATIENCE_S)
    assert isinstance(outcomes[0], AddressUnreachableError)
    until_let_go(held_before)
    assert not place.is_knocked_at(within_s=RECONNECTING_S)
    transport.close()


def test_an_address_that_refused_a_stream_is_not_knocked_at_without_another(place: Place) -> None:
    transport, held_before = Transport(), channels(cygrpc.Channel)
    assert isinstance(conversation(transport, place.address), AddressUnreachableError)
    until_let_go(held_before)
    assert not place.is_knocked_at(within_s=RECONNECTING_S)
    transport.close()


@pytest.mark.parametrize("is_stream", [False, True], ids=["call", "stream"])
def test_on_a_loop_too_an_address_that_refused_is_not_knocked_at(place: Place, is_stream: bool) -> None:
    async def act() -> None:
        transport = AioTransport()
        use = converse(transport, place.address) if is_stream else ask(transport, place.address)
        with pytest.raises(AddressUnreachableError) as kept:
            await use
        assert not await asyncio.to_thread(place.is_knocked_at, RECONNECTING_S)
        assert kept.value.address == place.address
        await transport.close()

    asyncio.run(act())


def test_calls_to_an_address_where_nobody_is_leave_no_channel_and_no_thread_behind(place: Place) -> None:
    transport = Transport()
    threads_before, channels_before = threading.active_count(), channels(grpc.Channel)
    for _ in range(20):
        with pytest.raises(AddressUnreachableError):
            transport.run(metadata_call(place.address))
        assert isinstance(conversation(transport, place.address), AddressUnreachableError)
    wait_until("channels are gone", lambda: channels(grpc.Channel) <= channels_before, PATIENCE_S)
    wait_until("threads have ended", lambda: threading.active_count() <= threads_before + 1, PATIENCE_S)
    transport.close()


def test_on_a_loop_too_calls_to_an_address_where_nobody_is_leave_no_channel_behind(place: Place) -> None:
    async def act() -> None:
        transport = AioTransport()
        channels_before = channels(grpc.aio.Channel)

        async def are_gone() -> bool:
            return channels(grpc.aio.Channel) <= channels_before

        for _ in range(20):
            with pytest.raises(AddressUnreachableError):
                await transport.run(metadata_call(place.address))
        await aio_wait_until("channels are gone", are_gone, PATIENCE_S)
        await transport.close()

    asyncio.run(act())


def channels(kind: type[Any]) -> int:
    """How many channels this process holds."""
    gc.collect()
    return sum(1 for each in gc.get_objects() if isinstance(each, kind))


def until_let_go(held_before: int) -> None:
    """Threads of gRPC's own hold a channel for a moment longer than who is told that its call has ended."""
    wait_until("gRPC holds no more channels", lambda: channels(cygrpc.Channel) <= held_before, PATIENCE_S)


# -- an address where somebody is ----------------------------------------------------------------------------


class Server(grpc.GenericRpcHandler):
    """Answers GetMetadata, refuses ListOffsets as one that is going away, and keeps Fetch waiting until told.
    It names no reason of ours: a client cannot tell that from a broken connection."""

    def __init__(self, address: str) -> None:
        self.parked = threading.Event()
        self.answer_parked = threading.Event()
        self.connections: set[str] = set()
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 1)])
        self._server.add_generic_rpc_handlers((self,))
        assert self._server.add_insecure_port(address)
        self._server.start()

    def service(self, handler_call_details: Any) -> Any:
        acts: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]] = {
            Method.GET_METADATA.value: self._answer,
            Method.LIST_OFFSETS.value: self._refuse,
            Method.FETCH.value: self._park,
        }
        return grpc.unary_unary_rpc_method_handler(acts[handler_call_details.method])

    def _answer(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.connections.add(context.peer())
        return b""

    def _refuse(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.connections.add(context.peer())
        context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
        raise AssertionError("abort raises")

    def _park(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        self.connections.add(context.peer())
        self.parked.set()
        assert self.answer_parked.wait(PATIENCE_S)
        return b""

    def stop(self) -> None:
        self.answer_parked.set()
        self._server.stop(0).wait()


def test_a_server_that_is_back_is_reached_by_the_very_next_call(place: Place) -> None:
    transport = Transport()
    for _ in range(3):
        with pytest.raises(AddressUnreachableError):
            transport.run(metadata_call(place.address))
    server = Server(place.address)
    try:
        assert transport.run(metadata_call(place.address)) == GetMetadataResponse()
    finally:
        server.stop()
        transport.close()


def test_a_call_that_is_parked_goes_on_where_another_one_finds_nobody(place: Place) -> None:
    server, transport = Server(place.address), Transport()
    outcomes: dict[Method, bytes | HightideError] = {}
    ended = threading.Event()

    def done(call: Any, outcome: bytes | HightideError) -> None:
        outcomes[call.method] = outcome
        ended.set()

    try:
        transport.start(metadata_call(place.address, Method.FETCH), b"", done)
        assert server.parked.wait(PATIENCE_S)
        with pytest.raises(AddressUnreachableError):
            transport.run(metadata_call(place.address, Method.LIST_OFFSETS))
        transport.run(metadata_call(place.address))
        server.answer_parked.set()
        assert ended.wait(PATIENCE_S)
        assert outcomes == {Method.FETCH: b""}
        assert len(server.connections) == 1
    finally:
        server.stop()
        transport.close()


def test_on_a_loop_too_a_call_that_is_parked_goes_on_where_another_one_finds_nobody(place: Place) -> None:
    async def act(server: Server) -> None:
        transport = AioTransport()
        parked = asyncio.create_task(transport.run(metadata_call(place.address, Method.FETCH)))
        assert await asyncio.to_thread(server.parked.wait, PATIENCE_S)
        with pytest.raises(AddressUnreachableError):
            await transport.run(metadata_call(place.address, Method.LIST_OFFSETS))
        await transport.run(metadata_call(place.address))
        server.answer_parked.set()
        assert await parked == GetMetadataResponse()
        assert len(server.connections) == 1
        await transport.close()

    server = Server(place.address)
    try:
        asyncio.run(act(server))
    finally:
        server.stop()


def test_what_this_side_gives_up_does_not_cost_the_connection(place: Place) -> None:
    server, transport = Server(place.address), Transport()
    ended = threading.Event()
    try:
        future = transport.start(metadata_call(place.address, Method.FETCH), b"", lambda *_: ended.set())
        assert server.parked.wait(PATIENCE_S)
        future.cancel()
        assert ended.wait(PATIENCE_S)
        transport.run(metadata_call(place.address))
        assert len(server.connections) == 1
    finally:
        server.stop()
        transport.close()
