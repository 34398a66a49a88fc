"""What a broker hears, for `machine.step`.

Rules of this file: an event is a fact that the shell saw. Times are passed beside it, from a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeAlias

from msgspec import Struct

from hightide_leaders.core.values import (
    Configs,
    Lives,
    PartitionNodes,
    QueuedChange,
    TopicNodes,
    TopicPartition,
)


class Started(Struct, frozen=True):
    """The broker has begun this life, and has left the ISRs that expect more of its logs than they have."""

    incarnation: int
    session: int


class Connected(Struct, frozen=True):
    """There is a connection to ZooKeeper again, in this session; no watch of before fires any more."""

    session: int


class StopRequested(Struct, frozen=True):
    """The broker is to stop: it hands over what others can lead, and takes nothing any more. The answer comes
    when others lead that."""

    request_id: int


class AssignmentsRead(Struct, frozen=True):
    """The partitions that name this broker in AR or RAR."""

    names: tuple[TopicPartition, ...]


class PartitionsRead(Struct, frozen=True):
    """The answer to a Read; None for a partition that is not there."""

    read_id: int
    found: Mapping[TopicPartition, PartitionNodes | None]
    lives: Lives


class PartitionTouched(Struct, frozen=True):
    """A watch on a znode of a partition fired: its leader came or went, an admin asks for something."""

    name: TopicPartition


class QueueRead(Struct, frozen=True):
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


class WriteEnded(Struct, frozen=True):
    """The answer to a Write."""

    write_id: int
    ending: Ending


class IsrAdopted(Struct, frozen=True):
    """The replica that leads here knows a newer ISR: V2's commit thread wrote it, or found it. `committed`:
    it has committed records since it was last said."""

    name: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    committed: bool = False


class IsrChanged(Struct, frozen=True):
    """The ISR znode has this version: its leader wrote it, or another broker that left the ISR."""

    name: TopicPartition
    topic_id: str
    partition_epoch: int


class LeadershipDeclined(Struct, frozen=True):
    """The replica's core does not lead in this epoch: its log directory failed, or its log forbids it."""

    name: TopicPartition
    leader_epoch: int


class AdditionRequested(Struct, frozen=True):
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


class DeletionRequested(Struct, frozen=True):
    """A client asks this broker, as its admin, to delete the partitions of a topic from number `keep` on; all
    go with the topic. With an id, only those of the topic of that id."""

    request_id: int
    topic: str
    topic_id: str = ""
    keep: int = 0


class ReassignmentRequested(Struct, frozen=True):
    """A client asks this broker, as its admin, to move a partition to these replicas; None takes back what
    was asked before."""

    request_id: int
    name: TopicPartition
    replicas: tuple[int, ...] | None


class ElectionRequested(Struct, frozen=True):
    """A client asks this broker, as its admin, to make the preferred replica of a partition its leader; or,
    `unclean`, any replica that is alive, where none that has everything is."""

    request_id: int
    name: TopicPartition
    unclean: bool = False


class TopicRead(Struct, frozen=True):
    """The answer to ReadTopic; None if there is no such topic."""

    request_id: int
    found: TopicNodes | None
    lives: Lives


class QueuesRead(Struct, frozen=True):
    """The answer to ReadQueues, and again each time a watch of it fires."""

    request_id: int
    queues: Mapping[int, tuple[QueuedChange, ...]]
    lives: Lives


class Ticked(Struct, frozen=True):
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
