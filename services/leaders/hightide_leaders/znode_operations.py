"""The operations of the core as operations of ZooKeeper, and what was read as values of the core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from hightide_runtime.znodes.cluster_znodes import BrokerIncarnationZnode, PartitionZnode, TopicIdZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.leaders_znodes import (
    IsrZnode,
    LeaderZnode,
    LedTopicZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateChangeZnode,
)
from hightide_runtime.zookeeper.operations import Check, Create, Delete, Operation, SetData, multis_of
from hightide_runtime.zookeeper.session import Znode

from hightide_leaders.core import writes as wr
from hightide_leaders.core.values import (
    NO_LEADER,
    NO_VERSION,
    Attempt,
    ChangeKind,
    IsrNode,
    LeaderNode,
    PartitionNodes,
    StateChange,
    TopicNode,
    TopicPartition,
)

Found = Mapping[str, Znode]


def operations_of(operations: wr.Operations) -> list[Operation]:
    """The multi that a write of the core is."""
    return [each for operation in operations for each in _of(operation)]


def multis_for(operations: wr.Operations, fence: wr.Operations) -> list[list[Operation]]:
    """The multis that a write is, one after the other: one, if it is not too large."""
    first, *groups = (operations_of((each,)) for each in operations)
    multis = multis_of(groups, operations_of(fence))
    whole = [*first, *(each for group in groups for each in group)]
    return [whole] if len(multis) <= 1 else [first, *multis]


def _of(operation: wr.Operation) -> Iterator[Operation]:
    match operation:
        case wr.CheckIncarnation(broker_id, incarnation):
            yield Check(BrokerIncarnationZnode.path(broker_id), incarnation)
        case wr.CheckTopicId(topic_id):
            yield _is_there(topic_id)
        case wr.CheckIsr(name, version):
            yield Check(IsrZnode.path(*name), version)
        case wr.CreateLeader(name, broker_id, epoch):
            yield Create(LeaderZnode.path(*name), LeaderZnode(broker_id, epoch).encode(), ephemeral=True)
        case wr.DeleteLeader(name):
            yield Delete(LeaderZnode.path(*name), wr.ANY_VERSION)
        case wr.CreateIsr(name, isr):
            yield Create(IsrZnode.path(*name), _encoded(isr))
        case wr.PutIsr(name, isr, version):
            yield SetData(IsrZnode.path(*name), _encoded(isr), version)
        case wr.PutReplicas(name, replicas, create):
            yield _put(ReplicasZnode.path(*name), ReplicasZnode(replicas).encode(), create)
        case wr.PutReassigned(name, replicas, create):
            yield _put(ReassignedZnode.path(*name), ReassignedZnode(replicas).encode(), create)
        case wr.DeleteReassigned(name):
            yield Delete(ReassignedZnode.path(*name), wr.ANY_VERSION)
        case wr.Enqueue(broker_id, change):
            yield Create(StateChangeZnode.prefix(broker_id), _change(change).encode(), sequential=True)
        case wr.Dequeue(broker_id, znode):
            yield Delete(StateChangeZnode.path(broker_id, znode), wr.ANY_VERSION)
        case _:
            yield from _of_topic(operation)


def _of_topic(
    operation: wr.CreateTopic
    | wr.CreatePartition
    | wr.PutTopic
    | wr.CheckTopic
    | wr.DeletePartition
    | wr.DeleteTopic,
) -> Iterator[Operation]:
    match operation:
        case wr.CreateTopic(topic, node):
            yield Create(LedTopicZnode.path(topic), _topic(node).encode())
            yield Create(ReassignedZnode.topic_path(topic), b"")
            marker = TopicIdZnode.path(bytes.fromhex(node.topic_id))
            yield Create(marker, TopicIdZnode(topic).encode())
        case wr.CreatePartition(name, replicas):
            yield Create(PartitionZnode.path(*name), b"")
            yield Create(ReassignedZnode.path(*name), ReassignedZnode(replicas).encode())
        case wr.PutTopic(topic, node, version):
            yield _is_there(node.topic_id)
            yield SetData(LedTopicZnode.path(topic), _topic(node).encode(), version)
        case wr.CheckTopic(topic, version, topic_id):
            yield _is_there(topic_id)
            yield Check(LedTopicZnode.path(topic), version)
        case wr.DeletePartition():
            yield from _deleting(operation)
        case wr.DeleteTopic(topic, version, topic_id):
            yield Delete(TopicIdZnode.path(bytes.fromhex(topic_id)), wr.ANY_VERSION)
            yield Delete(ReassignedZnode.topic_path(topic), wr.ANY_VERSION)
            yield Delete(LedTopicZnode.path(topic), version)
        case _:
            assert_never(operation)


def _is_there(topic_id: str) -> Operation:
    return Check(TopicIdZnode.path(bytes.fromhex(topic_id)), wr.ANY_VERSION)


def _deleting(operation: wr.DeletePartition) -> Iterator[Operation]:
    name = operation.name
    if operation.has_leader:
        yield Delete(LeaderZnode.path(*name), wr.ANY_VERSION)
    if operation.isr_version != NO_VERSION:
        yield Delete(IsrZnode.path(*name), operation.isr_version)
    if operation.has_replicas:
        yield Delete(ReplicasZnode.path(*name), wr.ANY_VERSION)
    if operation.has_reassigned:
        yield Delete(ReassignedZnode.path(*name), wr.ANY_VERSION)
    yield Delete(PartitionZnode.path(*name), wr.ANY_VERSION)


def _put(path: str, data: bytes, create: bool) -> Operation:
    return Create(path, data) if create else SetData(path, data, wr.ANY_VERSION)


def _encoded(isr: IsrNode) -> bytes:
    return IsrZnode(isr.epoch, isr.isr, isr.eligible, isr.recovered, isr.unclean_epoch).encode()


def _topic(node: TopicNode) -> LedTopicZnode:
    attempt = None if node.attempt is None else (node.attempt.broker_id, node.attempt.incarnation)
    return LedTopicZnode(bytes.fromhex(node.topic_id), attempt, node.partition_count, dict(node.configs))


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


def partition_of(name: TopicPartition, found: Found, min_insync_replicas: int) -> PartitionNodes | None:
    """A partition, of these znodes; None where it is not there. What cannot be read is said to be garbage."""
    topic = found.get(LedTopicZnode.path(name.topic))
    replicas, leader, isr, reassigned = (found.get(path) for path in paths_of(name))
    if topic is None or (replicas is None and reassigned is None):
        return None
    try:
        node = topic_of(topic.data)
        return PartitionNodes(
            node.topic_id,
            () if replicas is None else ReplicasZnode.decode(replicas.data).replicas,
            None if leader is None else leader_of(leader),
            None if isr is None else _isr(isr),
            None if reassigned is None else ReassignedZnode.decode(reassigned.data).replicas,
            _min_insync_replicas(node, min_insync_replicas),
        )
    except ZnodeGarbage as garbage:
        return PartitionNodes("", garbage=str(garbage))


def _min_insync_replicas(node: TopicNode, otherwise: int) -> int:
    setting = dict(node.configs).get("min.insync.replicas", "")
    return int(setting) if setting.isascii() and setting.isdigit() and len(setting) < 10 else otherwise


def leader_of(znode: Znode) -> LeaderNode:
    """Who leads; nobody, where that cannot be read."""
    try:
        content = LeaderZnode.decode(znode.data)
    except ZnodeGarbage:
        return LeaderNode(NO_LEADER, -1, znode.ephemeral_owner)
    return LeaderNode(content.broker_id, content.leader_epoch, znode.ephemeral_owner)


def _isr(znode: Znode) -> IsrNode:
    read = IsrZnode.decode(znode.data)
    return IsrNode(
        read.leader_epoch, read.isr, znode.version, read.eligible, read.recovered, read.unclean_epoch
    )


def topic_of(data: bytes) -> TopicNode:
    """The znode of a topic. Raises ZnodeGarbage."""
    read = LedTopicZnode.decode(data)
    attempt = None if read.attempt is None else Attempt(*read.attempt)
    return TopicNode(read.topic_id.hex(), attempt, read.partition_count, tuple(sorted(read.configs.items())))


def change_of(znode: Znode | None) -> StateChange | None:
    """A state change of a queue; None where it cannot be read."""
    try:
        read = StateChangeZnode.decode(b"" if znode is None else znode.data)
    except ZnodeGarbage:
        return None
    kind = ChangeKind(read.kind)
    topic_id = "" if kind is ChangeKind.READ_ASSIGNMENTS else read.topic_id.hex()
    name = TopicPartition(read.topic, read.partition)
    return StateChange(kind, name, topic_id, read.leader_epoch, read.traceparent)


def numbers_in(names: Iterable[str]) -> list[int]:
    """The partitions of a topic, by the names of its children; others are no partitions."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)
