"""A consumer of `bench groups`: it sends the messages of the group protocol, and has no other function.

It reads no records. It registers, answers every order immediately, reports progress in its partitions if its
plan says so, finds the coordinator again when its stream breaks, and notes the times of events.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from hightide.batch.checksum import crc32c
from hightide.calls.backoff import Backoff
from hightide.calls.call import Method
from hightide.calls.tls_files import chosen_tls_files
from hightide.transport.opening import aio_channel_opener
from hightide.v1 import broker_service_pb2 as broker_pb
from hightide.v1 import coordinator_service_pb2 as pb

RETRY: Final = Backoff(initial_ms=20, maximum_ms=500, jitter=0.5)
_REGISTRATION_TIMEOUT_S: Final = 30.0
_METADATA_TIMEOUT_S: Final = 10.0
#: Temporary errors: the consumer finds the coordinator again and registers again.
_TEMPORARY: Final = frozenset({"", "NOT_COORDINATOR", "SHUTTING_DOWN", "OVERLOADED"})


class MemberChannels:
    """The channels of one process: one to each address for a certain number of consumers."""

    def __init__(self, streams_per_connection: int) -> None:
        self._streams_per_connection = streams_per_connection
        self._opened = aio_channel_opener(chosen_tls_files())
        self._channels: dict[tuple[str, int], grpc.aio.Channel] = {}

    def to(self, address: str, place: int) -> grpc.aio.Channel:
        """The channel of the consumer with this number."""
        key = (address, place // self._streams_per_connection)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = self._opened(address)
        return channel

    def drop(self, address: str, place: int) -> None:
        """Drop the channel to the coordinator's old address. It would otherwise try to reconnect five times a
        second without end, and thousands of channels would be a load.

        It is closed when the last reference is dropped. Its `close` would iterate over all tasks of the
        process.
        """
        self._channels.pop((address, place // self._streams_per_connection), None)


@dataclass(slots=True)
class MemberNotes:
    """What the consumers of one process note for the parent; times are those of the monotonic clock."""

    first_registration_s: float = 0.0
    left_s: float = 0.0
    """The time of the first goodbye."""
    last_answer_s: float = 0.0
    """The time of the last answer to a StopFetcher or StartFetcher."""
    last_confirmed_s: float = 0.0
    """The time when the last consumer was registered with all partitions that it claims, or got the order to
    start the rest."""
    heard: set[str] = field(default_factory=set)
    """The consumers that got an order to stop or to start partitions."""
    stopped: int = 0
    started: int = 0
    pings: int = 0
    breaks: int = 0
    look_ups: int = 0
    """The number of look-ups of the coordinator at a broker."""
    attempts: int = 0
    """The number of attempts to register."""
    refused: Counter[str] = field(default_factory=Counter)


class CoordinatorFinder:
    """Look-ups of the coordinator at a broker: once for each consumer that asks."""

    def __init__(self, bootstrap: str) -> None:
        self._channel = aio_channel_opener(chosen_tls_files())(bootstrap)
        self._ask: Any = self._channel.unary_unary(Method.GET_METADATA.value)
        self._request = broker_pb.GetMetadataRequest().SerializeToString()

    async def address(self, group: str) -> str | None:
        """host:port, or None while the group has no coordinator."""
        try:
            answer = await self._ask(self._request, timeout=_METADATA_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return None
        coordinators = broker_pb.GetMetadataResponse.FromString(answer).coordinators
        if not coordinators:
            return None
        endpoint = coordinators[crc32c(group.encode()) % len(coordinators)]
        return f"{endpoint.host}:{endpoint.port}" if endpoint.host else None

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """The properties of a consumer."""

    place: int
    group: str
    consumer_id: str
    topic: str
    assignor: str
    session_timeout_ms: int
    moves: bool
    """Whether its partitions move between two Pings."""


class GroupMember:
    """One consumer. `live` until `leave`."""

    __slots__ = (
        "_address",
        "_call",
        "_connections",
        "_epoch",
        "_finder",
        "_generation",
        "_gone",
        "_is_leaving",
        "_member_id",
        "_notes",
        "_positions",
        "_unconfirmed",
        "_writing",
        "is_member",
        "plan",
        "reading",
    )

    def __init__(
        self, plan: MemberPlan, connections: MemberChannels, finder: CoordinatorFinder, notes: MemberNotes
    ) -> None:
        self.plan = plan
        self.reading: dict[int, int] = {}
        """Partition → the generation in which it was assigned."""
        self.is_member = False
        self._connections = connections
        self._finder = finder
        self._notes = notes
        self._positions: dict[int, int] = {}
        self._unconfirmed: set[int] = set()
        self._member_id = ""
        self._epoch = 0
        self._generation = 0
        self._address = ""
        self._call: Any = None
        self._writing = asyncio.Lock()
        """gRPC breaks a stream on which two messages, such as the goodbye and an answer, are written in
        parallel."""
        self._is_leaving = False
        self._gone = asyncio.Event()

    @property
    def is_confirmed(self) -> bool:
        """Whether it is a member, and reads again the partitions that it read before."""
        return self.is_member and not self._unconfirmed

    @property
    def coordinator_epoch(self) -> int:
        """The epoch of the last coordinator that answered; 0 before the first."""
        return self._epoch

    async def live(self, admission: asyncio.Semaphore) -> None:
        """Register, and repeat it after failures, until the consumer has left. `admission` limits how many
        consumers register for the first time in parallel."""
        failures = 0
        address: str | None = None
        while not self._is_leaving:
            if address is None:
                self._notes.look_ups += 1
                address = await self._finder.address(self.plan.group)
            if address is not None:
                async with contextlib.nullcontext() if self._member_id else admission:
                    registered = await self._attempt(address, self._register)
                if registered is True:
                    failures = 0
                    address = await self._member_until_the_end(address)
                    continue
                address = registered or None
            failures += 1
            await asyncio.sleep(RETRY.pause_s(failures, random.random()))
        self._gone.set()

    async def leave(self) -> None:
        """Leave with the final positions; returns when they are durable."""
        self._is_leaving = True
        if self.is_member:
            await self._say(goodbye=pb.ConsumerGoodbye(positions=self._told(self.reading)))
        await self._gone.wait()

    async def _member_until_the_end(self, address: str) -> str | None:
        """Answer orders. Returns the next address to register at, if the end of the stream names it."""
        self.is_member = True
        ended = await self._attempt(address, self._answer_orders)
        self.is_member = False
        if not self._is_leaving:
            self._notes.breaks += 1
        return ended if isinstance(ended, str) and ended else None

    async def _attempt(self, address: str, act: Callable[[str], Awaitable[bool]]) -> bool | str:
        """The result of the act; if the stream ends with an error, the address that the error names, or
        ""."""
        try:
            return await act(address)
        except grpc.aio.AioRpcError as error:
            reason, metadata = _reason_of(error)
            if reason not in _TEMPORARY:
                self._notes.refused[reason] += 1
                if reason == "UNKNOWN_MEMBER":
                    self._member_id = ""
            return metadata.get("coordinator_address", "")

    async def _register(self, address: str) -> bool:
        if self._address not in ("", address):
            self._connections.drop(self._address, self.plan.place)
        self._address = address
        channel = self._connections.to(address, self.plan.place)
        self._call = channel.stream_stream(Method.REGISTER_CONSUMER.value)()
        self._notes.attempts += 1
        if not self._notes.first_registration_s:
            self._notes.first_registration_s = time.monotonic()
        try:
            async with asyncio.timeout(_REGISTRATION_TIMEOUT_S):
                await self._call.write(self._registration())
                data = await self._call.read()
        except TimeoutError:
            self._call.cancel()
            return False
        if data is grpc.aio.EOF:
            return False
        answer = pb.RegisterConsumerResponse.FromString(data)
        self._epoch, self._generation = answer.coordinator_epoch, answer.generation
        self._member_id = answer.registered.member_id
        retained = {owned.partition for owned in answer.registered.retained}
        self._unconfirmed = {name for name in self.reading if name not in retained}
        self.reading = {name: given for name, given in self.reading.items() if name in retained}
        self._note_confirmed()
        return True

    async def _answer_orders(self, address: str) -> bool:
        call, notes = self._call, self._notes
        while (data := await call.read()) is not grpc.aio.EOF:
            order = pb.RegisterConsumerResponse.FromString(data)
            self._epoch, self._generation = order.coordinator_epoch, order.generation
            kind = order.WhichOneof("message")
            if kind == "ping":
                notes.pings += 1
                if not self._is_leaving:
                    await self._say(order.sequence, ping=pb.PingAnswer(positions=self._moved()))
            elif kind == "stop_fetcher":
                stopped = [each.partition for each in order.stop_fetcher.partitions]
                positions = self._told([name for name in stopped if name in self.reading])
                for name in stopped:
                    self.reading.pop(name, None)
                notes.stopped += len(stopped)
                await self._answer(order.sequence, stop_fetcher=pb.StopFetcherAnswer(positions=positions))
            elif kind == "start_fetcher":
                self._start(order.start_fetcher)
                await self._answer(order.sequence, start_fetcher=pb.StartFetcherAnswer())
        return False

    def _start(self, order: pb.StartFetcher) -> None:
        for stream in order.streams:
            for start in stream.partitions:
                self.reading[start.partition] = start.generation
                self._positions[start.partition] = start.offset
                self._notes.started += 1
        if self._unconfirmed:
            self._unconfirmed.clear()
            self._note_confirmed()

    async def _answer(self, sequence: int, **answer: Any) -> None:
        """Answer an order, and note the time."""
        if self._is_leaving:
            return
        # Noted before the answer, since the parent reads the notes as soon as the answer makes the group
        # stable.
        self._notes.heard.add(self.plan.consumer_id)
        self._notes.last_answer_s = time.monotonic()
        await self._say(sequence, **answer)

    async def _say(self, sequence: int = 0, **message: Any) -> None:
        request = pb.RegisterConsumerRequest(
            coordinator_epoch=self._epoch, generation=self._generation, sequence=sequence, **message
        )
        async with self._writing:
            await self._call.write(request.SerializeToString())

    def _note_confirmed(self) -> None:
        if not self._unconfirmed:
            self._notes.last_confirmed_s = time.monotonic()

    def _moved(self) -> Sequence[pb.ConsumedPosition]:
        if not self.plan.moves or not self.reading:
            return ()
        for name in self.reading:
            self._positions[name] += 1
        return self._told(self.reading)

    def _told(self, names: Mapping[int, int] | Sequence[int]) -> list[pb.ConsumedPosition]:
        return [
            pb.ConsumedPosition(
                topic=self.plan.topic,
                partition=name,
                generation=self.reading[name],
                offset=self._positions[name],
                leader_epoch=-1,
            )
            for name in names
        ]

    def _registration(self) -> bytes:
        plan = self.plan
        registration = pb.ConsumerRegistration(
            group=plan.group,
            consumer_id=plan.consumer_id,
            member_id=self._member_id,
            topics=[pb.TopicStreams(topic=plan.topic)],
            auto_commit=True,
            session_timeout_ms=plan.session_timeout_ms,
            assignor=plan.assignor,
            owned=[
                pb.OwnedPartition(topic=plan.topic, partition=name, generation=given)
                for name, given in self.reading.items()
            ],
        )
        request = pb.RegisterConsumerRequest(coordinator_epoch=self._epoch, registration=registration)
        return request.SerializeToString()


def _reason_of(error: grpc.aio.AioRpcError) -> tuple[str, Mapping[str, str]]:
    """The reason and metadata of a typed error; no reason if the connection broke."""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        info = error_details_pb2.ErrorInfo()
        for detail in status_pb2.Status.FromString(value).details:
            if detail.Unpack(info):
                return info.reason, info.metadata
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return "", {}
    return error.code().name, {}
