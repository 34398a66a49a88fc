"""Clients and a leader that was replaced while it was stopped, and that answers as of then when it wakes up.

The brokers here know only what the test tells them, so that the moment between waking up and hearing the news
lasts for as long as the test wants; no real broker can be held in it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import grpc
import hightide
import hightide.aio
import pytest
from hightide import TopicPartition
from hightide.consuming.consumer_settings import OffsetReset
from hightide.v1.broker_service_pb2 import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    GetMetadataRequest,
    GetMetadataResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from hightide.v1.broker_service_pb2_grpc import BrokerServiceServicer, add_BrokerServiceServicer_to_server
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.metadata_pb2 import Endpoint, PartitionMetadata, TopicMetadata
from unit.sdk.consumer_bench import batch

TOPIC, TOPIC_ID = "flights", bytes(range(16))
WANTED = TopicPartition(TOPIC, 0)
BOUND_S = 30


class Broker(BrokerServiceServicer):
    """Knows the leader of one partition and its epoch, and the high watermark of the time when it led."""

    def __init__(self, broker_id: int, high_watermark: int) -> None:
        self.broker_id, self.high_watermark = broker_id, high_watermark
        self.port, self.leader, self.leader_epoch = 0, 1, 1
        self.others: tuple[Broker, ...] = ()
        self.fetched_at: list[int] = []
        self.was_asked = Event()
        """Something was fetched of it."""
        self.may_tell = Event()
        """Its metadata is answered no earlier."""
        self.may_tell.set()

    def GetMetadata(self, request: GetMetadataRequest, context: object) -> GetMetadataResponse:  # noqa: N802
        self.may_tell.wait(BOUND_S)
        partition = PartitionMetadata(
            leader=self.leader, leader_epoch=self.leader_epoch, replicas=[1, 2], isr=[1, 2]
        )
        return GetMetadataResponse(
            brokers=[Endpoint(id=each.broker_id, host="127.0.0.1", port=each.port) for each in self.others],
            topics=[TopicMetadata(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        )

    def ListOffsets(self, request: ListOffsetsRequest, context: object) -> ListOffsetsResponse:  # noqa: N802
        return ListOffsetsResponse(partitions=[self._look_up(each) for each in request.partitions])

    def _look_up(self, asked: ListOffsetsPartition) -> ListOffsetsPartitionResult:
        if asked.leader_epoch > self.leader_epoch:
            return ListOffsetsPartitionResult(error_code=ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH)
        if self.leader != self.broker_id:
            return ListOffsetsPartitionResult(error_code=ErrorCode.ERROR_CODE_NOT_LEADER)
        return ListOffsetsPartitionResult(offset=self.high_watermark, leader_epoch=self.leader_epoch)

    def Fetch(self, request: FetchRequest, context: object) -> FetchResponse:  # noqa: N802
        return FetchResponse(partitions=[self._read(each) for each in request.partitions])

    def _read(self, asked: FetchPartition) -> FetchPartitionResult:
        self.fetched_at.append(asked.fetch_offset)
        self.was_asked.set()
        if asked.leader_epoch > self.leader_epoch:
            code = ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH
        elif self.leader != self.broker_id:
            code = ErrorCode.ERROR_CODE_NOT_LEADER
        elif asked.fetch_offset > self.high_watermark:
            code = ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE
        else:
            code = ErrorCode.ERROR_CODE_UNSPECIFIED
        left = 0 if code else self.high_watermark - asked.fetch_offset
        return FetchPartitionResult(
            topic_id=TOPIC_ID,
            error_code=code,
            high_watermark=self.high_watermark,
            current_leader=-1,
            batches=batch(asked.fetch_offset, left) if left else b"",
        )


@contextmanager
def serving(broker: Broker) -> Iterator[Broker]:
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads)
        add_BrokerServiceServicer_to_server(broker, server)
        broker.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield broker
        server.stop(None).wait()


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker]]:
    """Broker 1 led up to offset 165, broker 2 has led since, up to 314. Both know."""
    first, second = Broker(1, 165), Broker(2, 314)  # type: ignore[abstract]
    with serving(first) as old, serving(second) as new:
        for each in (old, new):
            each.others = (old, new)
            each.leader, each.leader_epoch = 2, 2
        yield old, new


def bootstrap_of(brokers: Sequence[Broker]) -> str:
    return ",".join(f"127.0.0.1:{each.port}" for each in brokers)


def wake_up_with_old_news(broker: Broker) -> None:
    """It takes itself for the leader, under the epoch that it led in."""
    broker.leader, broker.leader_epoch = 1, 1


def believed_at_first(woken: Broker, new: Broker) -> None:
    """Makes the new leader tell of itself only when the woken one was asked for records.

    A client asks the second address for metadata where the first is slow to answer, and would learn the
    truth at once.
    """
    wake_up_with_old_news(woken)
    new.may_tell = woken.was_asked


def test_who_was_never_told_better_may_believe_the_woken_leader(brokers: tuple[Broker, Broker]) -> None:
    """It holds no lease on reading. This shows that the others below have to know better by themselves."""
    wake_up_with_old_news(brokers[0])
    # Were the other one known as well, it would be asked where this one is slow to answer.
    brokers[0].others = brokers[:1]
    with hightide.Consumer(bootstrap_of(brokers[:1])) as consumer:
        assert consumer.end_offsets([WANTED]) == {WANTED: 165}


def test_a_consumer_is_never_told_an_end_by_the_leader_of_an_older_epoch(
    brokers: tuple[Broker, Broker],
) -> None:
    with hightide.Consumer(bootstrap_of(brokers)) as consumer:
        assert consumer.end_offsets([WANTED]) == {WANTED: 314}
        wake_up_with_old_news(brokers[0])
        assert consumer.end_offsets([WANTED]) == {WANTED: 314}
        # Its fetching side asks for metadata of its own, and is answered by the same broker.
        consumer.assign([WANTED])
        consumer.seek_to_end(WANTED)
        assert consumer.position(WANTED) == 314


def test_nor_is_an_admin(brokers: tuple[Broker, Broker]) -> None:
    with hightide.Admin(bootstrap_of(brokers)) as admin:
        assert admin.list_offsets([WANTED]) == {WANTED: 314}
        wake_up_with_old_news(brokers[0])
        assert admin.list_offsets([WANTED]) == {WANTED: 314}


def test_nor_are_clients_of_an_event_loop(brokers: tuple[Broker, Broker]) -> None:
    async def ask() -> None:
        async with (
            hightide.aio.Consumer(bootstrap_of(brokers)) as consumer,
            hightide.aio.Admin(bootstrap_of(brokers)) as admin,
        ):
            assert await consumer.end_offsets([WANTED]) == {WANTED: 314}
            assert await admin.list_offsets([WANTED]) == {WANTED: 314}
            wake_up_with_old_news(brokers[0])
            assert await consumer.end_offsets([WANTED]) == {WANTED: 314}
            assert await admin.list_offsets([WANTED]) == {WANTED: 314}

    asyncio.run(ask())


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_an_offset_that_the_woken_leader_calls_out_of_range_is_read_at_the_new_one(
    brokers: tuple[Broker, Broker], reset: OffsetReset
) -> None:
    """The position is the application's own: no epoch goes with it that would tell the woken leader that it
    is behind."""
    old, new = brokers
    believed_at_first(old, new)
    with hightide.Consumer(bootstrap_of(brokers), offset_reset=reset) as consumer:
        consumer.assign([WANTED])
        consumer.seek(WANTED, 300)
        assert [record.offset for record in consumer.poll(timeout_s=BOUND_S)] == list(range(300, 314))
    assert old.was_asked.is_set(), "the test is about its answer"
    assert set(new.fetched_at) <= {300, 314}


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_also_by_a_consumer_of_an_event_loop(brokers: tuple[Broker, Broker], reset: OffsetReset) -> None:
    old, new = brokers
    believed_at_first(old, new)

    async def read() -> list[int]:
        async with hightide.aio.Consumer(bootstrap_of(brokers), offset_reset=reset) as consumer:
            await consumer.assign([WANTED])
            await consumer.seek(WANTED, 300)
            return [record.offset for record in await consumer.poll(timeout_s=BOUND_S)]

    assert asyncio.run(read()) == list(range(300, 314))
    assert old.was_asked.is_set(), "the test is about its answer"
    assert set(new.fetched_at) <= {300, 314}
