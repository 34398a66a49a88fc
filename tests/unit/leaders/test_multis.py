"""A write of the core as multis of ZooKeeper."""

from __future__ import annotations

from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Write
from hightide_leaders.core.values import ChangeKind, TopicPartition
from hightide_leaders.znode_operations import multis_for, operations_of
from hightide_runtime.znodes.led_nodes import TopicNode
from hightide_runtime.znodes.paths import partition_path, reassigned_path
from hightide_runtime.zookeeper.operations import MAX_MULTI_OPERATIONS
from unit.leaders.one_broker import ID, KEY, change, queued_for

CREATE = wr.create_topic("tide", TopicNode(KEY))
CHECK = wr.check_topic("tide", 0, ID)


def creation(partitions: int) -> Write:
    """The first write of a creation."""
    names = [TopicPartition("tide", number) for number in range(partitions)]
    made = ((wr.Create(reassigned_path(*name), (2,)),) for name in names)
    starts = queued_for((2, change(ChangeKind.START_REPLICA, name=name)) for name in names)
    return Write(1, CREATE, (*made, *((start,) for start in starts)), CHECK)


def test_a_write_is_one_multi_if_it_fits() -> None:
    write = creation(100)
    assert multis_for(write) == [operations_of(write.everything)]


def test_of_a_write_that_is_too_large_each_part_but_the_first_is_fenced() -> None:
    write = creation(1_000)
    first, *others = multis_for(write)
    fence = operations_of(CHECK)
    assert first == operations_of(CREATE)
    assert len(others) > 1
    assert all(multi[: len(fence)] == fence for multi in others)
    assert all(len(multi) <= MAX_MULTI_OPERATIONS for multi in others)
    assert [each for multi in others for each in multi[len(fence) :]] == operations_of(
        write.everything[len(CREATE) :]
    )


def test_the_first_part_counts_where_the_rest_just_fits_with_its_fence() -> None:
    rest = MAX_MULTI_OPERATIONS - len(CHECK)
    starts = queued_for([(2, change(ChangeKind.START_REPLICA))] * rest)
    multis = multis_for(Write(1, CREATE, tuple((start,) for start in starts), CHECK))
    assert [len(multi) for multi in multis] == [len(CREATE), MAX_MULTI_OPERATIONS]


def test_a_write_without_a_rest_is_one_multi() -> None:
    assert multis_for(Write(1, CREATE)) == [operations_of(CREATE)]


def test_a_group_of_the_rest_is_in_one_multi() -> None:
    """The marker of a topic's id, which all other multis check, goes with the topic."""
    gone = wr.delete_topic("tide", 0, ID)
    removed = ((wr.Delete(partition_path(*TopicPartition("tide", number))),) for number in range(2_500))
    *others, last = multis_for(Write(1, CHECK, (*removed, gone), CHECK))
    assert operations_of(gone) == last[-len(gone) :]
    assert not any(operations_of(gone)[0] in multi for multi in others)
