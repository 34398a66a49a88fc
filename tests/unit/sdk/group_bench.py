"""A consumer in a group without a shell: the test is the clock, the coordinator, the brokers and the user."""

from random import Random
from typing import Any

from hightide.calls.call import STREAM_ENDED, Call, Method, StreamCall
from hightide.cluster.metadata import ClusterMetadata
from hightide.consumer_group.group_core import GroupCore
from hightide.consumer_group.membership_state import MembershipState
from hightide.consumer_group.ownership import AssignmentEvent, OwnershipChange
from hightide.consumer_group.settings import GroupSettings
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.consuming.fetch_call import FetchCall
from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.errors import HightideError
from hightide.records import Record, TopicPartition
from hightide.v1.broker_service_pb2 import FetchPartitionResult, FetchResponse, GetMetadataResponse
from hightide.v1.coordinator_service_pb2 import (
    ConsumerRegistered,
    ConsumerStream,
    OwnedPartition,
    Ping,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcher,
    StartPartition,
    StopFetcher,
)
from hightide.v1.metadata_pb2 import Endpoint
from unit.sdk.producer_bench import TOPIC, TOPIC_ID, metadata

SESSION_TIMEOUT_MS = 9_000
PING_INTERVAL_MS = 3_000
ANSWER_TIMEOUT_MS = 6_000


def with_coordinator(number: int | None = 1, partition_count: int = 8) -> GetMetadataResponse:
    """What brokers answer: broker 1 leads everything, and this coordinator is active."""
    answer = metadata((1,) * partition_count)
    where = Endpoint() if number is None else Endpoint(id=number, host=f"co{number}", port=number)
    answer.coordinators.append(where)
    return answer


class GroupBench:
    """The core, with a clock that stands still until the test moves it."""

    def __init__(
        self, *, tells_revoked: bool = False, offset_reset: str = "earliest", **settings: Any
    ) -> None:
        self.now_ms = 1_000.0
        self.group = GroupSettings(
            **{
                "group": "readers",
                "topics": {TOPIC: 1},
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "offset_reset": offset_reset,
                **settings,
            }
        )
        read_with = ConsumerSettings(offset_reset=offset_reset)  # type: ignore[arg-type]
        self.consumer = ConsumerCore(read_with, ClusterMetadata(("boot:9",)), (), Random(1))
        self.in_delivery = RecordsInDelivery(self.consumer, self.consumer.notices.append)
        self.core = GroupCore(
            self.group, self.consumer, self.in_delivery, Random(1), tells_revoked=tells_revoked
        )
        self.membership = self.core.membership
        self.ownership = self.core.ownership
        self.asked: list[Call[Any]] = []
        self.fetches: list[FetchCall] = []
        self.commits: list[Call[Any]] = []
        self.streams: list[StreamCall[Any]] = []
        self.sequence = 0
        self.epoch = 1

    # -- the network -----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Let the core say what it wants done."""
        for call in self.core.poll(self.now_ms):
            if isinstance(call, FetchCall):
                self.fetches.append(call)
            elif isinstance(call, StreamCall):
                self.streams.append(call)
            elif call.method is Method.COMMIT_OFFSETS:
                self.commits.append(call)
            else:
                assert call.method is Method.GET_METADATA, call.method
                self.asked.append(call)
        wake_at_ms = self.core.wake_at_ms
        assert wake_at_ms is None or wake_at_ms > self.now_ms, "a driver would run in circles"

    def pass_ms(self, passed_ms: float) -> None:
        """Time goes by, and the driver runs."""
        until_ms = self.now_ms + passed_ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + SESSION_TIMEOUT_MS / 6)
            self.poll()

    def pass_s(self, seconds: int) -> None:
        """Time goes by in small steps, without a word from anybody but the brokers."""
        for _ in range(seconds * 10):
            self.pass_ms(100)
            if self.asked:
                self.answer_metadata()

    def answer_metadata(self, answer: GetMetadataResponse | None = None) -> None:
        """Some broker answers."""
        self.poll()
        while self.asked:
            self.core.completed(self.asked.pop(), answer or with_coordinator(), self.now_ms)
        self.poll()

    @property
    def stream(self) -> StreamCall[Any]:
        """The newest stream."""
        return self.streams[-1]

    @property
    def registration(self) -> RegisterConsumerRequest:
        """The first message of the newest stream."""
        request = self.stream.request
        assert isinstance(request, RegisterConsumerRequest)
        return request

    def said(self) -> list[RegisterConsumerRequest]:
        """What the consumer has sent since the last time."""
        self.poll()
        messages = [RegisterConsumerRequest.FromString(each) for each in self.stream.outbox]
        self.stream.outbox.clear()
        return messages

    def end(self, error: HightideError | None = None) -> None:
        """The stream ends."""
        self.core.completed(self.stream, STREAM_ENDED if error is None else error, self.now_ms)
        self.poll()

    # -- the coordinator -------------------------------------------------------------------------------------

    def tell(self, *, generation: int = 1, **message: Any) -> None:
        """The coordinator sends something."""
        response = RegisterConsumerResponse(coordinator_epoch=self.epoch, generation=generation, **message)
        if "registered" not in message:
            self.sequence += 1
            response.sequence = self.sequence
        self.core.completed(self.stream, response, self.now_ms)
        self.poll()

    def register(self, *retained: OwnedPartition, member_id: str = "m-1") -> "GroupBench":
        """The coordinator is found, and accepts."""
        tried = len(self.streams)
        while len(self.streams) == tried and self.membership.state is not MembershipState.REGISTERING:
            self.pass_ms(100)
            self.answer_metadata()
        self.sequence = 0
        self.tell(
            registered=ConsumerRegistered(
                member_id=member_id,
                consumer_id="c-1",
                ping_interval_ms=PING_INTERVAL_MS,
                answer_timeout_ms=ANSWER_TIMEOUT_MS,
                retained=retained,
            )
        )
        return self

    def ping(self) -> list[RegisterConsumerRequest]:
        """A Ping, and all that the consumer says then."""
        self.tell(ping=Ping())
        return self.said()

    def give(self, *partitions: int, offset: int = 0, generation: int = 1, stream: int = 0) -> None:
        """The coordinator gives partitions to the consumer."""
        streams = starts(*partitions, offset=offset, generation=generation, stream=stream)
        self.tell(generation=generation, start_fetcher=StartFetcher(streams=streams))
        self.answer_metadata()

    def take(self, *partitions: int, generation: int = 1) -> None:
        """The coordinator takes partitions away."""
        named = [OwnedPartition(topic=TOPIC, partition=each, generation=generation) for each in partitions]
        self.tell(generation=generation + 1, stop_fetcher=StopFetcher(partitions=named))

    # -- the brokers and the user ----------------------------------------------------------------------------

    def serve(self, **batches: bytes) -> None:
        """The leader answers what is under way: p0=... are the batches of partition 0."""
        for call in self.fetches:
            response = FetchResponse()
            for entry in call.entries:
                response.partitions.append(
                    FetchPartitionResult(
                        topic_id=entry.topic_id,
                        partition=entry.partition.partition,
                        high_watermark=1_000,
                        current_leader=-1,
                        batches=batches.get(f"p{entry.partition.partition}", b""),
                    )
                )
            self.core.completed(call, call.decode(response.SerializeToString()), self.now_ms)
        self.fetches = []

    def user_polls(self, count_max: int = 500) -> list[Record]:
        """The user calls poll(): it settles what it had, is told the news, and takes what is there."""
        self.ownership.came_back()
        self.tell_user()
        self.poll()
        records: list[Record] = []
        while len(records) < count_max and not self.membership.is_suspended(self.now_ms):
            if not self.in_delivery.has_records:
                chunk = self.consumer.next_chunk()
                if chunk is None:
                    break
                self.ownership.took(chunk.partition)
                self.in_delivery.begin(chunk)
            records += self.in_delivery.take(count_max - len(records))
        return records

    def tell_user(self) -> list[AssignmentEvent]:
        """The user's callbacks run."""
        told = []
        while (event := self.ownership.next_event()) is not None:
            told.append(event)
            self.ownership.told(event)
        return told


def starts(*partitions: int, offset: int = 0, generation: int = 1, stream: int = 0) -> list[ConsumerStream]:
    """What a coordinator orders to read, in one stream."""
    orders = [
        StartPartition(
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partition=each,
            generation=generation,
            offset=offset,
            leader_epoch=-1,
        )
        for each in partitions
    ]
    return [ConsumerStream(stream=stream, partitions=orders)]


def positions(message: RegisterConsumerRequest) -> dict[int, int]:
    """Partition → offset, of an answer or a goodbye."""
    kind = message.WhichOneof("message")
    assert kind is not None
    return {each.partition: each.offset for each in getattr(message, kind).positions}


def owned(*partitions: int, generation: int = 1) -> list[OwnedPartition]:
    """As a registration claims them, and its answer confirms them."""
    return [OwnedPartition(topic=TOPIC, partition=each, generation=generation) for each in partitions]


def changes(events: list[AssignmentEvent]) -> list[tuple[OwnershipChange, list[int]]]:
    """What the user was told."""
    return [(event.change, [each.partition for each in event.partitions]) for event in events]


def parts(*partitions: int) -> tuple[TopicPartition, ...]:
    """Partitions of the topic."""
    return tuple(TopicPartition(TOPIC, each) for each in partitions)
