"""A consumer as raw messages on a real stream: what it is told is kept, what it answers is up to the test."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub

__all__ = ["RawConsumer", "Refused", "Start", "refusal_of"]

PATIENCE_S = 20.0
#: (topic, partition) → (first offset to read, generation of the partition).
Start = dict[tuple[str, int], tuple[int, int]]


class Refused(Exception):
    """The stream or the call ended with this error of the catalogue."""

    def __init__(self, reason: str, message: str, metadata: dict[str, str]) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.metadata = metadata


def refusal_of(error: grpc.aio.AioRpcError) -> Refused:
    """The reason, sentence and facts that came with an error."""
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    if status is not None and status.details:
        status.details[0].Unpack(info)
    return Refused(info.reason or error.code().name, error.details() or "", dict(info.metadata))


class RawConsumer:
    """One consumer of a group. It answers Pings by itself while `answers_pings`; the rest the test answers,
    or `follow` does."""

    def __init__(self, channel: grpc.aio.Channel, group: str, **registration: Any) -> None:
        self._stub: Any = CoordinatorServiceStub(channel)
        self.registration = pb.ConsumerRegistration(
            **{"group": group, "session_timeout_ms": 10_000, "auto_commit": True, **registration}
        )
        self.registered = pb.ConsumerRegistered()
        self.coordinator_epoch = 0
        self.generation = 0
        self.answers_pings = True
        self.pings = 0
        self.reading: Start = {}
        """What it was told to read, and not to stop."""
        self.positions: dict[tuple[str, int], int] = {}
        """What it answers to a Ping or a StopFetcher: how far it has come."""
        self.orders: asyncio.Queue[pb.RegisterConsumerResponse] = asyncio.Queue()
        """StopFetcher and StartFetcher, in their order, once `reading` follows them."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the stream has ended with OK; Refused where it ended with an error."""
        self._given: dict[tuple[str, int], int] = {}
        """The generation of each partition that it was ever told to read."""
        self._turn = asyncio.Lock()
        self._call: Any = None
        self._task: asyncio.Task[None] | None = None
        self._follows = True

    async def join(self, *, follow: bool = True) -> RawConsumer:
        """Register, and wait for the answer. Raises Refused. `follow`: answer every order at once."""
        self._follows = follow
        if self.ended.done():
            self.ended = asyncio.get_running_loop().create_future()
        self._call = self._stub.RegisterConsumer()
        try:
            await self.say(registration=self.registration)
        except grpc.aio.AioRpcError as error:
            raise refusal_of(error) from None
        async with asyncio.timeout(PATIENCE_S):
            first = await self._read()
        if first is None:
            self.ended.result()
            raise AssertionError("the stream ended before the registration was answered")
        assert first.WhichOneof("message") == "registered", first
        self._saw(first)
        self.registered = first.registered
        retained = {(owned.topic, owned.partition) for owned in first.registered.retained}
        self.reading = {name: start for name, start in self.reading.items() if name in retained}
        self._task = asyncio.create_task(self._run())
        return self

    async def come_back(self, channel: grpc.aio.Channel) -> RawConsumer:
        """Register again, as the same member, with what it reads."""
        self._stub = CoordinatorServiceStub(channel)
        self.registration.member_id = self.registered.member_id
        self.registration.consumer_id = self.registered.consumer_id
        del self.registration.owned[:]
        for (topic, partition), (_, generation) in self.reading.items():
            self.registration.owned.add(topic=topic, partition=partition, generation=generation)
        return await self.join(follow=self._follows)

    async def say(self, *, answering: pb.RegisterConsumerResponse | None = None, **message: Any) -> None:
        """Send a message, with the fence of the order that it answers."""
        fence = answering or pb.RegisterConsumerResponse()
        # gRPC takes one write at a time, and the test may speak while an order is being answered.
        async with self._turn:
            await self._call.write(
                pb.RegisterConsumerRequest(
                    coordinator_epoch=fence.coordinator_epoch or self.coordinator_epoch,
                    generation=fence.generation,
                    sequence=fence.sequence,
                    **message,
                )
            )

    async def answer(self, order: pb.RegisterConsumerResponse) -> None:
        """Answer an order as it should be."""
        match order.WhichOneof("message"):
            case "ping":
                await self.say(answering=order, ping=pb.PingAnswer(positions=self._told()))
            case "stop_fetcher":
                names = [(owned.topic, owned.partition) for owned in order.stop_fetcher.partitions]
                positions = self._told(names)
                for name in names:
                    self.positions.pop(name, None)
                await self.say(answering=order, stop_fetcher=pb.StopFetcherAnswer(positions=positions))
            case "start_fetcher":
                await self.say(answering=order, start_fetcher=pb.StartFetcherAnswer())
            case other:
                raise AssertionError(f"{other} is no order")

    async def order(self) -> pb.RegisterConsumerResponse:
        """The next StopFetcher or StartFetcher. Raises Refused where the stream ends first."""
        waiting = asyncio.ensure_future(self.orders.get())
        self.ended.add_done_callback(lambda _: waiting.cancel())
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await waiting
        except asyncio.CancelledError:
            if not self.ended.done():
                raise
            self.ended.result()
            raise AssertionError("the stream ended without an order") from None

    async def until_reading(self, *partitions: tuple[str, int]) -> None:
        """Wait until it has been told to read exactly these."""
        while set(self.reading) != set(partitions):
            await self.order()

    async def leave(self) -> None:
        """Say goodbye with the final positions, and wait until the stream has ended with OK."""
        positions = self._told()
        await self.say(goodbye=pb.ConsumerGoodbye(positions=positions))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.shield(self.ended)

    async def end(self) -> Refused:
        """Wait until the stream has ended with an error."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.wait([self.ended])
        error = self.ended.exception() if self.ended.done() else None
        assert isinstance(error, Refused), f"the stream did not end with an error: {self.ended}"
        return error

    def vanish(self) -> None:
        """Break the stream, without a word."""
        self._call.cancel()

    def _told(self, names: list[tuple[str, int]] | None = None) -> list[pb.ConsumedPosition]:
        return [
            pb.ConsumedPosition(
                topic=name[0],
                partition=name[1],
                generation=self._given.get(name, 0),
                offset=offset,
                leader_epoch=-1,
            )
            for name, offset in self.positions.items()
            if names is None or name in names
        ]

    async def _run(self) -> None:
        while (message := await self._read()) is not None:
            self._saw(message)
            kind = message.WhichOneof("message")
            if kind == "ping":
                self.pings += 1
                if self.answers_pings:
                    await self.answer(message)
                continue
            if kind == "stop_fetcher":
                for owned in message.stop_fetcher.partitions:
                    self.reading.pop((owned.topic, owned.partition), None)
            elif kind == "start_fetcher":
                for stream in message.start_fetcher.streams:
                    for start in stream.partitions:
                        self.reading[start.topic, start.partition] = (start.offset, start.generation)
                        self._given[start.topic, start.partition] = start.generation
            if self._follows:
                await self.answer(message)
            self.orders.put_nowait(message)

    async def _read(self) -> pb.RegisterConsumerResponse | None:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            self._end(refusal_of(error))
            return None
        except asyncio.CancelledError:
            if not self._call.cancelled():
                raise
            self._end(Refused("CANCELLED", "the consumer vanished by itself", {}))
            return None
        if message is grpc.aio.EOF:
            code = await self._call.code()
            self._end(None if code is grpc.StatusCode.OK else Refused(code.name, "", {}))
            return None
        assert isinstance(message, pb.RegisterConsumerResponse)
        return message

    def _end(self, error: Refused | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
            self.ended.exception()  # Or asyncio complains where no test asks.

    def _saw(self, message: pb.RegisterConsumerResponse) -> None:
        assert message.coordinator_epoch >= self.coordinator_epoch, "a deposed coordinator still speaks"
        self.coordinator_epoch = message.coordinator_epoch
        self.generation = message.generation
