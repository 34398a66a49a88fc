"""ZooKeeper of a cluster that leaders coordinate: V2's paths, and the operations of its core on them.

Rules of this file: what is stored is what the core reads, not bytes; the encoding has unit tests of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from hightide_leaders.core import writes as wr
from hightide_leaders.core.values import (
    IsrNode,
    LeaderNode,
    Lives,
    PartitionNodes,
    QueuedChange,
    StateChange,
    TopicNode,
    TopicNodes,
    TopicPartition,
)
from hightide_runtime.znodes.leaders_znodes import (
    IsrZnode,
    LeaderZnode,
    LedTopicZnode,
    ReassignedZnode,
    ReplicasZnode,
    StateChangeZnode,
    StateQueueZnode,
)
from sim.zookeeper import (
    Check,
    Create,
    Delete,
    Operation,
    Put,
    StateWrite,
    Stored,
    ZooKeeper,
)

NAME = TopicPartition("tide", 0)
"""The partition that holds records."""
ISR = IsrZnode.path(*NAME)
NAMES = (NAME, TopicPartition("tide", 1))
"""With one that a topic may grow by: it is led, and holds nothing."""


class LeadersZooKeeper(ZooKeeper):
    """The store. It tells the checkers of the one partition as a store of leaderAndISR does."""

    min_insync_replicas = 1
    _next_change = 0

    def __init__(self, notify: Callable[[int, str], None]) -> None:
        self._followers: set[int] = set()
        """Who watches the tree of topics."""
        super().__init__(notify)

    # --- what the checkers see -------------------------------------------------------------------

    def state(self) -> tuple[Stored, int, int] | None:
        """Leader and ISR as one; None as long as the partition never had a leader."""
        node = self.nodes.get(IsrZnode.path(*NAME))
        if node is None:
            return None
        isr, leader = node.data, self.leader_of(NAME)
        assert isinstance(isr, IsrNode)
        who = -1 if leader is None else leader.broker_id
        recovered = tuple(tuple(log) for log in isr.recovered)
        stored = Stored(who, isr.epoch, isr.isr, 0, isr.eligible, recovered, isr.unclean_epoch)  # type: ignore[arg-type]
        return stored, node.version, node.mzxid

    def multi(self, operations: tuple[Operation, ...], writer: int) -> Operation | None:
        """As ever, and what the partition became by it is one change."""
        before = self.state()
        refused = super().multi(operations, writer)
        after = self.state()
        if after is not None and (before is None or before[:2] != after[:2]):
            self.state_writes.append(
                StateWrite(writer, None if before is None else before[0], after[0], after[1], 0)
            )
        return refused

    def forget_watches(self, node: int) -> None:
        """The session of a node is over, and its watches with it."""
        self._followers.discard(node)
        for watchers in self._watches.values():
            if node in watchers:
                watchers.remove(node)

    def _fire(self, path: str) -> None:
        super()._fire(path)
        if path == ISR:
            for node in sorted(self._followers):
                self._notify(node, path)
        parent, _, name = path.rpartition("/")
        if name.startswith("change-"):
            super()._fire(parent)

    # --- what brokers write ----------------------------------------------------------------------

    def write(self, operations: wr.Operations, session: int, writer: int) -> Operation | None:
        """A multi of the core's operations; None where it committed, else what could not be done."""
        return self.multi(tuple(each for one in operations for each in self._of(one, session)), writer)

    def _of(self, operation: wr.Operation, session: int) -> Iterator[Operation]:
        match operation:
            case wr.Check(path, version):
                yield Check(path, version)
            case wr.Create(path, LeaderNode() as content):
                yield Create(path, replace(content, session=session), session)
            case wr.Create(path, content):
                yield Create(path, content)
            case wr.Put(path, content, version):
                yield Put(path, content, version)
            case wr.Delete(path, version):
                if version != wr.ANY_VERSION:
                    yield Check(path, version)
                yield Delete(path)
            case wr.Enqueue(broker_id, change):
                self._next_change += 1
                yield Create(f"{StateChangeZnode.prefix(broker_id)}{self._next_change:010}", change)
            case wr.Dequeue(broker_id, znode):
                yield Delete(StateChangeZnode.path(broker_id, znode))
            case _:
                assert_never(operation)

    # --- what brokers read -----------------------------------------------------------------------

    def lives(self) -> Lives:
        """The registered brokers, each with its incarnation."""
        incarnations = dict(self.incarnations())
        return Lives(tuple((broker_id, incarnations[broker_id]) for broker_id, _ in self.brokers()))

    def leader_of(self, name: TopicPartition) -> LeaderNode | None:
        """The leader znode."""
        found = self.nodes.get(LeaderZnode.path(*name))
        if found is None:
            return None
        assert isinstance(found.data, LeaderNode)
        return found.data

    def replicas_of(self, path: str) -> tuple[int, ...] | None:
        """AR or RAR."""
        found = self.nodes.get(path)
        if found is None:
            return None
        assert isinstance(found.data, tuple)
        return found.data

    def partition(self, name: TopicPartition) -> PartitionNodes | None:
        """All about a partition; None where there is none."""
        topic = self.topic_znode(name.topic)
        replicas = self.replicas_of(ReplicasZnode.path(*name))
        reassigned = self.replicas_of(ReassignedZnode.path(*name))
        if topic is None or (replicas is None and reassigned is None):
            return None
        node = self.nodes.get(IsrZnode.path(*name))
        isr = None
        if node is not None:
            assert isinstance(node.data, IsrNode)
            isr = replace(node.data, version=node.version)
        leader = self.leader_of(name)
        return PartitionNodes(
            topic[0].topic_id, replicas or (), leader, isr, reassigned, self.min_insync_replicas
        )

    def topic_znode(self, topic: str) -> tuple[TopicNode, int] | None:
        """The topic's znode, and its version."""
        node = self.nodes.get(LedTopicZnode.path(topic))
        if node is None:
            return None
        assert isinstance(node.data, TopicNode)
        return node.data, node.version

    def topic(self, topic: str) -> TopicNodes | None:
        """All about a topic."""
        found = self.topic_znode(topic)
        if found is None:
            return None
        known = ((name.partition, self.partition(name)) for name in NAMES if name.topic == topic)
        return TopicNodes(*found, {number: nodes for number, nodes in known if nodes is not None})

    def queue(self, broker_id: int) -> tuple[QueuedChange, ...]:
        """The state changes for a broker, in order."""
        prefix = StateQueueZnode.path(broker_id) + "/"
        found = sorted((path, node.data) for path, node in self.nodes.items() if path.startswith(prefix))
        changes = []
        for path, change in found:
            assert isinstance(change, StateChange)
            changes.append(QueuedChange(path[len(prefix) :], change))
        return tuple(changes)

    def watch_tree(self, node: int) -> None:
        """Tell a node of each change of the ISR, until its session is over."""
        self._followers.add(node)

    def watch_partition(self, name: TopicPartition, node: int, as_leader: bool) -> None:
        """Leave the watches of a read."""
        self.watch(LeaderZnode.path(*name), node)
        if ReplicasZnode.path(*name) not in self.nodes:
            self.watch(ReplicasZnode.path(*name), node)
        if as_leader:
            self.watch(ReassignedZnode.path(*name), node)
