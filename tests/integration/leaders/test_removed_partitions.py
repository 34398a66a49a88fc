"""Partitions that are removed and added again with the same number, in both kinds of clusters: what there was
is gone, for the disks as for the groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide.errors import (
    HightideError,
    InvalidPartitionCountError,
    ReassignmentInProgressError,
    UnknownTopicError,
)
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.coordination_znode import Coordination

pytestmark = pytest.mark.cluster

WAIT_S = 30.0
ROWS = 50


@pytest.fixture(scope="module", params=[Coordination.CONTROLLER, Coordination.LEADERS], ids=str)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("removed"), coordinators=1, coordination=request.param
    ) as started:
        yield started


def write(cluster: LocalCluster, topic: str, partition: int, values: list[bytes]) -> None:
    cluster.wait_isr(topic)
    with Producer(cluster.bootstrap, acks="all") as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
        producer.flush()


def read(cluster: LocalCluster, topic: str, partition: int) -> list[bytes | None]:
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        return [record.value for record in consumer.read_to_end()]


def partitions(admin: Admin, topic: str) -> list[int]:
    return [each.partition for each in admin.describe_topics([topic])[0].partitions]


def test_the_last_partitions_go_and_their_numbers_begin_empty(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    write(cluster, topic, 0, [b"stays"])
    write(cluster, topic, 1, [b"goes"] * ROWS)
    assert [each.partition for each in admin.remove_partitions(topic, 1, validate_only=True).partitions] == [
        0
    ]
    assert partitions(admin, topic) == [0, 1]
    assert [each.partition for each in admin.remove_partitions(topic, 1).partitions] == [0]
    assert partitions(admin, topic) == [0]
    admin.add_partitions(topic, 2)
    assert read(cluster, topic, 1) == []
    write(cluster, topic, 1, [b"new"])
    assert read(cluster, topic, 1) == [b"new"]
    assert read(cluster, topic, 0) == [b"stays"]


def test_what_cannot_be_removed_is_refused(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    for count in (0, 2, 3, -1):
        with pytest.raises(InvalidPartitionCountError, match=f"cannot be shrunk to {count}"):
            admin.remove_partitions(topic, count)
    with pytest.raises(UnknownTopicError):
        admin.remove_partitions("nowhere", 1)
    assert partitions(admin, topic) == [0, 1]


def test_a_partition_that_is_being_moved_is_removed_when_the_move_is_taken_back(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    admin.add_partitions(topic, 3, assignment=[[1, 2]])
    there = TopicPartition(topic, 2)
    cluster.pause("broker-3")
    try:
        (moved,) = admin.reassign_partitions({there: [1, 3]})
        assert moved.ok
        with pytest.raises(ReassignmentInProgressError):
            admin.remove_partitions(topic, 2)
        with pytest.raises(ReassignmentInProgressError):
            admin.remove_partitions(topic, 2, validate_only=True)
        (cancelled,) = admin.cancel_reassignments([there])
        assert cancelled.ok
        admin.remove_partitions(topic, 2)
    finally:
        cluster.resume("broker-3")
    assert partitions(admin, topic) == [0, 1]


def test_a_replica_that_was_down_meanwhile_begins_anew(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    write(cluster, topic, 1, [b"goes"] * ROWS)
    cluster.kill("broker-3")
    admin.remove_partitions(topic, 1)
    wait_until("two brokers can have new replicas", lambda: grown(admin, topic), WAIT_S)
    cluster.restart("broker-3")
    admin.reassign_partitions({TopicPartition(topic, 1): [3, 2, 1]})
    wait_until(
        "it has arrived",
        lambda: not admin.list_reassignments([TopicPartition(topic, 1)]).reassignments,
        WAIT_S,
    )
    write(cluster, topic, 1, [b"new"])
    cluster.wait_isr(topic)
    assert read(cluster, topic, 1) == [b"new"]
    for name in ("broker-1", "broker-2"):
        cluster.kill(name)
    # What 3 has is what it leads by, if it must.
    for name in ("broker-1", "broker-2"):
        cluster.restart(name)
    assert read(cluster, topic, 1) == [b"new"]


def grown(admin: Admin, topic: str) -> bool:
    """Whether a second partition is there, on the brokers that are alive."""
    try:
        admin.add_partitions(topic, 2, assignment=[[2, 1]])
    except HightideError:
        return len(partitions(admin, topic)) == 2
    return True


def test_a_group_begins_at_the_start_of_the_later_partition(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    there = TopicPartition(topic, 1)
    write(cluster, topic, 1, [b"goes"] * ROWS)
    consumed(cluster, topic, ROWS)
    assert admin.group_offsets(topic)[there].offset == ROWS
    admin.remove_partitions(topic, 1)
    admin.add_partitions(topic, 2)
    new = [b"%d" % number for number in range(ROWS + 10)]
    write(cluster, topic, 1, new)
    assert consumed(cluster, topic, len(new)) == new
    assert admin.group_offsets(topic)[there].offset == len(new)


def consumed(cluster: LocalCluster, topic: str, count: int) -> list[bytes | None]:
    """What a group reads that has the topic's name, until there are so many records; they are committed."""
    found: list[bytes | None] = []
    with Consumer(cluster.bootstrap, topics=[topic], group=topic, offset_reset="earliest") as consumer:

        def read_on() -> bool:
            found.extend(record.value for record in consumer.poll(500))
            return len(found) >= count

        wait_until(f"{count} records", read_on, WAIT_S)
        consumer.commit()
    return found
