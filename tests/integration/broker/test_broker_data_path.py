"""Produce and fetch as the contract says them, against real brokers (V3 discussion 7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from adversary.batches import good_batch
from adversary.control import ControlPlane
from adversary.raw_client import name_of
from adversary.target import BROKER, Target, fetch_result, offsets_result, produce_result
from hightide.batch.header import iterate
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture
def target(hightide_cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Target]:
    """Partition 0 of a topic of this test's own, three replicas, with one record in it."""
    topic = f"data-path-{abs(hash(request.node.nodeid))}"
    control = ControlPlane(hightide_cluster.bootstrap)
    control.create_topic(topic, min_insync_replicas="2")
    control.close()
    target = Target(hightide_cluster.bootstrap, topic)
    yield target
    target.close()


def test_what_was_acknowledged_by_all_is_read_back_with_its_offsets(target: Target) -> None:
    target.produce_good([b"a", b"b"])
    target.produce_good([b"c"])
    read = fetch_result(target.send_fetch(0))
    spans = [(header.base_offset, header.record_count) for _, header in iterate(read.batches)]
    assert spans == [(0, 1), (1, 2), (3, 1)]
    assert read.high_watermark == 4


def test_a_fetch_begins_with_the_batch_that_contains_its_offset(target: Target) -> None:
    target.produce_good([b"a", b"b", b"c"])
    read = fetch_result(target.send_fetch(2))
    (_, header) = next(iterate(read.batches))
    assert (header.base_offset, header.record_count) == (1, 3)


def test_acks_none_and_leader_append_as_well(target: Target) -> None:
    untold = produce_result(target.send_produce(good_batch(target.topic_id, 0), acks=broker_pb2.ACKS_NONE))
    assert (untold.error_code, untold.base_offset) == (0, -1)
    told = produce_result(target.send_produce(good_batch(target.topic_id, 0), acks=broker_pb2.ACKS_LEADER))
    assert told.base_offset == 2


def test_a_parked_fetch_is_woken_by_what_is_produced(target: Target) -> None:
    """It asks for longer than its call may take: only the record can end it in time."""
    woken: list[broker_pb2.FetchPartitionResult] = []

    def fetch() -> None:
        woken.append(fetch_result(target.send_fetch(1, max_wait_ms=30_000, timeout_s=25)))

    reader = threading.Thread(target=fetch)
    reader.start()
    target.produce_good()
    reader.join()
    (read,) = woken
    assert read.high_watermark == 2
    assert read.batches


def test_a_fetch_with_nothing_to_read_answers_empty_when_its_time_is_up(target: Target) -> None:
    read = fetch_result(target.send_fetch(1, max_wait_ms=50))
    assert (name_of(read.error_code), read.batches, read.high_watermark) == ("OK", b"", 1)


def test_offsets_are_found_by_earliest_latest_and_timestamp(target: Target) -> None:
    earliest = offsets_result(target.send_list_offsets(broker_pb2.OFFSET_SPEC_EARLIEST))
    latest = offsets_result(target.send_list_offsets(broker_pb2.OFFSET_SPEC_LATEST))
    assert (earliest.offset, latest.offset) == (0, 1)
    assert (earliest.epoch_before, latest.epoch_before) == (-1, latest.leader_epoch)

    def by_timestamp(timestamp_us: int) -> int:
        asked = broker_pb2.ListOffsetsPartition(
            topic_id=target.topic_id, leader_epoch=-1, spec=broker_pb2.OFFSET_SPEC_TIMESTAMP,
            timestamp_us=timestamp_us,
        )  # fmt: skip
        request = broker_pb2.ListOffsetsRequest(partitions=[asked])
        return offsets_result(target.leader.send(f"{BROKER}/ListOffsets", request)).offset

    assert by_timestamp(0) == 0
    assert by_timestamp(1 << 60) == -1


def test_a_batch_sent_again_is_answered_with_its_first_offset_whatever_came_after(target: Target) -> None:
    def numbered(sequence: int) -> bytes:
        return good_batch(target.topic_id, 0, [b"x"], producer_id=9, producer_epoch=0, base_sequence=sequence)

    offsets = [produce_result(target.send_produce(numbered(n))).base_offset for n in (0, 1, 2, 1, 0, 2)]
    assert offsets == [1, 2, 3, 2, 1, 3]


def test_plain_records_come_back_as_they_went_in(target: Target) -> None:
    sent = [
        broker_pb2.PlainRecord(key=b"k", value=b"v", timestamp_us=1_000_000),
        broker_pb2.PlainRecord(
            key=b"", headers=[broker_pb2.RecordHeader(key="h", value=b"1")], timestamp_us=2
        ),
    ]
    request = broker_pb2.ProduceRecordsRequest(topic=target.topic, partition=0, records=sent)
    produced = target.leader.send(f"{BROKER}/ProduceRecords", request)
    assert produced.ok, produced
    offset = broker_pb2.ProduceRecordsResponse.FromString(produced.body).base_offset
    fetch = broker_pb2.FetchRecordsRequest(topic=target.topic, partition=0, offset=offset)
    answer = broker_pb2.FetchRecordsResponse.FromString(
        target.leader.send(f"{BROKER}/FetchRecords", fetch).body
    )
    assert answer.next_offset == offset + 2
    for place, record in enumerate(answer.records):
        assert record.offset == offset + place
        record.offset = 0
    assert list(answer.records) == sent


def test_plain_records_without_a_timestamp_get_the_brokers_clock(target: Target) -> None:
    request = broker_pb2.ProduceRecordsRequest(
        topic=target.topic, partition=0, records=[broker_pb2.PlainRecord(value=b"v")]
    )
    assert target.leader.send(f"{BROKER}/ProduceRecords", request).ok
    fetch = broker_pb2.FetchRecordsRequest(topic=target.topic, partition=0, offset=1)
    answer = broker_pb2.FetchRecordsResponse.FromString(
        target.leader.send(f"{BROKER}/FetchRecords", fetch).body
    )
    assert abs(answer.records[0].timestamp_us - time.time() * 1e6) < 60e6


def test_producer_ids_of_different_brokers_differ(hightide_cluster: LocalCluster, target: Target) -> None:
    ids = []
    for broker_id in hightide_cluster.brokers:
        with_broker = Target.beside_others(target.address_of(broker_id), target.topic)
        for _ in range(3):
            answer = with_broker.leader.send(f"{BROKER}/InitProducerId", b"")
            ids.append(broker_pb2.InitProducerIdResponse.FromString(answer.body).producer_id)
        with_broker.close()
    assert len(set(ids)) == len(ids)


def test_with_fsync_an_acknowledgement_waits_for_every_disk(hightide_cluster: LocalCluster) -> None:
    control = ControlPlane(hightide_cluster.bootstrap)
    control.create_topic("data-path-fsync", flush="fsync", min_insync_replicas="3")
    control.close()
    target = Target(hightide_cluster.bootstrap, "data-path-fsync")
    for _ in range(20):
        target.produce_good([b"x" * 1000] * 10)
    target.assert_unharmed()
    target.close()


def test_every_broker_learns_who_leads(hightide_cluster: LocalCluster, target: Target) -> None:
    def told_by_all() -> bool:
        told = [
            Target.beside_others(address, target.topic).metadata.partitions[0].leader
            for address in hightide_cluster.brokers.values()
        ]
        return set(told) == {target.leader_id}

    wait_until("the same leader everywhere", told_by_all, 30)
