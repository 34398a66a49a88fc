"""One partition under attack: the requests that reach its leader, and the proof that nothing happened to
it."""

from collections.abc import Callable, Sequence
from typing import Self

from adversary.batches import good_batch
from adversary.raw_client import ANSWER_S, Answer, RawClient, name_of
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import errors_pb2, metadata_pb2
from hightide_local.histories.waiting import wait_until

BROKER = "/hightide.v1.BrokerService"


class Target:
    """Partition 0 of a topic, asked of its leader. Knows which offset the next good record must get."""

    def __init__(self, bootstrap: str, topic: str, *, alone: bool = True) -> None:
        self.topic = topic
        self._bootstrap = bootstrap.split(",")[0]
        self.metadata = self._read_metadata()
        partition = self.metadata.partitions[0]
        self.topic_id = self.metadata.topic_id
        self.leader_id, self.leader_epoch = partition.leader, partition.leader_epoch
        self.leader = RawClient(self.address_of(self.leader_id))
        self.next_offset = 0
        if alone:
            # Without a controller, a broker tells of its election a moment before it leads; clients retry.
            wait_until(f"broker {self.leader_id} leads {topic}", self._is_led, 30)
            self.produce_good()

    @classmethod
    def beside_others(cls, bootstrap: str, topic: str) -> Self:
        """A partition that others write to as well: its offsets are not counted, and nothing is proven of
        it."""
        return cls(bootstrap, topic, alone=False)

    def _read_metadata(self) -> metadata_pb2.TopicMetadata:
        def described() -> metadata_pb2.TopicMetadata | None:
            topic = self.cluster_metadata().topics[0]
            known = bool(topic.partitions) and all(each.leader >= 0 for each in topic.partitions)
            return topic if known else None

        found = wait_until(f"leaders of {self.topic}", described, 30)
        assert found is not None
        return found

    def _is_led(self) -> bool:
        asked = offsets_result(self.send_list_offsets(broker_pb2.OFFSET_SPEC_LATEST))
        waits = {errors_pb2.ERROR_CODE_PARTITION_OFFLINE, errors_pb2.ERROR_CODE_NOT_LEADER}
        return asked.error_code not in waits

    def cluster_metadata(self) -> broker_pb2.GetMetadataResponse:
        """What a broker tells of the cluster and of this topic."""
        with RawClient(self._bootstrap) as client:
            answer = client.send(f"{BROKER}/GetMetadata", broker_pb2.GetMetadataRequest(topics=[self.topic]))
        assert answer.ok, answer
        return broker_pb2.GetMetadataResponse.FromString(answer.body)

    def address_of(self, broker_id: int) -> str:
        """host:port of a broker."""
        brokers = {each.id: each for each in self.cluster_metadata().brokers}
        return f"{brokers[broker_id].host}:{brokers[broker_id].port}"

    # -- requests

    def send_produce(
        self,
        batches: bytes,
        *,
        acks: broker_pb2.Acks.ValueType = broker_pb2.ACKS_ALL,
        timeout_ms: int = 30_000,
        timeout_s: float = ANSWER_S,
        topic_id: bytes | None = None,
        partition: int = 0,
        leader_epoch: int = -1,
    ) -> Answer:
        """Produce for one partition; `timeout_ms`: for the replicas, `timeout_s`: for the call."""
        request = broker_pb2.ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            partitions=[
                broker_pb2.ProducePartition(
                    topic_id=self.topic_id if topic_id is None else topic_id,
                    partition=partition,
                    leader_epoch=leader_epoch,
                    batches=batches,
                )
            ],
        )
        return self.leader.send(f"{BROKER}/Produce", request, timeout_s)

    def send_fetch(
        self,
        offset: int,
        *,
        partition: int = 0,
        leader_epoch: int = -1,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        timeout_s: float = ANSWER_S,
    ) -> Answer:
        """Fetch from one partition, without waiting."""
        request = broker_pb2.FetchRequest(
            partitions=[
                broker_pb2.FetchPartition(
                    topic_id=self.topic_id,
                    partition=partition,
                    leader_epoch=leader_epoch,
                    fetch_offset=offset,
                    max_bytes=1 << 20,
                )
            ],
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
        )
        return self.leader.send(f"{BROKER}/Fetch", request, timeout_s)

    def send_list_offsets(
        self, spec: broker_pb2.OffsetSpec.ValueType, *, partition: int = 0, leader_epoch: int = -1
    ) -> Answer:
        """ListOffsets of one partition."""
        request = broker_pb2.ListOffsetsRequest(
            partitions=[
                broker_pb2.ListOffsetsPartition(
                    topic_id=self.topic_id, partition=partition, leader_epoch=leader_epoch, spec=spec
                )
            ]
        )
        return self.leader.send(f"{BROKER}/ListOffsets", request)

    # -- proof

    def produce_good(self, values: Sequence[bytes] = (b"good",)) -> None:
        """A good record gets the next offset: so nothing was appended since the last one, and producing
        works."""
        batch = good_batch(self.topic_id, 0, values)
        result = produce_result(self.send_produce(batch))
        expected = self.next_offset
        # Counted on from what was found, so that the test that appended is blamed, and not all after it.
        self.next_offset = max(result.base_offset, expected) + len(values)
        assert (name_of(result.error_code), result.base_offset) == ("OK", expected), result

    def assert_unharmed(self) -> None:
        """Nothing was appended, nothing was lost, producing and fetching work."""
        self.produce_good()
        result = fetch_result(self.send_fetch(self.next_offset - 1))
        assert name_of(result.error_code) == "OK", result
        assert result.high_watermark == self.next_offset, result
        assert result.batches.endswith(good_batch(self.topic_id, 0)[24:]), (
            "what was read is not what was sent"
        )
        first = fetch_result(self.send_fetch(0))
        assert first.batches, "the first record is gone"

    def close(self) -> None:
        """Let go of the connection."""
        self.leader.close()


def produce_result(answer: Answer) -> broker_pb2.ProducePartitionResult:
    """The one partition's result in an answer to Produce."""
    assert answer.ok, answer
    (result,) = broker_pb2.ProduceResponse.FromString(answer.body).partitions
    return result


def fetch_result(answer: Answer) -> broker_pb2.FetchPartitionResult:
    """The one partition's result in an answer to Fetch."""
    assert answer.ok, answer
    (result,) = broker_pb2.FetchResponse.FromString(answer.body).partitions
    return result


def offsets_result(answer: Answer) -> broker_pb2.ListOffsetsPartitionResult:
    """The one partition's result in an answer to ListOffsets."""
    assert answer.ok, answer
    (result,) = broker_pb2.ListOffsetsResponse.FromString(answer.body).partitions
    return result


AnyResult = (
    broker_pb2.ProducePartitionResult
    | broker_pb2.FetchPartitionResult
    | broker_pb2.ListOffsetsPartitionResult
)


def code_in(answer: Answer, result_of: Callable[[Answer], AnyResult]) -> str:
    """The error that an answer tells, for the call or for its one partition, with a sentence for people; or
    OK."""
    if not answer.ok:
        assert answer.is_typed_error, answer
        return answer.reason
    result = result_of(answer)
    name = name_of(result.error_code)
    if name != "OK":
        assert len(result.error_message) > 10, f"{name} is told without a sentence: {result}"
    return name
