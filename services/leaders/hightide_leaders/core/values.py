"""What the leader-coordinated design (V2) knows: the znodes of a partition as they were read, and what
follows from them.

Rules of this file: only data, and values computed from it. Terms of V2: AR are the assigned replicas, ISR
those in sync, CUR those that are catching up (AR = ISR + CUR), RAR those that a partition is being moved
to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from hightide_runtime.znodes.led_nodes import FIRST_EPOCH, NO_VERSION, IsrNode, LeaderNode, TopicNode
from msgspec import Struct

NO_LEADER: Final = -1


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int


class Settings(Struct, frozen=True):
    """The settings of one broker; the names are V2's."""

    broker_id: int
    preferred_replica_time_ms: int = 500
    """PreferredReplicaTime: how long the other replicas leave the race for the leader znode to the
    preferred one."""
    leader_election_wait_time_ms: int = 2_000
    """LeaderElectionWaitTime: how long a replica that may not lead waits before it looks again who may."""
    keep_in_sync_time_ms: int = 10_000
    """KeepInSyncTime: how long an admin waits for brokers that are alive to do what is in their queues. For
    replicas it is the broker's `replica_lag_time_max_ms`."""
    queue_max: int = 1_000
    """The state changes that fit into the queue of a broker."""


class ChangeKind(Enum):
    """The kinds of state changes; the value is what stands in the queue."""

    START_REPLICA = "start-replica"
    CLOSE_REPLICA = "close-replica"
    READ_ASSIGNMENTS = "read-assignments"
    """Some start-replica were dropped when the queue was full: read what is assigned to this broker."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """An order to a broker, as it waits in the broker's queue."""

    kind: ChangeKind
    name: TopicPartition
    topic_id: str
    epoch: int
    """The leader epoch in which it was asked for."""
    traceparent: str = field(default="", compare=False)
    """The trace of its life, if it is traced."""


class QueuedChange(NamedTuple):
    """A state change with the name of its znode; names in a queue rise."""

    znode: str
    change: StateChange | None
    """None if nobody can read it."""


class PartitionNodes(Struct, frozen=True):
    """What ZooKeeper has about a partition, read at one moment."""

    topic_id: str
    replicas: tuple[int, ...] = ()
    """AR, the preferred replica first; empty while the admin creates the partition."""
    leader: LeaderNode | None = None
    isr: IsrNode | None = None
    reassigned: tuple[int, ...] | None = None
    """RAR; empty if the partition is being deleted, None if nothing is asked."""
    min_insync_replicas: int = 1
    garbage: str = ""
    """What is wrong where a znode of the partition cannot be read; the rest is not to be believed then."""
    first_epoch: int = FIRST_EPOCH
    """The epoch of its first leader, above all epochs of an earlier partition of its number."""
    removals: int = 0
    """How often partitions of the topic were removed by then (`TopicNode.removals`)."""
    is_counted: bool = True
    """Whether the topic has a partition of this number, or is getting it."""
    reassigned_version: int = NO_VERSION
    """The version of the znode with RAR."""

    @property
    def assigned(self) -> tuple[int, ...]:
        """AR, and the replicas of RAR that are to be added."""
        return (*self.replicas, *(each for each in self.reassigned or () if each not in self.replicas))

    @property
    def adding(self) -> tuple[int, ...]:
        """The replicas that a move adds; none while the partition is created."""
        return tuple(each for each in self.assigned if each not in self.replicas) if self.replicas else ()

    @property
    def is_being_deleted(self) -> bool:
        """Whether an admin is deleting it."""
        return self.reassigned == () or not self.is_counted

    @property
    def life(self) -> tuple[str, int]:
        """Which one of its name it is: one of another topic, or of that number later, has others."""
        return self.topic_id, self.first_epoch

    @property
    def known_isr(self) -> IsrNode:
        """The ISR; nobody is in it before the first election."""
        return self.isr if self.isr is not None else IsrNode(self.first_epoch - 1, ())

    @property
    def epoch(self) -> int:
        """The newest leader epoch."""
        return self.known_isr.epoch

    @property
    def version(self) -> int:
        """The partition epoch."""
        return self.known_isr.version


class Decision(Struct, frozen=True):
    """Who leads a partition, for the broker's core: it obeys this as it obeys a controller's decision."""

    leader: int
    leader_epoch: int
    isr: IsrNode
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()


Life: TypeAlias = tuple[int, int]
"""One of a broker: its id, and its incarnation."""
Configs: TypeAlias = tuple[tuple[str, str], ...]
"""The settings of a topic that differ from the defaults, by name."""


class TopicNodes(Struct, frozen=True):
    """What ZooKeeper has about a topic and its partitions, read at one moment."""

    node: TopicNode
    version: int
    partitions: dict[int, PartitionNodes]

    @property
    def topic_id(self) -> str:
        """Its id."""
        return self.node.topic_id.hex()

    def beyond(self, topic: str, count: int) -> list[tuple[TopicPartition, PartitionNodes]]:
        """The partitions of the topic, which has this name, from number `count` on."""
        numbers = (number for number in sorted(self.partitions) if number >= count)
        return [(TopicPartition(topic, number), self.partitions[number]) for number in numbers]


class Lives(NamedTuple):
    """The brokers that are registered: id and incarnation of each."""

    of: tuple[Life, ...]
    drained: frozenset[int] = frozenset()
    """Those that an operator wants to lead nothing in this life, where others can."""

    @property
    def live(self) -> frozenset[int]:
        """Their ids."""
        return frozenset(broker_id for broker_id, _ in self.of)
