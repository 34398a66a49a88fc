"""A write of the core as multis of ZooKeeper."""

from __future__ import annotations

from hightide_leaders.core import writes as wr
from hightide_leaders.core.queues import send
from hightide_leaders.core.values import ChangeKind, TopicNode, TopicPartition
from hightide_leaders.znode_operations import multis_for, operations_of
from hightide_runtime.zookeeper.operations import MAX_MULTI_OPERATIONS
from unit.leaders.one_broker import ID, change

CREATE = wr.CreateTopic("tide", TopicNode(ID))
CHECK = wr.CheckTopic("tide", 0, ID)


def creation(partitions: int) -> wr.Operations:
    """The first write of a creation."""
    numbers = range(partitions)
    made = (wr.CreatePartition(TopicPartition("tide", number), (2,)) for number in numbers)
    starts = (change(ChangeKind.START_REPLICA, name=TopicPartition("tide", number)) for number in numbers)
    return (CREATE, *made, *send((2, start) for start in starts))


def test_a_write_is_one_multi_if_it_fits() -> None:
    write = creation(100)
    assert multis_for(write, (CHECK,)) == [operations_of(write)]


def test_a_write_that_is_too_large_begins_alone_and_each_part_after_it_is_fenced() -> None:
    write = creation(1_000)
    first, *others = multis_for(write, (CHECK,))
    fence = operations_of((CHECK,))
    assert first == operations_of((CREATE,))
    assert len(others) > 1
    assert all(multi[: len(fence)] == fence for multi in others)
    assert all(len(multi) <= MAX_MULTI_OPERATIONS for multi in others)
    assert [each for multi in others for each in multi[len(fence) :]] == operations_of(write[1:])


def test_a_write_of_one_operation_is_one_multi() -> None:
    assert multis_for((CREATE,), ()) == [operations_of((CREATE,))]
