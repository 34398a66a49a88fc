"""ZooKeeper of a cluster that leaders coordinate: V2's paths, and the operations of its core on them.

Rules of this file: what is stored is what the core reads, not bytes; the encoding has unit tests of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from hightide_leaders.core import writes as wr
from hightide_leaders.core.values import (
    Lives,
    PartitionNodes,
    QueuedChange,
    StateChange,
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
from hightide_runtime.znodes.led_nodes import NO_VERSION, IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import partition_path
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
SECOND = TopicPartition("tide", 1)
"""The partition by which the topic may grow, and which may be removed: it is led, and holds nothing."""
NAMES = (NAME, SECOND)


PARTITION_OF_SECOND = partition_path(*SECOND)
ISR_OF_SECOND = IsrZnode.path(*SECOND)
LEADER_OF_SECOND = LeaderZnode.path(*SECOND)


class LeadersZooKeeper(ZooKeeper):
    """The store. It tells the checkers of the one partition as a store of leaderAndISR does."""

    min_insync_replicas = 1
    _next_change = 0
    spent_epoch = 0
    """The newest leader epoch that any partition with the number of the second one has had."""

    def __init__(self, notify: Callable[[int, str], None]) -> None:
        self._followers: set[int] = set()
        """Who watches the tree of topics."""
        self.begun: list[int] = []
        """The epoch in which each partition with the number of the second one was led first."""
        self._led: dict[int, int] = {}
        """Leader epoch → who led it in that."""
        self.wrong: list[str] = []
        """What no partition with that number may do."""
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
        before, second = self.state(), self._epoch_of_second()
        refused = super().multi(operations, writer)
        self._note_second(second, self._epoch_of_second())
        after = self.state()
        if after is not None and (before is None or before[:2] != after[:2]):
            self.state_writes.append(
                StateWrite(writer, None if before is None else before[0], after[0], after[1], 0)
            )
        return refused

    def _possible(self, operation: Operation, gone: set[str]) -> bool:
        """As ever; and no parent goes before its children, and none comes below a parent that is gone."""
        if isinstance(operation, Delete):
            below = (path for path in self.nodes if path.startswith(f"{operation.path}/"))
            if any(path not in gone for path in below):
                return False
        if isinstance(operation, Create) and operation.path in (ISR_OF_SECOND, LEADER_OF_SECOND):
            return PARTITION_OF_SECOND in self.nodes and super()._possible(operation, gone)
        return super()._possible(operation, gone)

    def _epoch_of_second(self) -> int | None:
        node = self.nodes.get(ISR_OF_SECOND)
        if node is None:
            return None
        assert isinstance(node.data, IsrNode)
        return node.data.epoch

    def _note_second(self, before: int | None, after: int | None) -> None:
        if after is not None and before is None:
            if after <= self.spent_epoch:
                self.wrong.append(f"a partition begins with epoch {after}, {self.spent_epoch} is spent")
            self.begun.append(after)
        elif after is not None and before is not None and after < before:
            self.wrong.append(f"the leader epoch of the second partition went back from {before} to {after}")
        leader = self.leader_of(SECOND)
        if leader is not None and leader.epoch != after:
            self.wrong.append(f"{leader} leads the second partition, whose epoch is {after}")
        elif leader is not None and self._led.setdefault(leader.epoch, leader.broker_id) != leader.broker_id:
            self.wrong.append(f"{leader} leads the second partition, as {self._led[leader.epoch]} did")
        self.spent_epoch = max(self.spent_epoch, after or 0)

    def forget_topic(self) -> None:
        """What comes now is another topic."""
        self.state_writes.clear()
        self.spent_epoch = 0
        self.begun.clear()
        self._led.clear()

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
        rar = ReassignedZnode.path(*name)
        reassigned = self.replicas_of(rar)
        if topic is None or (replicas is None and reassigned is None):
            return None
        node = self.nodes.get(IsrZnode.path(*name))
        isr = None
        if node is not None:
            assert isinstance(node.data, IsrNode)
            isr = replace(node.data, version=node.version)
        leader = self.leader_of(name)
        return PartitionNodes(
            topic[0].topic_id.hex(),
            replicas or (),
            leader,
            isr,
            reassigned,
            self.min_insync_replicas,
            first_epoch=topic[0].first_epoch(name.partition),
            removals=topic[0].removals,
            is_counted=topic[0].counts(name.partition),
            reassigned_version=NO_VERSION if reassigned is None else self.nodes[rar].version,
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
