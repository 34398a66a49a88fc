"""A leader takes a batch whole or refuses it with the right code, and a refusal changes nothing."""

from collections.abc import Iterator

import pytest
from adversary.batches import BROKEN, good_batch
from adversary.control import ControlPlane
from adversary.raw_client import RawClient, name_of
from adversary.target import BROKER, Target, code_in, produce_result
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

TOPIC = "bad-batches"


@pytest.fixture(scope="module")
def shared_target(hightide_cluster: LocalCluster) -> Iterator[Target]:
    control = ControlPlane(hightide_cluster.bootstrap)
    control.create_topic(TOPIC, partitions=2)
    control.close()
    target = Target(hightide_cluster.bootstrap, TOPIC)
    yield target
    target.close()


@pytest.fixture
def target(shared_target: Target) -> Iterator[Target]:
    """The partition; after each test nothing may have been appended to it but what the test has counted."""
    yield shared_target
    shared_target.assert_unharmed()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_batch_is_refused_by_the_right_name(target: Target, name: str) -> None:
    break_it, right_codes = BROKEN[name]
    batch = break_it(bytearray(good_batch(target.topic_id, 0)))
    assert code_in(target.send_produce(batch), produce_result) in right_codes


@pytest.mark.parametrize(
    "name", ["a flipped bit in the last byte", "a whole batch of a later version", "another topic's id"]
)
def test_acks_1_looks_at_batches_as_closely_as_acks_all(target: Target, name: str) -> None:
    break_it, right_codes = BROKEN[name]
    batch = break_it(bytearray(good_batch(target.topic_id, 0)))
    answer = target.send_produce(batch, acks=broker_pb2.ACKS_LEADER)
    assert code_in(answer, produce_result) in right_codes


@pytest.mark.parametrize("name", ["a flipped bit in the last byte", "half a batch", "text"])
def test_acks_0_appends_no_broken_batch_either(target: Target, name: str) -> None:
    break_it, _ = BROKEN[name]
    batch = break_it(bytearray(good_batch(target.topic_id, 0)))
    target.send_produce(batch, acks=broker_pb2.ACKS_NONE)


def test_a_batch_over_the_limit_is_too_large(target: Target) -> None:
    batch = good_batch(target.topic_id, 0, [b"x" * (5 << 20)])
    assert code_in(target.send_produce(batch), produce_result) == "BATCH_TOO_LARGE"


def test_the_topics_own_limit_holds(hightide_cluster: LocalCluster) -> None:
    control = ControlPlane(hightide_cluster.bootstrap)
    control.create_topic("small-batches", max_message_bytes="2000")
    control.close()
    small = Target(hightide_cluster.bootstrap, "small-batches")
    batch = good_batch(small.topic_id, 0, [b"x" * 2000])
    assert code_in(small.send_produce(batch), produce_result) == "BATCH_TOO_LARGE"
    small.assert_unharmed()
    small.close()


def test_a_message_over_the_limit_of_the_server_is_refused_before_it_is_read(target: Target) -> None:
    answer = target.send_produce(b"\0" * (17 << 20))
    assert answer.status.name == "RESOURCE_EXHAUSTED", answer


def test_an_older_leader_epoch_is_fenced(target: Target) -> None:
    batch = good_batch(target.topic_id, 0)
    epoch = target.leader_epoch
    if epoch > 0:
        answer = target.send_produce(batch, leader_epoch=epoch - 1)
        assert code_in(answer, produce_result) == "FENCED_LEADER_EPOCH"
    answer = target.send_produce(batch, leader_epoch=-2)
    assert code_in(answer, produce_result) in {"FENCED_LEADER_EPOCH", "INVALID_REQUEST"}


def test_a_newer_leader_epoch_is_not_known(target: Target) -> None:
    batch = good_batch(target.topic_id, 0)
    answer = target.send_produce(batch, leader_epoch=target.leader_epoch + 1)
    assert code_in(answer, produce_result) == "UNKNOWN_LEADER_EPOCH"


@pytest.mark.parametrize("partition", [2, 1_000_000, -1, 2**31 - 1, -(2**31)])
def test_a_partition_that_is_not_there_is_not_known(target: Target, partition: int) -> None:
    batch = good_batch(target.topic_id, 0)
    answer = target.send_produce(batch, partition=partition)
    assert code_in(answer, produce_result) in {"UNKNOWN_PARTITION", "INVALID_REQUEST"}


def test_a_topic_that_is_not_there_is_not_known(target: Target) -> None:
    batch = good_batch(b"\x09" * 16, 0)
    answer = target.send_produce(batch, topic_id=b"\x09" * 16)
    assert code_in(answer, produce_result) == "UNKNOWN_TOPIC"


@pytest.mark.parametrize("topic_id", [b"", b"\x01", b"\x01" * 15, b"\x01" * 17, b"../" * 6])
def test_a_topic_id_has_16_bytes(target: Target, topic_id: bytes) -> None:
    answer = target.send_produce(good_batch(target.topic_id, 0), topic_id=topic_id)
    assert code_in(answer, produce_result) in {"INVALID_REQUEST", "UNKNOWN_TOPIC"}


@pytest.mark.parametrize("acks", [0, 9])
def test_acks_must_be_said(target: Target, acks: int) -> None:
    chosen = broker_pb2.Acks.ValueType(acks)
    answer = target.send_produce(good_batch(target.topic_id, 0), acks=chosen)
    assert code_in(answer, produce_result) == "INVALID_REQUEST"


def test_a_partition_named_twice_is_refused(target: Target) -> None:
    once = broker_pb2.ProducePartition(
        topic_id=target.topic_id, leader_epoch=-1, batches=good_batch(target.topic_id, 0)
    )
    request = broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=30_000, partitions=[once, once])
    answer = target.leader.send(f"{BROKER}/Produce", request)
    assert (answer.is_typed_error, answer.reason) == (True, "INVALID_REQUEST"), answer


def test_one_bad_partition_does_not_spoil_the_others_of_its_request(target: Target) -> None:
    partitions = [
        broker_pb2.ProducePartition(topic_id=b"\x09" * 16, leader_epoch=-1, batches=b"junk"),
        broker_pb2.ProducePartition(
            topic_id=target.topic_id, leader_epoch=-1, batches=good_batch(target.topic_id, 0)
        ),
    ]
    request = broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=30_000, partitions=partitions)
    answer = target.leader.send(f"{BROKER}/Produce", request)
    assert answer.ok, answer
    results = broker_pb2.ProduceResponse.FromString(answer.body).partitions
    assert [name_of(result.error_code) for result in results] == ["UNKNOWN_TOPIC", "OK"]
    assert results[1].base_offset == target.next_offset
    target.next_offset += 1


def test_a_broker_that_does_not_lead_says_who_does(hightide_cluster: LocalCluster, target: Target) -> None:
    (other, *_) = set(hightide_cluster.brokers) - {target.leader_id}
    request = broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=30_000)
    request.partitions.add(topic_id=target.topic_id, leader_epoch=-1, batches=good_batch(target.topic_id, 0))
    with RawClient(hightide_cluster.brokers[other]) as client:
        answer = client.send(f"{BROKER}/Produce", request)
    assert code_in(answer, produce_result) == "NOT_LEADER"
    assert produce_result(answer).current_leader == target.leader_id


LARGEST_BYTES = 15 << 20


def test_the_largest_batches_that_can_be_configured_are_replicated_and_read(
    hightide_cluster: LocalCluster,
) -> None:
    """A batch that fits in a produce request, but in no answer of a fetch, would stop its partition."""
    control = ControlPlane(hightide_cluster.bootstrap)
    request = controller_pb2.CreateTopicRequest(
        topic="largest", configs={"max.message.bytes": str(LARGEST_BYTES)}
    )
    for _ in range(2):
        request.assignment.add(replicas=[1, 2, 3])
    answer = control.create(request)
    control.close()
    assert answer.ok, answer
    largest = Target(hightide_cluster.bootstrap, "largest")
    smallest = len(good_batch(largest.topic_id, 0, [b""]))
    for partition in (0, 1):
        padding = LARGEST_BYTES - smallest - smallest % 64
        batch = good_batch(largest.topic_id, partition, [b"x" * padding])
        assert LARGEST_BYTES - 200 < len(batch) <= LARGEST_BYTES
        result = produce_result(largest.send_produce(batch, partition=partition))
        assert name_of(result.error_code) == "OK", result
    largest.next_offset += 1
    largest.assert_unharmed()
    both = broker_pb2.FetchRequest(max_bytes=2**31 - 1)
    for partition, offset in ((0, 1), (1, 0)):
        both.partitions.add(
            topic_id=largest.topic_id,
            partition=partition,
            leader_epoch=-1,
            fetch_offset=offset,
            max_bytes=2**31 - 1,
        )
    answer = largest.leader.send(f"{BROKER}/Fetch", both)
    assert answer.ok, answer.message
    read = broker_pb2.FetchResponse.FromString(answer.body).partitions
    assert [bool(each.batches) for each in read] == [True, False], "both do not fit, the first always does"
    assert len(answer.body) < 16 << 20
    largest.close()


# -- sequences of idempotent producers


def producer_id(target: Target) -> int:
    answer = target.leader.send(f"{BROKER}/InitProducerId", broker_pb2.InitProducerIdRequest())
    assert answer.ok, answer
    return broker_pb2.InitProducerIdResponse.FromString(answer.body).producer_id


def test_a_batch_sent_again_is_acknowledged_at_its_first_place(target: Target) -> None:
    batch = good_batch(target.topic_id, 0, producer_id=producer_id(target), producer_epoch=0, base_sequence=0)
    places = [produce_result(target.send_produce(batch)).base_offset for _ in range(3)]
    assert places == [target.next_offset] * 3
    target.next_offset += 1


def test_a_gap_in_the_sequence_is_refused(target: Target) -> None:
    identity = producer_id(target)
    first = good_batch(target.topic_id, 0, producer_id=identity, producer_epoch=0, base_sequence=0)
    assert produce_result(target.send_produce(first)).base_offset == target.next_offset
    target.next_offset += 1
    third = good_batch(target.topic_id, 0, producer_id=identity, producer_epoch=0, base_sequence=2)
    assert code_in(target.send_produce(third), produce_result) == "OUT_OF_ORDER_SEQUENCE"


def test_a_producer_that_begins_in_the_middle_is_not_known(target: Target) -> None:
    batch = good_batch(target.topic_id, 0, producer_id=producer_id(target), producer_epoch=0, base_sequence=7)
    assert code_in(target.send_produce(batch), produce_result) in {
        "UNKNOWN_PRODUCER_ID",
        "OUT_OF_ORDER_SEQUENCE",
    }


def test_an_older_producer_epoch_is_fenced(target: Target) -> None:
    identity = producer_id(target)
    new = good_batch(target.topic_id, 0, producer_id=identity, producer_epoch=5, base_sequence=0)
    assert produce_result(target.send_produce(new)).base_offset == target.next_offset
    target.next_offset += 1
    old = good_batch(target.topic_id, 0, producer_id=identity, producer_epoch=4, base_sequence=0)
    assert code_in(target.send_produce(old), produce_result) == "FENCED_PRODUCER_EPOCH"


def test_more_replicas_asked_for_than_there_are_stops_acks_all_before_anything_is_appended(
    hightide_cluster: LocalCluster,
) -> None:
    """min.insync.replicas=3 of 1 replica can never be met: it is refused at creation or at each produce."""
    control = ControlPlane(hightide_cluster.bootstrap)
    request = controller_pb2.CreateTopicRequest(
        topic="unmeetable", partition_count=1, replication_factor=1, configs={"min.insync.replicas": "3"}
    )
    answer = control.create(request)
    control.close()
    if not answer.ok:
        assert answer.reason == "INVALID_CONFIG", answer
        return
    topic = controller_pb2.CreateTopicResponse.FromString(answer.body).topic
    produce = broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=30_000)
    produce.partitions.add(topic_id=topic.topic_id, leader_epoch=-1, batches=good_batch(topic.topic_id, 0))
    with RawClient(hightide_cluster.brokers[topic.partitions[0].leader]) as client:
        assert code_in(client.send(f"{BROKER}/Produce", produce), produce_result) == "NOT_ENOUGH_REPLICAS"
        produce.acks = broker_pb2.ACKS_LEADER
        appended = produce_result(client.send(f"{BROKER}/Produce", produce))
    assert appended.base_offset == 0, "the refused batch was appended"
