"""The operations of the core as operations of ZooKeeper, and what was read as values of the core."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, assert_never

from hightide_runtime.znodes.cluster_znodes import TopicIdZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.leaders_znodes import (
    IsrZnode,
    LeaderZnode,
    LedTopicZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateChangeZnode,
)
from hightide_runtime.znodes.led_nodes import NO_VERSION, IsrNode, LeaderNode, TopicNode
from hightide_runtime.zookeeper.operations import (
    MAX_MULTI_BYTES,
    MAX_MULTI_OPERATIONS,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    multis_of,
)
from hightide_runtime.zookeeper.session import Znode, ZooKeeperSession

from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Write
from hightide_leaders.core.values import NO_LEADER, ChangeKind, PartitionNodes, StateChange, TopicPartition

_log = logging.getLogger(__name__)
Found = Mapping[str, Znode]
READ_TOGETHER: Final = MAX_MULTI_OPERATIONS // 5
"""The partitions of one multiRead, each with four znodes and that of its topic."""


def operations_of(operations: wr.Operations) -> list[Operation]:
    """The multi that a write of the core is."""
    return [_of(operation) for operation in operations]


def multis_for(effect: Write) -> list[list[Operation]]:
    """The multis that a write is, one after the other: one, if it is not too large."""
    everything = operations_of(effect.everything)
    size_bytes = sum(operation.size_bytes for operation in everything)
    if len(everything) <= MAX_MULTI_OPERATIONS and size_bytes <= MAX_MULTI_BYTES:
        return [everything]
    rest = multis_of(map(operations_of, effect.rest), operations_of(effect.fence))
    return [operations_of(effect.operations), *rest]


def _of(operation: wr.Operation) -> Operation:
    match operation:
        case wr.Check(path, version):
            return Check(path, version)
        case wr.Create(path, content):
            return Create(path, _encoded(content), ephemeral=isinstance(content, LeaderNode))
        case wr.Put(path, content, version):
            return SetData(path, _encoded(content), version)
        case wr.Delete(path, version):
            return Delete(path, version)
        case wr.Enqueue(broker_id, change):
            return Create(StateChangeZnode.prefix(broker_id), _change(change).encode(), sequential=True)
        case wr.Dequeue(broker_id, znode):
            return Delete(StateChangeZnode.path(broker_id, znode), wr.ANY_VERSION)
        case _:
            assert_never(operation)


def _encoded(content: wr.Content) -> bytes:
    match content:
        case IsrNode():
            return IsrZnode.encode(content)
        case LeaderNode():
            return LeaderZnode.encode(content)
        case TopicNode():
            return LedTopicZnode.encode(content)
        case str():
            return TopicIdZnode(content).encode() if content else b""
        case _:
            return ReplicasZnode(content).encode()  # RAR is written as AR is.


def _change(change: StateChange) -> StateChangeZnode:
    topic_id = bytes.fromhex(change.topic_id) if change.topic_id else bytes(16)
    return StateChangeZnode(change.kind.value, *change.name, topic_id, change.epoch, change.traceparent)


# --- what was read -------------------------------------------------------------------------------


def paths_of(name: TopicPartition) -> tuple[str, ...]:
    """The znodes that are read of a partition, beside that of its topic."""
    return (
        ReplicasZnode.path(*name),
        LeaderZnode.path(*name),
        IsrZnode.path(*name),
        ReassignedZnode.path(*name),
    )


async def read_partitions(
    session: ZooKeeperSession, names: Sequence[TopicPartition], min_insync_replicas: int
) -> dict[TopicPartition, PartitionNodes | None]:
    """These partitions, each at one moment, however many they are: where AR is read before the end of a move
    and RAR after it, a new replica seems to be assigned no more."""

    async def read(some: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionNodes | None]:
        topics = dict.fromkeys(LedTopicZnode.path(name.topic) for name in some)
        found = await session.multi_read([*topics, *(path for name in some for path in paths_of(name))])
        return {name: partition_of(name, found, min_insync_replicas) for name in some}

    pieces = (names[start : start + READ_TOGETHER] for start in range(0, len(names), READ_TOGETHER))
    partitions: dict[TopicPartition, PartitionNodes | None] = {}
    for each in await asyncio.gather(*map(read, pieces)):
        partitions |= each
    return partitions


def partition_of(name: TopicPartition, found: Found, min_insync_replicas: int) -> PartitionNodes | None:
    """A partition, of these znodes; None where it is not there. What cannot be read is said to be garbage."""
    topic = found.get(LedTopicZnode.path(name.topic))
    replicas, leader, isr, reassigned = (found.get(path) for path in paths_of(name))
    if topic is None or (replicas is None and reassigned is None):
        return None
    try:
        node = topic_of(topic.data)
        return PartitionNodes(
            node.topic_id.hex(),
            () if replicas is None else ReplicasZnode.decode(replicas.data).replicas,
            None if leader is None else leader_of(leader),
            None if isr is None else replace(IsrZnode.decode(isr.data), version=isr.version),
            None if reassigned is None else ReassignedZnode.decode(reassigned.data).replicas,
            _min_insync_replicas(node, min_insync_replicas),
            first_epoch=node.first_epoch(name.partition),
            removals=node.removals,
            is_counted=node.counts(name.partition),
            reassigned_version=NO_VERSION if reassigned is None else reassigned.version,
        )
    except ZnodeGarbage as garbage:
        _log.warning("%s-%d: %s; correct or delete the znode", *name, garbage)
        return PartitionNodes("", garbage=str(garbage))


def _min_insync_replicas(node: TopicNode, otherwise: int) -> int:
    setting = node.configs.get("min.insync.replicas", "")
    return int(setting) if setting.isascii() and setting.isdigit() and len(setting) < 10 else otherwise


def leader_of(znode: Znode) -> LeaderNode:
    """Who leads; nobody, where that cannot be read."""
    try:
        return replace(LeaderZnode.decode(znode.data), session=znode.ephemeral_owner)
    except ZnodeGarbage:
        return LeaderNode(NO_LEADER, -1, znode.ephemeral_owner)


@lru_cache(1024)
def topic_of(data: bytes) -> TopicNode:
    """The znode of a topic, which is read with each of its partitions. Raises ZnodeGarbage."""
    return LedTopicZnode.decode(data)


def change_of(znode: Znode | None) -> StateChange | None:
    """A state change of a queue; None where it cannot be read."""
    try:
        read = StateChangeZnode.decode(b"" if znode is None else znode.data)
    except ZnodeGarbage as garbage:
        _log.warning("no state change, it is removed from the queue: %s", garbage)
        return None
    kind = ChangeKind(read.kind)
    topic_id = "" if kind is ChangeKind.READ_ASSIGNMENTS else read.topic_id.hex()
    name = TopicPartition(read.topic, read.partition)
    return StateChange(kind, name, topic_id, read.leader_epoch, read.traceparent)


def numbers_in(names: Iterable[str]) -> list[int]:
    """The partitions of a topic, by the names of its children; others are no partitions."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)
