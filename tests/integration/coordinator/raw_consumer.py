"""A consumer of a group that speaks RegisterConsumer with the bare stubs, and has manners only as it is told.

One asyncio task reads its stream and answers each order as `manners` say; whatever else a consumer may do or
leave undone, a test does by hand: `say` any message, `answer` an order that was held back, `drop` the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

import grpc
from adversary.raw_client import name_of
from google.rpc import error_details_pb2
from grpc._cython import cygrpc  # type: ignore[attr-defined]
from grpc_status import rpc_status
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide_local.histories.waiting import aio_wait_until

SERVICE: Final = "hightide.v1.CoordinatorService"
PATIENCE_S: Final = 60.0

Place: TypeAlias = tuple[str, int]
"""A topic and a partition."""


class Manner(Enum):
    """What a consumer does with an order."""

    ANSWER = auto()
    """It answers at once, and does what the order says."""
    HOLD = auto()
    """It does nothing: the test may have it answered later, or never."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream, or another call, ended: the status, and the reason of its ErrorInfo, "" without one."""

    status: grpc.StatusCode
    reason: str
    message: str
    metadata: Mapping[str, str]

    @property
    def is_typed_error(self) -> bool:
        """Whether it says what is wrong in a code of the catalogue and a sentence."""
        return (
            self.status is not grpc.StatusCode.OK
            and self.reason not in ("", "INTERNAL")
            and " " in self.message
        )


class Ended(AssertionError):
    """The stream ended while a test waited for something else."""


class RawConsumer:
    """One consumer. For the event loop that it was made in.

    `topics` is a name, or names with their numbers of streams.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        group: str,
        topics: str | Mapping[str, int] = "",
        *,
        pattern: str = "",
        consumer_id: str = "",
        member_id: str = "",
        instance_id: str = "",
        session_timeout_ms: int = 30_000,
        auto_commit: bool = False,
        offset_reset: pb.OffsetReset.ValueType = pb.OFFSET_RESET_SMALLEST,
        assignor: str = "",
    ) -> None:
        named = {topics: 1} if isinstance(topics, str) and topics else dict(topics or {})
        self.registration = pb.ConsumerRegistration(
            group=group,
            consumer_id=consumer_id,
            member_id=member_id,
            instance_id=instance_id,
            topics=[pb.TopicStreams(topic=topic, streams=count) for topic, count in named.items()],
            pattern=pattern,
            auto_commit=auto_commit,
            offset_reset=offset_reset,
            session_timeout_ms=session_timeout_ms,
            assignor=assignor,
        )
        """What it says first; a test may change it before it registers."""
        self.seen_coordinator_epoch = 0
        """The highest that it has seen; it tells it with its registration, and obeys no lower one."""
        self.manners: dict[str, Manner] = {}
        """What it does with "ping", "stop_fetcher" and "start_fetcher"; what is not named is answered."""
        self.welcome: pb.ConsumerRegistered | None = None
        self.orders: list[pb.RegisterConsumerResponse] = []
        """All that came after the welcome, in order."""
        self.held: list[pb.RegisterConsumerResponse] = []
        """The orders that were not answered yet."""
        self.owned: dict[Place, pb.StartPartition] = {}
        """What it was told to read, and where to start."""
        self.offsets: dict[Place, int] = {}
        """How far it has read what it owns; goes out with auto commit."""
        self.ending: Ending | None = None
        self._is_leaving = False
        """An order that crosses the goodbye is not answered: the coordinator does not know it any more."""
        self._stub: Any = CoordinatorServiceStub(channel)
        self._call: Any = None
        self._writing = asyncio.Lock()
        """gRPC refuses a message while another is being written: what the test says while orders are answered
        would be lost."""
        self._reading: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()

    # ---- what it says

    async def open(self, *, reads: bool = True) -> None:
        """Send the registration and wait for nothing. Without `reads` it never looks at its stream, which
        `ended` does in the end."""
        self._call = self._stub.RegisterConsumer()
        self._writing = asyncio.Lock()
        await self._write(
            pb.RegisterConsumerRequest(
                coordinator_epoch=self.seen_coordinator_epoch, registration=self.registration
            )
        )
        if reads:
            self._read_on()

    async def register(self) -> pb.ConsumerRegistered:
        """Register, and wait for the welcome. Raises Ended where it is refused."""
        await self.open()
        await self.until("it is registered", lambda: self.welcome is not None)
        assert self.welcome is not None
        return self.welcome

    async def come_back(self, channel: grpc.aio.Channel) -> pb.ConsumerRegistered:
        """Register again as the same member, with what it owns, at whoever is at the other end of this
        channel; also after this was refused. Raises Ended where it is refused."""
        self._stub = CoordinatorServiceStub(channel)
        if self.welcome is not None:
            self.register_again_as()
        self.ending = None
        return await self.register()

    async def say(self, message: pb.RegisterConsumerRequest) -> None:
        """Send any message at all; nothing happens where the stream is at its end."""
        await self._write(message)

    async def answer(self, order: pb.RegisterConsumerResponse, **changes: int) -> None:
        """Answer an order, and do what it says. `changes`: sequence, coordinator_epoch, generation."""
        said = pb.RegisterConsumerRequest(
            coordinator_epoch=changes.get("coordinator_epoch", order.coordinator_epoch),
            generation=changes.get("generation", order.generation),
            sequence=changes.get("sequence", order.sequence),
        )
        self.held = [each for each in self.held if each is not order]
        match order.WhichOneof("message"):
            case "ping":
                said.ping.positions.extend(self.positions(self.owned))
                said.ping.SetInParent()
            case "stop_fetcher":
                lost = [(each.topic, each.partition) for each in order.stop_fetcher.partitions]
                said.stop_fetcher.positions.extend(self.positions(lost))
                said.stop_fetcher.SetInParent()
                for place in lost:
                    self.owned.pop(place, None)
            case _:
                said.start_fetcher.SetInParent()
                for stream in order.start_fetcher.streams:
                    for each in stream.partitions:
                        self.owned[each.topic, each.partition] = each
                        self.offsets[each.topic, each.partition] = each.offset
        await self._write(said)

    def positions(self, places: Iterable[Place]) -> list[pb.ConsumedPosition]:
        """Where it is in these partitions, as it says it; nothing without auto commit."""
        if not self.registration.auto_commit:
            return []
        return [
            pb.ConsumedPosition(
                topic=place[0],
                partition=place[1],
                generation=self.owned[place].generation,
                offset=self.offsets[place],
                leader_epoch=-1,
            )
            for place in places
            if place in self.owned and self.offsets[place] >= 0
        ]

    async def leave(self) -> Ending:
        """Say goodbye, with the final positions where they count, and wait for the end."""
        goodbye = pb.ConsumerGoodbye(positions=self.positions(self.owned))
        self._is_leaving = True
        await self._write(pb.RegisterConsumerRequest(goodbye=goodbye))
        return await self.ended()

    def drop(self) -> None:
        """The stream breaks: nothing is said and nothing is heard any more."""
        self._call.cancel()

    def register_again_as(self) -> None:
        """Let the next registration be that of the same consumer, with what it owns."""
        assert self.welcome is not None, "it was registered"
        self.registration.member_id = self.welcome.member_id
        self.registration.consumer_id = self.welcome.consumer_id
        del self.registration.owned[:]
        self.registration.owned.extend(
            pb.OwnedPartition(topic=each.topic, partition=each.partition, generation=each.generation)
            for each in self.owned.values()
        )
        self.welcome = self.ending = None
        self._is_leaving = False
        self.orders, self.held = [], []

    # ---- what it hears

    async def until(self, what: str, is_so: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        """Wait until something is so, looked at after each message. Raises Ended where the stream ends first,
        TimeoutError."""
        async with self._moved:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._moved.wait_for(lambda: self.ending is not None or is_so())
            except TimeoutError:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}; it has heard {self.kinds}") from None
        if not is_so():
            raise Ended(f"the stream ended before {what}: {self.ending}")

    async def until_owns(self, *places: Place) -> None:
        """Wait until it owns exactly these."""
        await self.until(f"it owns {places}", lambda: set(self.owned) == set(places))

    async def until_told(self, kind: str, count: int = 1) -> pb.RegisterConsumerResponse:
        """The so-manieth order of a kind."""
        await self.until(f"{count} of {kind}", lambda: self.kinds.count(kind) >= count)
        return [order for order in self.orders if order.WhichOneof("message") == kind][count - 1]

    async def ended(self, timeout_s: float = PATIENCE_S) -> Ending:
        """How the stream ends. Reads it to its end where nobody did."""
        self._read_on()
        await self.until("it has ended", lambda: self.ending is not None, timeout_s)
        assert self.ending is not None
        return self.ending

    @property
    def kinds(self) -> list[str]:
        """The orders that came, by name."""
        return [order.WhichOneof("message") or "" for order in self.orders]

    def _read_on(self) -> None:
        if self._reading is None or (self._reading.done() and self.ending is None):
            self._reading = asyncio.create_task(self._read(self._call))

    async def _read(self, call: Any) -> None:
        ending: Ending | None = None
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                await self._hear(message)
            ending = Ending(await call.code(), "", "", {})
        except grpc.aio.AioRpcError as error:
            ending = ending_of(error)
        except asyncio.CancelledError:
            if not call.cancelled():
                raise
            ending = Ending(grpc.StatusCode.CANCELLED, "", "this consumer dropped its stream", {})
        if call is self._call:
            async with self._moved:
                self.ending = ending
                self._moved.notify_all()

    async def _hear(self, message: pb.RegisterConsumerResponse) -> None:
        self.seen_coordinator_epoch = max(self.seen_coordinator_epoch, message.coordinator_epoch)
        kind = message.WhichOneof("message") or ""
        if kind == "registered":
            self.welcome = message.registered
            retained = {(each.topic, each.partition) for each in message.registered.retained}
            self.owned = {place: each for place, each in self.owned.items() if place in retained}
        else:
            self.orders.append(message)
            self.held.append(message)
            if not self._is_leaving and self.manners.get(kind, Manner.ANSWER) is Manner.ANSWER:
                await self.answer(message)
        async with self._moved:
            self._moved.notify_all()

    async def _write(self, message: pb.RegisterConsumerRequest) -> None:
        # How a stream ended is told by reading it. Not `call.write`: where the stream has ended meanwhile,
        # that puts an INTERNAL of its own in the place of the coordinator's status.
        call = self._call
        async with self._writing:
            with contextlib.suppress(grpc.aio.AioRpcError, cygrpc.InternalError):
                await call.wait_for_connection()
                if not call.done():
                    await call._cython_call.send_serialized_message(message.SerializeToString())

    async def close(self) -> None:
        """Let go of the stream without a word."""
        if self._call is not None:
            self._call.cancel()
        if self._reading is not None:
            await asyncio.wait([self._reading])


def ending_of(error: grpc.aio.AioRpcError) -> Ending:
    """What a failed call says."""
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    for detail in () if status is None else status.details:
        if detail.Unpack(info):
            break
    return Ending(error.code(), info.reason, error.details() or "", dict(info.metadata))


class RawGroups:
    """The coordinator of a cluster as tests meet it: its consumers, which `close` closes, and its unary
    calls."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channels: list[grpc.aio.Channel] = []
        self._consumers: list[RawConsumer] = []
        self._stub: Any = CoordinatorServiceStub(self.connection())

    def connection(self) -> grpc.aio.Channel:
        """A TCP connection of its own."""
        channel = grpc.aio.insecure_channel(
            self._address,
            options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)],
        )
        self._channels.append(channel)
        return channel

    def consumer(self, group: str, topics: str | Mapping[str, int] = "", **fields: Any) -> RawConsumer:
        """A consumer that has not said anything yet, on a connection of its own unless told which."""
        channel = fields.pop("channel", None) or self.connection()
        consumer = RawConsumer(channel, group, topics, **fields)
        self._consumers.append(consumer)
        return consumer

    async def first_words(self, message: pb.RegisterConsumerRequest | bytes) -> Ending:
        """How a stream ends that begins with this."""
        call: Any = self.connection().stream_stream(f"/{SERVICE}/RegisterConsumer")()
        await call.write(message if isinstance(message, bytes) else message.SerializeToString())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await call.read() is not grpc.aio.EOF:
                    pass
        except grpc.aio.AioRpcError as error:
            return ending_of(error)
        return Ending(await call.code(), "", "", {})

    async def ask(self, method: str, request: Any, timeout_s: float = PATIENCE_S) -> Any:
        """A unary call: its answer, or how it failed (Ending)."""
        try:
            return await getattr(self._stub, method)(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            return ending_of(error)

    async def commit(
        self,
        group: str,
        place: Place,
        offset: int,
        *,
        member_id: str = "",
        generation: int = 0,
        **fields: Any,
    ) -> str:
        """What becomes of one commit: OK where it is durable, else the reason, of the call or of it."""
        commit = pb.OffsetCommit(
            topic=place[0], partition=place[1], offset=offset, generation=generation,
            **{"leader_epoch": -1, **fields},
        )  # fmt: skip
        request = pb.CommitOffsetsRequest(group=group, member_id=member_id, offsets=[commit])
        answer = await self.ask("CommitOffsets", request)
        if isinstance(answer, Ending):
            return answer.reason
        return name_of(answer.offsets[0].error_code)

    async def committed(self, group: str) -> dict[Place, int]:
        """All committed offsets of a group."""
        answer = await self.ask("FetchOffsets", pb.FetchOffsetsRequest(group=group))
        assert isinstance(answer, pb.FetchOffsetsResponse), answer
        return {(each.topic, each.partition): each.offset for each in answer.offsets}

    async def describe(self, group: str) -> pb.DescribeGroupResponse:
        """Everything about a group."""
        answer = await self.ask("DescribeGroup", pb.DescribeGroupRequest(group=group))
        assert isinstance(answer, pb.DescribeGroupResponse), answer
        return answer

    async def until_group(
        self, group: str, what: str, is_so: Callable[[pb.DescribeGroupResponse], object]
    ) -> pb.DescribeGroupResponse:
        """Ask for the description until something is so."""

        async def ask() -> pb.DescribeGroupResponse | None:
            answer = await self.ask("DescribeGroup", pb.DescribeGroupRequest(group=group))
            is_told = isinstance(answer, pb.DescribeGroupResponse)
            return answer if is_told and is_so(answer) else None

        found = await aio_wait_until(f"group {group}: {what}", ask, PATIENCE_S)
        assert found is not None
        return found

    async def close(self) -> None:
        """Let go of all consumers and connections."""
        await asyncio.gather(*(consumer.close() for consumer in self._consumers))
        await asyncio.gather(*(channel.close() for channel in self._channels))


def with_groups(
    address: str, story: Callable[[RawGroups], Awaitable[None]], timeout_s: float = 100.0
) -> None:
    """Run a story on an event loop of its own, and close everything after it."""

    async def run() -> None:
        groups = RawGroups(address)
        try:
            async with asyncio.timeout(timeout_s):
                await story(groups)
        finally:
            await groups.close()

    asyncio.run(run())
