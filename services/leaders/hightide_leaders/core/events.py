"""What a broker hears, for `machine.step`.

Rules of this file: an event is a fact that the shell saw. Times are passed beside it, from a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from hightide_leaders.core.values import (
    Configs,
    Lives,
    PartitionNodes,
    QueuedChange,
    TopicNodes,
    TopicPartition,
)


@dataclass(frozen=True, slots=True)
class Started:
    """The broker has begun this life, and has left the ISRs that expect more of its logs than they have."""

    incarnation: int
    session: int


@dataclass(frozen=True, slots=True)
class Connected:
    """There is a connection to ZooKeeper again, in this session; no watch of before fires any more."""

    session: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The broker is to stop: it hands over what others can lead, and takes nothing any more. The answer comes
    when others lead that."""

    request_id: int


@dataclass(frozen=True, slots=True)
class AssignmentsRead:
    """The partitions that name this broker in AR or RAR."""

    names: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionsRead:
    """The answer to a Read; None for a partition that is not there."""

    read_id: int
    found: Mapping[TopicPartition, PartitionNodes | None]
    lives: Lives


@dataclass(frozen=True, slots=True)
class PartitionTouched:
    """A watch on a znode of a partition fired: its leader came or went, an admin asks for something."""

    name: TopicPartition


@dataclass(frozen=True, slots=True)
class QueueRead:
    """This broker's queue, in the order of its znodes."""

    changes: tuple[QueuedChange, ...]


class Ending(Enum):
    """How a write ended."""

    COMMITTED = auto()
    REFUSED = auto()
    """It has not happened: what it expects is not so."""
    SUPERSEDED = auto()
    """It has not happened, and none of this broker will: a later life of it has begun."""
    QUEUE_FULL = auto()
    """It has not happened: a broker's queue has no place, though it was shrunk
    (FollowerStateChangeQueueFull)."""
    UNKNOWN = auto()
    """The connection broke. It may have happened, and may still happen."""


@dataclass(frozen=True, slots=True)
class WriteEnded:
    """The answer to a Write."""

    write_id: int
    ending: Ending


@dataclass(frozen=True, slots=True)
class IsrAdopted:
    """The replica that leads here knows a newer ISR: V2's commit thread wrote it, or found it. `committed`:
    it has committed records since it was last said."""

    name: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    committed: bool = False


@dataclass(frozen=True, slots=True)
class IsrChanged:
    """The ISR znode has this version: its leader wrote it, or another broker that left the ISR."""

    name: TopicPartition
    topic_id: str
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class LeadershipDeclined:
    """The replica's core does not lead in this epoch: its log directory failed, or its log forbids it."""

    name: TopicPartition
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class AdditionRequested:
    """A client asks this broker, as its admin, to add partitions to a topic, from number `first` on; or from
    0 on to create it, with the id that the shell made."""

    request_id: int
    topic: str
    topic_id: str
    assignment: tuple[tuple[int, ...], ...]
    configs: Configs = ()
    first: int = 0

    @property
    def creates(self) -> bool:
        """Whether the topic is to come by it."""
        return self.first == 0


@dataclass(frozen=True, slots=True)
class DeletionRequested:
    """A client asks this broker, as its admin, to delete the partitions of a topic from number `keep` on; all
    go with the topic. With an id, only those of the topic of that id."""

    request_id: int
    topic: str
    topic_id: str = ""
    keep: int = 0


@dataclass(frozen=True, slots=True)
class ReassignmentRequested:
    """A client asks this broker, as its admin, to move a partition to these replicas; None takes back what
    was asked before."""

    request_id: int
    name: TopicPartition
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ElectionRequested:
    """A client asks this broker, as its admin, to make the preferred replica of a partition its leader; or,
    `unclean`, any replica that is alive, where none that has everything is."""

    request_id: int
    name: TopicPartition
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class TopicRead:
    """The answer to ReadTopic; None if there is no such topic."""

    request_id: int
    found: TopicNodes | None
    lives: Lives


@dataclass(frozen=True, slots=True)
class QueuesRead:
    """The answer to ReadQueues, and again each time a watch of it fires."""

    request_id: int
    queues: Mapping[int, tuple[QueuedChange, ...]]
    lives: Lives


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed. Sent when `state.next_deadline_ms` is reached; does no harm at any other time."""


Requested: TypeAlias = AdditionRequested | DeletionRequested | ReassignmentRequested | ElectionRequested
"""What clients ask for."""
Event: TypeAlias = (
    Started
    | Connected
    | StopRequested
    | AssignmentsRead
    | PartitionsRead
    | PartitionTouched
    | QueueRead
    | WriteEnded
    | IsrAdopted
    | IsrChanged
    | LeadershipDeclined
    | Requested
    | TopicRead
    | QueuesRead
    | Ticked
)
