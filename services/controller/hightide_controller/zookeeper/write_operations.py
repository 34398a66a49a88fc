"""Writes of the core as ZooKeeper operations: each becomes a few, in order, and none is left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from hightide_runtime.znodes.admin_znodes import (
    DeleteTopicZnode,
    PartitionAddZnode,
    PartitionRemoveZnode,
    ReassignmentThrottleZnode,
    ReassignmentZnode,
)
from hightide_runtime.znodes.cluster_znodes import (
    LeaderAndIsrZnode,
    PartitionZnode,
    TopicConfigZnode,
    TopicIdZnode,
    TopicZnode,
)
from hightide_runtime.zookeeper.session import Create, Delete, Operation, SetData

from hightide_controller.core.events import Topic
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.writes import (
    AdditionDone,
    ConfigWrite,
    DeletionAdopted,
    DeletionDone,
    LeaderAndIsrWrite,
    MarkerCreated,
    MarkerRaised,
    MarkerRemoved,
    PartitionRemoved,
    ReassignmentDone,
    ReassignmentWrite,
    RemovalDone,
    ThrottleWrite,
    TopicRemoved,
    TopicWrite,
    Write,
)

__all__ = ["change_operations", "operations_of", "topic_znode"]


def change_operations(
    change: LeaderAndIsrWrite, traceparent: str, standing_parents: Collection[TopicPartition]
) -> list[Operation]:
    """The operations of one leaderAndISR write. `standing_parents`: partitions without one whose parent
    exists."""
    decided = change.decided
    path = LeaderAndIsrZnode.path(*change.name)
    data = LeaderAndIsrZnode(
        decided.leader,
        decided.leader_epoch,
        decided.isr,
        decided.controller_epoch,
        traceparent,
        decided.eligible,
        decided.recovered,
        decided.unclean_epoch,
    ).encode()
    if change.expected_partition_epoch is not None:
        return [SetData(path, data, change.expected_partition_epoch)]
    if change.name in standing_parents:
        return [Create(path, data)]
    return [Create(PartitionZnode.path(*change.name), PartitionZnode.encode()), Create(path, data)]


def operations_of(
    write: Write, traceparent: str, standing_parents: Collection[TopicPartition]
) -> list[Operation]:
    """The operations of one write."""
    match write:
        case LeaderAndIsrWrite():
            return change_operations(write, traceparent, standing_parents)
        case TopicWrite(topic=topic, expected_version=version):
            return [SetData(TopicZnode.path(topic.name), topic_znode(topic).encode(), version)]
        case TopicRemoved():
            return _topic_removed(write)
        case MarkerCreated(topic_name=name, topic_id=topic_id):
            return [Create(TopicIdZnode.path(bytes.fromhex(topic_id)), TopicIdZnode(name).encode())]
        case MarkerRaised(topic_name=name, topic_id=topic_id):
            # Any version: it only ever grows, under the check of /controller_epoch.
            return [SetData(TopicIdZnode.path(bytes.fromhex(topic_id)), TopicIdZnode(name).encode(), -1)]
        case MarkerRemoved(topic_id=topic_id):
            return [Delete(TopicIdZnode.path(bytes.fromhex(topic_id)), -1)]
        case ConfigWrite(topic_name=name, configs=configs, expected_version=expected):
            return _put(TopicConfigZnode.path(name), TopicConfigZnode(configs).encode(), expected)
        case PartitionRemoved():
            return _partition_removed(write, standing_parents)
        case ReassignmentWrite(name=(topic, partition), target=target, original=original):
            path = ReassignmentZnode.path(topic, partition)
            data = ReassignmentZnode(target, original, write.traceparent).encode()
            return _put(path, data, write.expected_version)
        case ReassignmentDone(name=(topic, partition), expected_version=version):
            return [Delete(ReassignmentZnode.path(topic, partition), version)]
        case AdditionDone(name=(topic, partition), expected_version=version):
            return [Delete(PartitionAddZnode.path(topic, partition), version)]
        case RemovalDone(name=(topic, partition), expected_version=version):
            return [Delete(PartitionRemoveZnode.path(topic, partition), version)]
        case DeletionAdopted(topic_name=name, topic_id=topic_id, expected_version=expected):
            return _put(
                DeleteTopicZnode.path(name), DeleteTopicZnode(bytes.fromhex(topic_id)).encode(), expected
            )
        case DeletionDone(topic_name=name, expected_version=version):
            return [Delete(DeleteTopicZnode.path(name), version)]
        case ThrottleWrite(throttle_bytes_per_s=rate, expected_version=expected):
            return _put(ReassignmentThrottleZnode.path(), ReassignmentThrottleZnode(rate).encode(), expected)
        case _:
            assert_never(write)


def topic_znode(topic: Topic) -> TopicZnode:
    """The content of a topic's znode."""
    return TopicZnode(bytes.fromhex(topic.topic_id), topic.assignment, topic.first_leader_epochs)


def _put(path: str, data: bytes, expected_version: int | None) -> list[Operation]:
    return [Create(path, data) if expected_version is None else SetData(path, data, expected_version)]


def _topic_removed(write: TopicRemoved) -> list[Operation]:
    topic = write.topic
    operations: list[Operation] = []
    if topic.has_marker:
        operations.append(Delete(TopicIdZnode.path(bytes.fromhex(topic.topic_id)), -1))
    if topic.config_version is not None:
        operations.append(Delete(TopicConfigZnode.path(topic.name), topic.config_version))
    operations.append(Delete(TopicZnode.path(topic.name), write.expected_version))
    return operations


def _partition_removed(
    write: PartitionRemoved, standing_parents: Collection[TopicPartition]
) -> list[Operation]:
    parent = Delete(PartitionZnode.path(*write.name), -1)
    if write.expected_partition_epoch is None:
        return [parent] if write.name in standing_parents else []
    return [Delete(LeaderAndIsrZnode.path(*write.name), write.expected_partition_epoch), parent]
