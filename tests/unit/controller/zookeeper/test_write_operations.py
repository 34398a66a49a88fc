"""Writes of the core as operations: each under the version that it builds on."""

from __future__ import annotations

import pytest
from hightide_controller.core import writes as wr
from hightide_controller.core.values.partition import LeaderAndIsr, TopicPartition
from hightide_controller.zookeeper.write_operations import operations_of
from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode, TopicZnode
from hightide_runtime.zookeeper.session import Create, Delete, Operation, SetData
from unit.controller.controller_world import topic

NAME = TopicPartition("flights", 0)
DECIDED = LeaderAndIsr(1, 3, (1, 2), controller_epoch=2, partition_epoch=6)


def versions(write: wr.Write) -> list[int]:
    """Of all that is set or deleted by a write."""
    operations: list[Operation] = operations_of(write, "", {NAME})
    return [each.version for each in operations if isinstance(each, SetData | Delete)]


@pytest.mark.parametrize(
    "write",
    [
        wr.LeaderAndIsrWrite(NAME, 5, DECIDED),
        wr.TopicWrite(topic((1, 2)), 5),
        wr.ReassignmentDone(NAME, 5),
        wr.AdditionDone(NAME, 5),
        wr.RemovalDone(NAME, 5),
        wr.DeletionDone("flights", 5),
        wr.ConfigWrite("flights", {}, 5),
        wr.ThrottleWrite(1, 5),
    ],
    ids=lambda write: type(write).__name__,
)
def test_a_write_builds_on_the_version_that_was_read(write: wr.Write) -> None:
    assert versions(write) == [5]


def test_a_first_decision_creates_its_znode_and_overwrites_none() -> None:
    (operation,) = operations_of(wr.LeaderAndIsrWrite(NAME, None, DECIDED), "", {NAME})
    assert isinstance(operation, Create)
    assert operation.path == LeaderAndIsrZnode.path(*NAME)


def test_a_topic_is_removed_under_the_version_that_was_read() -> None:
    operations = operations_of(wr.TopicRemoved(topic((1, 2)), 5), "", ())
    assert Delete(TopicZnode.path("flights"), 5) in operations
