"""What a real cluster remembers of producers: over a change of leader, and told from what others wrote; and
what a replica that follows gives out of its own log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from adversary.batches import good_batch
from adversary.raw_client import RawClient
from adversary.target import BROKER, Target, code_in, fetch_result, produce_result
from hightide import Admin, TopicPartition
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

KEYED = 1 << 62 | 5
EPOCH = 7


@pytest.fixture
def target(hightide_cluster: LocalCluster, hightide_topic: str) -> Iterator[Target]:
    found = Target(hightide_cluster.bootstrap, hightide_topic)
    yield found
    found.close()


def write(target: Target, base_sequence: int, *values: bytes) -> str:
    """Have the keyed producer write one batch; what the leader says to it."""
    batch = good_batch(
        target.topic_id, 0, values, producer_id=KEYED, producer_epoch=EPOCH, base_sequence=base_sequence
    )
    return code_in(target.send_produce(batch), produce_result)


def described(client: RawClient, topic_id: bytes) -> broker_pb2.DescribeProducersPartitionResult:
    asked = broker_pb2.DescribeProducersPartition(topic_id=topic_id, partition=0, leader_epoch=-1)
    request = broker_pb2.DescribeProducersRequest(partitions=[asked], producer_ids=[KEYED, 3])
    answer = client.send(f"{BROKER}/DescribeProducers", request)
    assert answer.ok, answer
    return broker_pb2.DescribeProducersResponse.FromString(answer.body).partitions[0]


def read_from(client: RawClient, target: Target, offset: int) -> broker_pb2.FetchPartitionResult:
    """This broker's own replica, once it has anything at the offset."""
    asked = broker_pb2.FetchPartition(topic_id=target.topic_id, fetch_offset=offset, max_bytes=1 << 20)
    request = broker_pb2.FetchRequest(
        partitions=[asked], max_wait_ms=30_000, min_bytes=1, max_bytes=1 << 20, from_follower=True
    )
    return fetch_result(client.send(f"{BROKER}/Fetch", request))


def test_a_new_leader_remembers_a_producer_as_the_old_one_did(
    hightide_cluster: LocalCluster, target: Target
) -> None:
    first_offset = target.next_offset
    assert write(target, 0, b"a", b"b") == "OK"
    assert write(target, 2, b"c") == "OK"
    assert write(target, 2, b"c") == "OK", "repeated"
    assert write(target, 2, b"other") == "SEQUENCE_CONFLICT"
    assert write(target, 1, b"b", b"c", b"d") == "SEQUENCE_CONFLICT"
    before = described(target.leader, target.topic_id)
    (producer,) = before.producers
    assert producer == broker_pb2.ProducerDescription(
        producer_id=KEYED, producer_epoch=EPOCH, first_sequence=0, first_offset=first_offset, next_sequence=3,
        end_offset=first_offset + 3,
    )  # fmt: skip
    leader_id = lead_elsewhere(hightide_cluster, target)
    with RawClient(target.address_of(leader_id)) as new_leader:
        wait_until("it leads", lambda: not described(new_leader, target.topic_id).error_code, HEALED_S)
        assert described(new_leader, target.topic_id) == before
    told = wait_until(
        "the old leader knows", lambda: described(target.leader, target.topic_id).error_code, HEALED_S
    )
    assert told == ErrorCode.ERROR_CODE_NOT_LEADER


def lead_elsewhere(cluster: LocalCluster, target: Target) -> int:
    """Have another broker lead the partition; who that is."""
    here = TopicPartition(target.topic, 0)
    others = [each for each in cluster.brokers if each != target.leader_id]
    with Admin(cluster.bootstrap) as admin:
        admin.reassign_partitions({here: [*others, target.leader_id]})
        wait_until("the new order", lambda: not admin.list_reassignments([here]).reassignments, HEALED_S)
        (election,) = admin.elect_leaders("preferred", [here])
    assert election.leader == others[0]
    return others[0]


def test_every_replica_gives_out_the_same_records(target: Target) -> None:
    offset = target.next_offset
    assert write(target, 0, b"a", b"b") == "OK"
    read = []
    for broker_id in sorted(each.id for each in target.cluster_metadata().brokers):
        with RawClient(target.address_of(broker_id)) as client:
            read.append(read_from(client, target, offset))
    assert [each.error_code for each in read] == [0, 0, 0]
    assert len({each.batches for each in read}) == 1
    assert read[0].batches == fetch_result(target.send_fetch(offset)).batches
