"""How many calls a server takes at a time: of each plane, and of each connection, over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
from declared_services import declare
from hightide.v1 import access_pb2
from hightide.v1 import replica_service_pb2 as pb
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.serving.server import Server, ServerLimits, Service, serve
from integration.controller.controller_harness import until
from integration.runtime.test_serving import failure_of, raw_stream, raw_unary

CALL_S = 60.0
CONNECTION_OF_ITS_OWN = [("grpc.use_local_subchannel_pool", 1)]
MORE_THAN_A_WINDOW_BYTES = 8 << 20

SMALL_BYTES, LARGE_BYTES = 1_000, 100_000
DESCRIBING = access_pb2.AccessRule(external=True, operation=access_pb2.OPERATION_DESCRIBE)

for each_plane in Plane:
    declare(f"test.{each_plane}", "Wait")
declare("test.describing", "Wait", DESCRIBING)


class Parking:
    """One method that ends when it is told to, registered as a service of each plane."""

    def __init__(self) -> None:
        self.parked = 0
        self.let_go = asyncio.Event()

    async def wait(self, request: Any, context: Any) -> Any:
        self.parked += 1
        await self.let_go.wait()
        return pb.DigestBatchesResponse(digest=bytes(request.base_offset))

    def service(self, name: str, plane: Plane) -> Service:
        handler = grpc.unary_unary_rpc_method_handler(
            self.wait,
            request_deserializer=pb.DigestBatchesRequest.FromString,
            response_serializer=pb.DigestBatchesResponse.SerializeToString,
        )

        def register(servicer: object, server: Any) -> None:
            server.add_registered_method_handlers(name, {"Wait": handler})

        return Service(name, self, register, plane=plane)


class Clients:
    """A server, and clients with a connection each."""

    def __init__(self, server: Server, parking: Parking, open_connections: AsyncExitStack) -> None:
        self._server = server
        self._open = open_connections
        self.parking = parking

    async def connect(self) -> grpc.aio.Channel:
        options = [*CONNECTION_OF_ITS_OWN, ("grpc.max_receive_message_length", -1)]
        channel = grpc.aio.insecure_channel(str(self._server.address), options=options)
        return await self._open.enter_async_context(channel)

    async def park(
        self, channel: grpc.aio.Channel, count: int, plane: str = "data"
    ) -> list[asyncio.Task[Any]]:
        """So many calls that wait at the server."""
        expected = self.parking.parked + count
        calls = [asyncio.create_task(self.call(channel, plane)) for _ in range(count)]

        async def all_wait() -> bool:
            return self.parking.parked == expected

        await until(all_wait, f"{count} calls wait")
        return calls

    async def call(self, channel: grpc.aio.Channel, plane: str, answer_bytes: int = 0) -> Any:
        request = pb.DigestBatchesRequest(base_offset=answer_bytes).SerializeToString()
        return await raw_unary(channel, f"/test.{plane}/Wait")(request, timeout=CALL_S)

    async def has_returned(self, count: int) -> None:
        """The method returned its answer so many times, whether that has left or not."""

        async def returned() -> bool:
            return self._server.timings["/test.data/Wait"].calls == count

        await until(returned, f"the method returned {count} times")

    async def is_full(self) -> None:
        """Another client is refused."""
        _, _, info = await failure_of(self.call(await self.connect(), "data"))
        assert info.reason == "OVERLOADED"

    async def is_free_again(self) -> None:
        """Another client is served, as soon as gRPC is done with the call before."""
        channel = await self.connect()

        async def served() -> bool:
            try:
                await self.call(channel, "data")
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                    return False
                raise
            return True

        await until(served, "there is a place again")


@asynccontextmanager
async def clients(calls_max: int = 100, answer_bytes_max: int = 256 << 20) -> AsyncIterator[Clients]:
    parking = Parking()
    services = [parking.service(f"test.{plane}", plane) for plane in Plane]
    services.append(parking.service("test.describing", Plane.DATA))
    limits = ServerLimits(max_concurrent_rpcs=calls_max, answer_bytes_max=answer_bytes_max)
    server = await serve(HostPort("127.0.0.1", 0), services, limits=limits)
    async with AsyncExitStack() as connections:
        try:
            yield Clients(server, parking, connections)
        finally:
            parking.let_go.set()
            await server.stop(0)


def test_calls_that_fill_the_data_plane_leave_the_control_plane_its_own() -> None:
    async def story() -> None:
        async with clients(calls_max=2) as each:
            first, second = await each.connect(), await each.connect()
            await each.park(first, 1)
            await each.park(second, 1)
            status, sentence, info = await failure_of(each.call(await each.connect(), "data"))
            assert (status, info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
            assert "2 unfinished calls of the data plane" in sentence
            assert dict(info.metadata)["plane"] == "data"
            await each.park(first, 1, "control")
            await each.park(second, 1, "control")
            _, _, info = await failure_of(each.call(first, "control"))
            assert dict(info.metadata)["plane"] == "control"

    asyncio.run(story())


def test_a_connection_that_takes_all_it_can_leaves_others_their_share_and_is_told_its_own() -> None:
    async def story() -> None:
        async with clients(calls_max=100) as each:
            greedy = await each.connect()
            await each.park(greedy, 20)
            _, sentence, info = await failure_of(each.call(greedy, "data"))
            assert "20 of them of this connection" in sentence
            assert dict(info.metadata) == {
                "plane": "data",
                "max_concurrent_rpcs": "100",
                "unfinished_calls": "20",
                "unfinished_calls_of_connection": "20",
            }
            await each.park(await each.connect(), 16)

    asyncio.run(story())


def test_places_are_free_again_when_calls_are_answered_or_cancelled() -> None:
    async def story() -> None:
        async with clients(calls_max=1) as each:
            (parked,) = await each.park(await each.connect(), 1)
            await each.is_full()
            each.parking.let_go.set()
            await parked
            await each.is_free_again()
            each.parking.let_go.clear()
            (parked,) = await each.park(await each.connect(), 1)
            await each.is_full()
            parked.cancel()
            each.parking.let_go.set()
            await each.is_free_again()

    asyncio.run(story())


def test_a_call_whose_answer_nobody_reads_keeps_its_place_until_it_is_read() -> None:
    async def story() -> None:
        async with clients(calls_max=1) as each:
            each.parking.let_go.set()
            stalled = await each.connect()
            request = pb.DigestBatchesRequest(base_offset=MORE_THAN_A_WINDOW_BYTES).SerializeToString()
            unread: Any = raw_stream(stalled, "/test.data/Wait")(request, timeout=CALL_S)
            await each.has_returned(1)
            await each.is_full()
            assert len(await unread.read()) > MORE_THAN_A_WINDOW_BYTES
            await each.is_free_again()

    asyncio.run(story())


def test_beside_answers_that_nobody_reads_large_descriptions_are_refused_and_nothing_else() -> None:
    async def story() -> None:
        async with clients(answer_bytes_max=MORE_THAN_A_WINDOW_BYTES) as each:
            each.parking.let_go.set()
            stalled, other = await each.connect(), await each.connect()
            request = pb.DigestBatchesRequest(base_offset=MORE_THAN_A_WINDOW_BYTES).SerializeToString()
            unread: Any = raw_stream(stalled, "/test.data/Wait")(request, timeout=CALL_S)
            await each.has_returned(1)
            status, sentence, info = await failure_of(each.call(other, "describing", LARGE_BYTES))
            assert (status, info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
            assert "bytes of answers of the data plane that were not read yet, 0 of them" in sentence
            assert len(await each.call(other, "describing", SMALL_BYTES)) > SMALL_BYTES
            # Whoever has changed something must hear of it.
            assert len(await each.call(other, "data", LARGE_BYTES)) > LARGE_BYTES
            await unread.read()

            async def described() -> bool:
                try:
                    return len(await each.call(other, "describing", LARGE_BYTES)) > LARGE_BYTES
                except grpc.aio.AioRpcError:
                    return False

            await until(described, "there is room again")

    asyncio.run(story())
