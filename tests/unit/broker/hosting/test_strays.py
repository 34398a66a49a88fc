"""Which replicas are not this broker's any more, by what ZooKeeper holds; and what is not certain."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hightide_broker.hosting.strays import HeldReplica, StoredPartitions, StrayFinding, look_at
from hightide_runtime.znodes.cluster_znodes import TopicZnode

ME = 1
ID, OTHER_ID = bytes(range(16)), bytes(15) + b"\x07"
NO_EPOCHS: Mapping[int, int] = {}


def topic(
    *partitions: tuple[int, ...], topic_id: bytes = ID, first_epochs: Mapping[int, int] = NO_EPOCHS
) -> TopicZnode:
    return TopicZnode(topic_id, partitions, first_epochs)


def running(partition: int = 0, leader_epoch: int = 3, partition_epoch: int = 8) -> HeldReplica:
    return HeldReplica((ID, partition), "flights", leader_epoch, partition_epoch)


def stored(
    flights: TopicZnode | None, state: tuple[int, int] | None = (3, 9), partition: int = 0
) -> StoredPartitions:
    states = {} if state is None else {("flights", partition): state}
    return StoredPartitions({"flights": flights}, states)


ON_DISK = HeldReplica((ID, 0))


@pytest.mark.parametrize(
    ("held", "found", "finding"),
    [
        (running(), stored(topic((2, 1))), StrayFinding.ASSIGNED),
        (running(), StoredPartitions({}), StrayFinding.TOPIC_GONE),
        (running(), stored(topic((1, 2), topic_id=OTHER_ID)), StrayFinding.TOPIC_GONE),
        (running(1), stored(topic((1, 2))), StrayFinding.PARTITION_REMOVED),
        (running(), stored(topic((2, 3))), StrayFinding.ASSIGNED_ELSEWHERE),
        (running(), stored(topic((2, 3)), (3, 8)), StrayFinding.ASSIGNED_ELSEWHERE),
        (running(), stored(topic((2, 3)), (4, 0)), StrayFinding.ASSIGNED_ELSEWHERE),
    ],
)
def test_what_is_certain(held: HeldReplica, found: StoredPartitions, finding: StrayFinding) -> None:
    assert look_at(ME, held, found) is finding


@pytest.mark.parametrize(
    ("held", "found"),
    [
        # Read from before the decision that this broker obeys: it may have been assigned since.
        (running(), stored(topic((2, 3)), (3, 7))),
        (running(), stored(topic((2, 3)), (2, 99))),
        # A partition whose leader is being chosen just now.
        (running(), stored(topic((2, 3)), None)),
        # Garbage, and a znode that an operator wrote: it has no id until the controller gives it one.
        (running(), stored(None)),
        (running(), stored(topic((2, 3), topic_id=b""))),
        # Of what is only on disk no name is known, so that all topics must be.
        (ON_DISK, StoredPartitions({"flights": None}, is_whole=True)),
        (ON_DISK, StoredPartitions({"flights": topic((2, 3), topic_id=b"")}, is_whole=True)),
        (ON_DISK, StoredPartitions({}, is_whole=False)),
    ],
)
def test_what_is_not_certain_is_left_alone(held: HeldReplica, found: StoredPartitions) -> None:
    assert look_at(ME, held, found) is StrayFinding.UNCERTAIN
    assert not StrayFinding.UNCERTAIN.is_stray


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        (StoredPartitions({}, is_whole=True), StrayFinding.TOPIC_GONE),
        (
            StoredPartitions({"flights": topic((1, 2), topic_id=OTHER_ID)}, is_whole=True),
            StrayFinding.TOPIC_GONE,
        ),
        (StoredPartitions({"flights": topic((1, 2))}, is_whole=True), StrayFinding.ASSIGNED),
        (
            StoredPartitions({"flights": topic((2, 3))}, {("flights", 0): (0, 0)}, is_whole=True),
            StrayFinding.ASSIGNED_ELSEWHERE,
        ),
    ],
)
def test_what_is_only_on_disk_is_found_by_its_topic_id(
    found: StoredPartitions, finding: StrayFinding
) -> None:
    assert look_at(ME, ON_DISK, found) is finding


def test_a_finding_is_a_stray_only_if_the_replica_is_certainly_not_wanted() -> None:
    assert {finding for finding in StrayFinding if finding.is_stray} == {
        StrayFinding.TOPIC_GONE,
        StrayFinding.PARTITION_REMOVED,
        StrayFinding.ASSIGNED_ELSEWHERE,
    }
