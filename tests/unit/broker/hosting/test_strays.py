"""Which replicas are not this broker's any more, by what ZooKeeper holds; and what is not certain."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hightide_broker.hosting.strays import Finding, Held, Stored, look_at
from hightide_runtime.znodes.cluster_znodes import TopicZnode

ME = 1
ID, OTHER_ID = bytes(range(16)), bytes(15) + b"\x07"
NO_EPOCHS: Mapping[int, int] = {}


def topic(
    *partitions: tuple[int, ...], topic_id: bytes = ID, first_epochs: Mapping[int, int] = NO_EPOCHS
) -> TopicZnode:
    return TopicZnode(topic_id, partitions, first_epochs)


def running(partition: int = 0, leader_epoch: int = 3, partition_epoch: int = 8) -> Held:
    return Held((ID, partition), "flights", leader_epoch, partition_epoch)


def stored(flights: TopicZnode | None, state: tuple[int, int] | None = (3, 9), partition: int = 0) -> Stored:
    states = {} if state is None else {("flights", partition): state}
    return Stored({"flights": flights}, states)


ON_DISK = Held((ID, 0))


@pytest.mark.parametrize(
    ("held", "found", "finding"),
    [
        (running(), stored(topic((2, 1))), Finding.ASSIGNED),
        (running(), Stored({}), Finding.TOPIC_GONE),
        (running(), stored(topic((1, 2), topic_id=OTHER_ID)), Finding.TOPIC_GONE),
        (running(1), stored(topic((1, 2))), Finding.PARTITION_REMOVED),
        (running(), stored(topic((2, 3))), Finding.ASSIGNED_ELSEWHERE),
        (running(), stored(topic((2, 3)), (3, 8)), Finding.ASSIGNED_ELSEWHERE),
        (running(), stored(topic((2, 3)), (4, 0)), Finding.ASSIGNED_ELSEWHERE),
    ],
)
def test_what_is_certain(held: Held, found: Stored, finding: Finding) -> None:
    assert look_at(ME, held, found) is finding


@pytest.mark.parametrize(
    ("held", "found"),
    [
        # Read from before the decision that this broker obeys: it may have been assigned since.
        (running(), stored(topic((2, 3)), (3, 7))),
        (running(), stored(topic((2, 3)), (2, 99))),
        # A partition whose leader is being chosen just now.
        (running(), stored(topic((2, 3)), None)),
        # Garbage, and a znode that a hand wrote: it has no id until the controller gives it one.
        (running(), stored(None)),
        (running(), stored(topic((2, 3), topic_id=b""))),
        # Of what is only on disk no name is known, so that all topics must be.
        (ON_DISK, Stored({"flights": None}, is_whole=True)),
        (ON_DISK, Stored({"flights": topic((2, 3), topic_id=b"")}, is_whole=True)),
        (ON_DISK, Stored({}, is_whole=False)),
    ],
)
def test_what_is_not_certain_is_left_alone(held: Held, found: Stored) -> None:
    assert look_at(ME, held, found) is Finding.UNCERTAIN
    assert not Finding.UNCERTAIN.is_stray


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        (Stored({}, is_whole=True), Finding.TOPIC_GONE),
        (Stored({"flights": topic((1, 2), topic_id=OTHER_ID)}, is_whole=True), Finding.TOPIC_GONE),
        (Stored({"flights": topic((1, 2))}, is_whole=True), Finding.ASSIGNED),
        (
            Stored({"flights": topic((2, 3))}, {("flights", 0): (0, 0)}, is_whole=True),
            Finding.ASSIGNED_ELSEWHERE,
        ),
    ],
)
def test_what_is_only_on_disk_is_found_by_its_topic_id(found: Stored, finding: Finding) -> None:
    assert look_at(ME, ON_DISK, found) is finding


def test_a_finding_is_a_stray_only_if_the_replica_is_certainly_not_wanted() -> None:
    assert {finding for finding in Finding if finding.is_stray} == {
        Finding.TOPIC_GONE,
        Finding.PARTITION_REMOVED,
        Finding.ASSIGNED_ELSEWHERE,
    }
