"""A producer core without a shell: the test is the clock, the brokers and the network."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from hightide.batch.header import BatchHeader, check_from_producer
from hightide.batch.wire import parse_produce_request
from hightide.calls.call import Call, MessageCall, Method
from hightide.cluster.metadata import ClusterMetadata
from hightide.errors import HightideError
from hightide.producing.delivery import Delivery
from hightide.producing.pending_batch import PendingBatch
from hightide.producing.produce_call import ProduceCall
from hightide.producing.producer_core import ProducerCore
from hightide.producing.producer_settings import ProducerSettings
from hightide.v1.broker_service_pb2 import (
    GetMetadataResponse,
    InitProducerIdResponse,
    ProducePartitionResult,
    ProduceResponse,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.metadata_pb2 import Endpoint, PartitionMetadata, TopicMetadata

TOPIC = "flights"
TOPIC_ID = bytes(range(16))


def metadata(
    leaders: Mapping[int, tuple[int, int]] | Iterable[int],
    *,
    topic_id: bytes = TOPIC_ID,
    configs: Mapping[str, str] | None = None,
) -> GetMetadataResponse:
    """An answer of a cluster of brokers 1 to 3, at b1:1 to b3:3. Leaders by partition, as broker ids or as
    (broker id, leader epoch)."""
    given = leaders if isinstance(leaders, Mapping) else {at: (who, 1) for at, who in enumerate(leaders)}
    partitions = [
        PartitionMetadata(partition=at, leader=who, leader_epoch=epoch, replicas=[1, 2, 3], isr=[1, 2, 3])
        for at, (who, epoch) in sorted(given.items())
    ]
    return GetMetadataResponse(
        cluster_id="c",
        brokers=[Endpoint(id=at, host=f"b{at}", port=at) for at in (1, 2, 3)],
        topics=[TopicMetadata(topic=TOPIC, topic_id=topic_id, partitions=partitions, configs=configs or {})],
    )


def no_topic() -> GetMetadataResponse:
    """An answer of a cluster that does not have the topic."""
    answer = metadata([])
    answer.topics[0].error_code = ErrorCode.ERROR_CODE_UNKNOWN_TOPIC
    return answer


class ProducerBench:
    """The core with the topic known, and a clock that stands still until the test moves it."""

    def __init__(
        self,
        leaders: Iterable[int] = (1,),
        *,
        configs: Mapping[str, str] | None = None,
        first_turn: int = 0,
        **settings: Any,
    ):
        self.now_ms = 1_000.0
        self.ids = iter(range(100, 200))
        self.core = ProducerCore(
            ProducerSettings(**{"linger_ms": 0, **settings}),
            ClusterMetadata(("boot:9",)),
            self,
            first_turn=first_turn,
            random=Random(1),
        )
        self.core.cluster.update(metadata(leaders, configs=configs))
        home = self.core.queues_of(TOPIC)
        assert home is not None
        self.home = home
        self.core.seeker.topics.add(TOPIC)
        self.asked: list[Call[Any]] = []

    def hurry(self, batch: PendingBatch) -> None:
        """Someone waits."""
        batch.is_urgent = True

    def send(self, count: int = 1, *, partition: int | None = 0, size_bytes: int = 10) -> list[Delivery]:
        """Records that are taken; fails the test where the buffer is full."""
        sent = [self.try_send(partition=partition, size_bytes=size_bytes) for _ in range(count)]
        assert all(sent)
        return [delivery for delivery in sent if delivery is not None]

    def try_send(self, *, partition: int | None = 0, size_bytes: int = 10) -> Delivery | None:
        """A record, or None where the buffer is full."""
        queue = self.home.queue_for(None, partition)
        taken = self.core.append(self.home, queue, None, b"x" * size_bytes, 5, None, self.now_ms)
        assert taken is None or isinstance(taken, Delivery)
        return taken

    def calls(self, *, identify: bool = True) -> list[ProduceCall]:
        """The Produce calls that are made now. Producer ids are given out, other calls kept in `asked`."""
        found = self.core.poll(self.now_ms)
        produce = [call for call in found if isinstance(call, ProduceCall)]
        for call in found:
            if call.method is Method.INIT_PRODUCER_ID and identify:
                answer = InitProducerIdResponse(producer_id=next(self.ids))
                self.core.completed(call, answer, self.now_ms)
                produce += self.calls()
            elif not isinstance(call, ProduceCall):
                self.asked.append(call)
        return produce

    def call(self) -> ProduceCall:
        """The one Produce call that is made now."""
        (only,) = self.calls()
        return only

    def answer_metadata(self, answer: GetMetadataResponse) -> None:
        """Some broker answers the GetMetadata that is under way."""
        call = self.asked.pop()
        assert isinstance(call, MessageCall)
        assert call.method is Method.GET_METADATA
        self.core.completed(call, answer, self.now_ms)

    def ok(self, call: ProduceCall, base_offset: int = 0) -> None:
        """The broker appended all of it."""
        self.answer(call, ProducePartitionResult(base_offset=base_offset))

    def refuse(self, call: ProduceCall, code: ErrorCode.ValueType, **fields: Any) -> None:
        """The broker refused all of it."""
        self.answer(
            call, ProducePartitionResult(error_code=code, base_offset=-1, **{"current_leader": -1, **fields})
        )

    def answer(self, call: ProduceCall, result: ProducePartitionResult) -> None:
        """The broker answers each partition alike."""
        response = ProduceResponse()
        for entry in call.entries:
            one = response.partitions.add()
            one.CopyFrom(result)
            one.topic_id, one.partition = entry.topic_id, entry.batch.partition
        self.core.completed(call, call.decode(response.SerializeToString()), self.now_ms)

    def fail(self, call: ProduceCall, error: HightideError) -> None:
        """The call fails as a whole."""
        self.core.completed(call, error, self.now_ms)

    def pass_ms(self, passed_ms: float) -> None:
        """Time goes by."""
        self.now_ms += passed_ms


def headers_of(call: ProduceCall) -> list[BatchHeader]:
    """The headers of what a broker would receive, checked as a broker checks them."""
    request = parse_produce_request(call.encode())
    return [
        header
        for part in request.partitions
        for header in check_from_producer(part.batches, bytes(part.topic_id), part.partition, 1 << 30)
    ]
