"""Operators delete records and committed offsets, ask for room on disks and drain brokers, on real
processes; and what they may get wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from adversary.raw_client import RawClient, name_of
from hightide import Admin, Consumer, Producer, Record, TopicPartition
from hightide.aio import Admin as AioAdmin
from hightide.errors import GroupNotEmptyError, OffsetOutOfRangeError, UnknownBrokerError
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import coordinator_service_pb2 as coordinator_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

RECORDS = 60
PATIENCE_S = 60.0
DELETE_RECORDS = "/hightide.v1.BrokerService/DeleteRecords"
DELETE_OFFSETS = "/hightide.v1.CoordinatorService/DeleteOffsets"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("deletions"),
        brokers=3,
        coordinators=1,
        session_timeout_ms=6_000,
    ) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as asking:
        yield asking


def filled(cluster: LocalCluster, admin: Admin, topic: str) -> TopicPartition:
    """Broker 1 leads; each record is a batch of its own, but for the last twenty, which are one."""
    admin.create_topic(topic, assignment=[[1, 2, 3]])
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        for number in range(RECORDS - 20):
            producer.send(topic, b"%d" % number, partition=0).result(PATIENCE_S)
    with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        for number in range(RECORDS - 20, RECORDS):
            producer.send(topic, b"%d" % number, partition=0)
    return TopicPartition(topic, 0)


def wait_for_starts(admin: Admin, topic: str, *wanted: int) -> None:
    """Wait until the replicas begin there, by broker."""

    def starts() -> tuple[int, ...]:
        return tuple(each.log_start_offset for each in admin.describe_replicas([topic]).replicas)

    wait_until(
        f"the replicas of {topic} begin at {wanted}", starts, PATIENCE_S, lambda found: found == wanted
    )


def read_from_the_beginning(cluster: LocalCluster, place: TopicPartition) -> list[tuple[int, bytes | None]]:
    with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([place])
        found: list[tuple[int, bytes | None]] = []
        while not found or found[-1][0] < RECORDS - 1:
            found += [(each.offset, each.value) for each in consumer.poll(1.0)]
        return found


def test_deleted_records_stay_deleted_on_all_replicas_whoever_dies(
    cluster: LocalCluster, admin: Admin
) -> None:
    place = filled(cluster, admin, "trimmed")
    assert admin.delete_records({place: 50}, validate_only=True) == {place: 50}
    assert admin.list_offsets([place], "earliest") == {place: 0}

    # 50 lies inside the batch of the last twenty.
    assert admin.delete_records({place: 50}) == {place: 50}
    assert admin.list_offsets([place], "earliest") == {place: 50}
    wanted = [(number, b"%d" % number) for number in range(50, RECORDS)]
    assert read_from_the_beginning(cluster, place) == wanted
    wait_for_starts(admin, "trimmed", 50, 50, 50)

    cluster.kill("broker-1")
    assert cluster.leader_of("trimmed") != "broker-1"
    assert admin.list_offsets([place], "earliest") == {place: 50}
    assert read_from_the_beginning(cluster, place) == wanted
    cluster.restart("broker-1")
    for name in ("broker-2", "broker-3"):
        cluster.kill(name)
        cluster.restart(name)
    cluster.wait_isr("trimmed", 3)
    wait_for_starts(admin, "trimmed", 50, 50, 50)
    assert read_from_the_beginning(cluster, place) == wanted
    assert admin.delete_records({place: 10}) == {place: 50}, "a start never falls"


def test_a_replica_that_begins_inside_a_batch_is_as_good_as_the_others(
    cluster: LocalCluster, admin: Admin
) -> None:
    """A broker that was away while all it had was deleted, and new brokers too, begin in the middle."""
    admin.create_topic("halves", assignment=[[1, 2]])
    place = TopicPartition("halves", 0)
    cluster.kill("broker-2")
    wait_until(
        "1 is alone", lambda: admin.describe_topics(["halves"])[0].partitions[0].isr == (1,), PATIENCE_S
    )
    with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        for number in range(RECORDS):
            producer.send("halves", b"%d" % number, partition=0)
    assert admin.delete_records({place: 33}) == {place: 33}
    cluster.restart("broker-2")
    cluster.wait_isr("halves", 2)
    wait_for_starts(admin, "halves", 33, 33)
    cluster.kill("broker-1")
    assert cluster.leader_of("halves") == "broker-2"
    wanted = [(number, b"%d" % number) for number in range(33, RECORDS)]
    assert read_from_the_beginning(cluster, place) == wanted
    cluster.restart("broker-1")
    cluster.wait_isr("halves", 2)


def test_all_that_is_committed_may_go_and_a_consumer_that_stood_there_is_reset_as_it_asked(
    cluster: LocalCluster, admin: Admin
) -> None:
    place = filled(cluster, admin, "emptied")
    with Consumer(cluster.bootstrap, offset_reset="error") as strict:
        strict.assign([place])
        strict.pause(place)  # Or it would have read ahead, and have all that it was to find gone.
        strict.seek(place, 3)
        assert admin.delete_records({place: -1}) == {place: RECORDS}
        strict.resume(place)
        with pytest.raises(OffsetOutOfRangeError, match=f"log start {RECORDS}"):
            strict.poll(PATIENCE_S)
    with Consumer(cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([place])
        consumer.seek(place, 3)
        assert consumer.poll(1.0) == []
        with Producer(cluster.bootstrap) as producer:
            assert producer.send("emptied", b"next", partition=0).result(PATIENCE_S).offset == RECORDS
        records: Sequence[Record] = []
        while not records:
            records = consumer.poll(1.0)
        assert [(each.offset, each.value) for each in records] == [(RECORDS, b"next")]
    wait_for_starts(admin, "emptied", RECORDS, RECORDS, RECORDS)

    def is_freed() -> bool:
        sizes = [each.size_bytes for each in admin.describe_replicas(["emptied"]).replicas]
        return all(size < 1_000 for size in sizes)

    wait_until("the segments are gone", is_freed, PATIENCE_S)


def test_each_partition_has_its_own_outcome(cluster: LocalCluster, admin: Admin) -> None:
    admin.create_topic("outcomes", assignment=[[1], [2]])
    first, second = TopicPartition("outcomes", 0), TopicPartition("outcomes", 1)
    with Producer(cluster.bootstrap) as producer:
        for _ in range(5):
            producer.send("outcomes", b"x", partition=0)
        producer.send("outcomes", b"x", partition=1)
    found = admin.delete_records({first: 4, second: 2})
    assert found[first] == 4
    refused = found[second]
    assert isinstance(refused, OffsetOutOfRangeError)
    assert "outcomes-1: offset 2 is above the high watermark 1" in str(refused)

    async def aio() -> dict[TopicPartition, Any]:
        async with AioAdmin(cluster.bootstrap) as asking:
            return await asking.delete_records({first: -1})

    assert asyncio.run(aio()) == {first: 5}


@pytest.fixture(scope="module")
def mistaken(cluster: LocalCluster) -> tuple[str, bytes]:
    """The leader and the topic id of a partition with 3 records that requests may get wrong."""
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        topic = admin.create_topic("mistaken", assignment=[[1]])
        for _ in range(3):
            producer.send("mistaken", b"x", partition=0)
    return cluster.address_of("broker-1"), topic.topic_id


BAD_PARTITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no such topic": ({"topic_id": b"\x09" * 16}, "UNKNOWN_TOPIC"),
    "no topic id": ({"topic_id": b""}, "UNKNOWN_TOPIC"),
    "no such partition": ({"partition": 5}, "UNKNOWN_PARTITION"),
    "a negative partition": ({"partition": -1}, "UNKNOWN_PARTITION"),
    "above the high watermark": ({"before_offset": 4}, "OFFSET_OUT_OF_RANGE"),
    "the end of all offsets": ({"before_offset": 2**63 - 1}, "OFFSET_OUT_OF_RANGE"),
    "less than all": ({"before_offset": -2}, "INVALID_REQUEST"),
    "the least number": ({"before_offset": -(2**63)}, "INVALID_REQUEST"),
}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("name", BAD_PARTITIONS)
def test_a_deletion_that_cannot_be_is_refused_for_its_partition(
    mistaken: tuple[str, bytes], name: str, validate_only: bool
) -> None:
    address, topic_id = mistaken
    fields, expected = BAD_PARTITIONS[name]
    request = broker_pb2.DeleteRecordsRequest(validate_only=validate_only)
    request.partitions.add(**({"topic_id": topic_id, "partition": 0, "before_offset": 1} | fields))
    with RawClient(address) as client:
        answer = client.send(DELETE_RECORDS, request)
    assert answer.ok, answer
    (outcome,) = broker_pb2.DeleteRecordsResponse.FromString(answer.body).outcomes
    assert name_of(outcome.error_code) == expected
    assert outcome.error_message


def test_a_deletion_that_is_too_large_or_names_a_partition_twice_is_refused_as_a_whole(
    mistaken: tuple[str, bytes], admin: Admin
) -> None:
    address, topic_id = mistaken

    def asked(*partitions: int) -> tuple[bool, str]:
        request = broker_pb2.DeleteRecordsRequest()
        for partition in partitions:
            request.partitions.add(topic_id=topic_id, partition=partition, before_offset=1)
        with RawClient(address) as client:
            answer = client.send(DELETE_RECORDS, request)
        return answer.ok or answer.is_typed_error, answer.reason

    assert asked(0, 0) == (True, "INVALID_REQUEST")
    assert asked(*range(1_001)) == (True, "LIMIT_EXCEEDED")
    assert asked() == (True, "")
    assert admin.list_offsets([TopicPartition("mistaken", 0)], "earliest") == {
        TopicPartition("mistaken", 0): 0
    }


# -- committed offsets ---------------------------------------------------------------------------------------


def test_a_group_forgets_topics_that_it_does_not_read_any_more(cluster: LocalCluster, admin: Admin) -> None:
    for topic in ("read", "left"):
        admin.create_topic(topic, partitions=2, replication_factor=1)
    places = [TopicPartition(topic, number) for topic in ("read", "left") for number in (0, 1)]
    admin.commit_group_offsets("forgetful", dict.fromkeys(places, 0))
    with Consumer(cluster.bootstrap, group="forgetful", topics=["read"]) as consumer:
        wait_until(
            "it owns its partitions", lambda: bool(consumer.poll(0.1) or consumer.assignment), PATIENCE_S
        )
        with pytest.raises(GroupNotEmptyError, match="read read; stop them"):
            admin.delete_group_offsets("forgetful", ["left", "read"])
        assert admin.delete_group_offsets("forgetful", ["left"], validate_only=True) == 2
        assert admin.delete_group_offsets("forgetful", ["left"]) == 2
    assert {each.topic for each in admin.group_offsets("forgetful")} == {"read"}
    cluster.kill("coordinator-1")
    cluster.restart("coordinator-1")
    assert {each.topic for each in admin.group_offsets("forgetful")} == {"read"}, "it was durable"
    assert admin.delete_group_offsets("forgetful", ["read"]) == 2
    assert admin.group_offsets("forgetful") == {}


BAD_GROUPS: dict[str, tuple[dict[str, Any], str]] = {
    "no group": ({"group": ""}, "INVALID_GROUP_NAME"),
    "a group that cannot be": ({"group": "a/b"}, "INVALID_GROUP_NAME"),
    "a group that nobody knows": ({"group": "nobody"}, "UNKNOWN_GROUP"),
    "no topics": ({"topics": []}, "INVALID_REQUEST"),
    "a topic twice": ({"topics": ["x", "x"]}, "INVALID_REQUEST"),
    "a topic that cannot be": ({"topics": ["../x"]}, "INVALID_TOPIC_NAME"),
    "1,001 topics": ({"topics": [f"t{at}" for at in range(1_001)]}, "LIMIT_EXCEEDED"),
}


@pytest.fixture(scope="module")
def keeper(cluster: LocalCluster) -> TopicPartition:
    """The group of this name has committed an offset of it."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("kept", assignment=[[1]])
        admin.commit_group_offsets("keeper", {TopicPartition("kept", 0): 0})
    return TopicPartition("kept", 0)


@pytest.mark.parametrize("name", BAD_GROUPS)
def test_offsets_that_cannot_be_forgotten(
    cluster: LocalCluster, admin: Admin, keeper: TopicPartition, name: str
) -> None:
    fields, expected = BAD_GROUPS[name]
    request = coordinator_pb2.DeleteOffsetsRequest(**({"group": "keeper", "topics": ["kept"]} | fields))
    with RawClient(cluster.address_of("coordinator-1")) as client:
        answer = client.send(DELETE_OFFSETS, request)
    assert (answer.is_typed_error, answer.reason) == (True, expected), answer
    assert list(admin.group_offsets("keeper")) == [keeper]


# -- brokers -------------------------------------------------------------------------------------------------


def test_the_room_on_every_brokers_disks_is_told(cluster: LocalCluster, admin: Admin) -> None:
    listed = admin.describe_log_directories()
    assert [each.broker_id for each in listed] == [1, 2, 3]
    for each in listed:
        assert Path(each.path) == cluster.data_directory(each.broker_id)
        assert 0 < each.free_bytes < each.total_bytes
        assert not each.failed
        assert each.error is None


def test_a_drained_broker_leads_only_what_nobody_else_has(cluster: LocalCluster, admin: Admin) -> None:
    admin.create_topic("drained", assignment=[[3, 1], [3, 2], [1, 3]])
    # Nobody takes over who is not in sync.
    for each in admin.describe_topics():
        cluster.wait_isr(each.name)
    alone = [
        each
        for topic in admin.describe_topics()
        for each in topic.partitions
        if each.replicas == (3,) and each.leader == 3
    ]
    with Admin(cluster.bootstrap, timeout_ms=6_000) as impatient:
        assert impatient.drain_broker(3) == len(alone)
    described = admin.describe_topics(["drained"])[0]
    assert [each.leader for each in described.partitions] == [1, 2, 1]
    with pytest.raises(UnknownBrokerError, match="alive are: 1, 2, 3"):
        admin.drain_broker(9)
    cluster.terminate("broker-3")
    cluster.restart("broker-3")
    cluster.wait_isr("drained", 2)


def test_every_process_tells_who_it_is(cluster: LocalCluster, admin: Admin) -> None:
    for name in ("broker-2", "controller-1", "coordinator-1"):
        address = cluster.address_of(name)
        asked_s = time.monotonic()
        told = admin.describe_server(address)
        took_ms = (time.monotonic() - asked_s) * 1_000
        assert f"{told.service}-{told.instance}" == name
        assert told.advertised == address
        assert 0 < told.started_at_ms <= told.clock_ms
        assert 0 < told.round_trip_ms <= took_ms
