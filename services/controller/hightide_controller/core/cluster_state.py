"""The controller's memory: what ZooKeeper held when last heard of, indexed by broker.

The cache is a hint, the conditional write is the truth: leaders write their own ISR straight to
ZooKeeper, so the versions here go stale, and a write that is refused is what tells.
The indexes make a failure cost what it touches, never what exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hightide_controller.core.effects import Change
from hightide_controller.core.events import Broker, Topic
from hightide_controller.core.mends import ALL_MENDS, Mends
from hightide_controller.core.partition import (
    NO_LEADER,
    VALID_PREDECESSORS,
    LeaderAndIsr,
    Partition,
    PartitionState,
    TopicPartition,
)

__all__ = ["VALID_ROLE_PREDECESSORS", "ClusterState", "Role", "StoreInFlight", "Waiter"]


class Role(Enum):
    """What this controller process is.

    STANDBY: another one is active; it waits for /controller to go.
    CAMPAIGNING: the election multi is under way, or won and being followed by the read of everything.
    ACTIVE: it decides.
    """

    STANDBY = auto()
    CAMPAIGNING = auto()
    ACTIVE = auto()


VALID_ROLE_PREDECESSORS: Final[dict[Role, frozenset[Role]]] = {
    Role.STANDBY: frozenset({Role.STANDBY, Role.CAMPAIGNING, Role.ACTIVE}),
    Role.CAMPAIGNING: frozenset({Role.STANDBY}),
    Role.ACTIVE: frozenset({Role.CAMPAIGNING}),
}


@dataclass(frozen=True, slots=True)
class StoreInFlight:
    """A multi that was handed to ZooKeeper and not answered yet."""

    changes: tuple[Change, ...]
    cause: str
    bounced: frozenset[int]
    """The brokers that the decisions in it took for bounced."""


@dataclass(slots=True)
class Waiter:
    """A request that is answered when its partitions are decided, stored and acknowledged."""

    request_id: int
    cause: str
    """What its effects are told to follow from."""
    topic: Topic | None
    """The topic being created; None for a controlled shutdown."""
    broker_id: int | None
    """The broker that shuts down; None for a topic."""
    undecided: set[TopicPartition]
    """Partitions that are not settled: not known yet, being written, or being read again."""
    unacknowledged: dict[int, int] = field(default_factory=dict)
    """Broker id to the sequence that it must acknowledge."""


@dataclass(slots=True)
class ClusterState:
    """All that a controller knows. `machine.step` consumes it: it is mutated and handed back."""

    controller_id: int
    seed: int = 0
    """Where the next topic's assignment starts; moves on with each topic."""
    mends: Mends = ALL_MENDS
    role: Role = Role.STANDBY
    controller_epoch: int = 0
    controller_epoch_version: int = -1
    """The zkVersion of /controller_epoch that every write checks."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    """The registrations."""
    dead: dict[int, int] = field(default_factory=dict)
    """Registered, but the process of this broker epoch is known to be dead."""
    shutting_down: dict[int, int] = field(default_factory=dict)
    """Brokers that asked for a controlled shutdown, with their epoch."""
    topics: dict[str, Topic] = field(default_factory=dict)
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    replicas_on: dict[int, set[TopicPartition]] = field(default_factory=dict)
    led_by: dict[int, set[TopicPartition]] = field(default_factory=dict)
    in_sync_on: dict[int, set[TopicPartition]] = field(default_factory=dict)
    unled: set[TopicPartition] = field(default_factory=set)
    """NEW and OFFLINE partitions."""
    under_replicated: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose ISR is smaller than AR, in the order in which they are read again."""
    stores: dict[int, StoreInFlight] = field(default_factory=dict)
    """By store id."""
    storing: set[TopicPartition] = field(default_factory=set)
    """Partitions with a write under way."""
    rereading: set[TopicPartition] = field(default_factory=set)
    """Partitions that are read again because their write failed."""
    doubtful: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition → the partition epoch on which a write of unknown outcome builds; it may happen yet."""
    again: dict[TopicPartition, frozenset[int]] = field(default_factory=dict)
    """Partitions to decide again when they are free of both, with the brokers that bounced meanwhile."""
    waiters: dict[int, Waiter] = field(default_factory=dict)
    """By request id, in the order of arrival."""
    next_store_id: int = 1
    next_sequence: int = 1

    def is_live(self, broker_id: int) -> bool:
        """Whether the broker is registered and its process not known to be dead."""
        broker = self.brokers.get(broker_id)
        return broker is not None and self.dead.get(broker_id) != broker.broker_epoch

    def live_brokers(self) -> tuple[Broker, ...]:
        """The live brokers by id."""
        return tuple(self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.is_live(broker_id))

    def take_sequence(self) -> int:
        """The sequence of the next send effect."""
        sequence = self.next_sequence
        self.next_sequence += 1
        return sequence

    def become(self, role: Role) -> None:
        """Change the role; an illegal change is a fault of the caller."""
        assert self.role in VALID_ROLE_PREDECESSORS[role], (self.role, role)
        self.role = role

    def add_topic(self, topic: Topic) -> tuple[TopicPartition, ...]:
        """Take a topic in with all its partitions NEW; its name must not be known."""
        assert topic.name not in self.topics, topic.name
        self.topics[topic.name] = topic
        added = []
        for number, replicas in enumerate(topic.assignment):
            name = TopicPartition(topic.name, number)
            self.partitions[name] = Partition(name, replicas, PartitionState.NEW, None)
            self.unled.add(name)
            for broker_id in replicas:
                self.replicas_on.setdefault(broker_id, set()).add(name)
            added.append(name)
        return tuple(added)

    def forget_topic(self, topic_name: str) -> Topic:
        """Drop a topic and everything known of its partitions."""
        topic = self.topics.pop(topic_name)
        for number in range(len(topic.assignment)):
            name = TopicPartition(topic_name, number)
            partition = self.partitions.pop(name)
            assert partition.state in VALID_PREDECESSORS[PartitionState.NON_EXISTENT]
            self._unindex(partition)
            for broker_id in partition.replicas:
                self.replicas_on[broker_id].discard(name)
            self.unled.discard(name)
            self.again.pop(name, None)
        return topic

    def record(self, name: TopicPartition, leader_and_isr: LeaderAndIsr | None) -> Partition:
        """Take over what ZooKeeper holds for a partition, and keep the indexes true."""
        before = self.partitions[name]
        if leader_and_isr is None:
            state = PartitionState.NEW
        elif leader_and_isr.leader == NO_LEADER:
            state = PartitionState.OFFLINE
        else:
            state = PartitionState.ONLINE
        if not (state is PartitionState.NEW and before.state is PartitionState.NEW):
            assert before.state in VALID_PREDECESSORS[state], (name, before.state, state)
        self._unindex(before)
        after = Partition(name, before.replicas, state, leader_and_isr)
        self.partitions[name] = after
        if leader_and_isr is None:
            self.unled.add(name)
            return after
        if leader_and_isr.leader == NO_LEADER:
            self.unled.add(name)
        else:
            self.unled.discard(name)
            self.led_by.setdefault(leader_and_isr.leader, set()).add(name)
        for broker_id in leader_and_isr.isr:
            self.in_sync_on.setdefault(broker_id, set()).add(name)
        if len(leader_and_isr.isr) < len(before.replicas):
            self.under_replicated[name] = None
        return after

    def _unindex(self, partition: Partition) -> None:
        known = partition.leader_and_isr
        if known is None:
            return
        if known.leader != NO_LEADER:
            self.led_by[known.leader].discard(partition.name)
        for broker_id in known.isr:
            self.in_sync_on[broker_id].discard(partition.name)
        self.under_replicated.pop(partition.name, None)
