"""The operations of which the writes to ZooKeeper consist: those of ZooKeeper, and what goes into queues.

Rules of this file: a znode is named by what it is, and by no path. All operations of a multi happen, or
none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from hightide_leaders.core.values import (
    IsrNode,
    LeaderNode,
    PartitionNodes,
    StateChange,
    TopicNode,
    TopicPartition,
)

ANY_VERSION: Final = -1
"""The version of an operation that depends on none."""


class Kind(Enum):
    """What a znode is."""

    INCARNATION = auto()
    """Of a broker; its version counts the broker's lives."""
    TOPIC = auto()
    TOPIC_ID = auto()
    """The marker that there is a topic of an id: the versions of its znodes begin at 0 again with a later
    topic of the same name."""
    MOVES = auto()
    """The parent of RARs of a topic."""
    PARTITION = auto()
    """The parent of the other znodes of a partition."""
    LEADER = auto()
    """Ephemeral, in the session of who writes."""
    ISR = auto()
    REPLICAS = auto()
    """AR."""
    REASSIGNED = auto()
    """RAR."""


class Node(NamedTuple):
    """One znode, of a partition, a topic, a topic id or a broker."""

    kind: Kind
    of: TopicPartition | str | int


incarnation = partial(Node, Kind.INCARNATION)
topic, topic_id, moves = partial(Node, Kind.TOPIC), partial(Node, Kind.TOPIC_ID), partial(Node, Kind.MOVES)
partition, leader, isr = partial(Node, Kind.PARTITION), partial(Node, Kind.LEADER), partial(Node, Kind.ISR)
replicas, reassigned = partial(Node, Kind.REPLICAS), partial(Node, Kind.REASSIGNED)
Content: TypeAlias = TopicNode | IsrNode | LeaderNode | tuple[int, ...] | str
"""What is in a znode; text for the marker of a topic id, which names the topic, and for parents."""


@dataclass(frozen=True, slots=True)
class Check:
    """Nothing happens unless the znode is there, in this version."""

    node: Node
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode that is not there."""

    node: Node
    content: Content = ""


@dataclass(frozen=True, slots=True)
class Put:
    """Set a znode that has this version."""

    node: Node
    content: Content
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode that has this version."""

    node: Node
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Put a state change at the end of a broker's queue."""

    broker_id: int
    change: StateChange


@dataclass(frozen=True, slots=True)
class Dequeue:
    """Remove a state change from a broker's queue."""

    broker_id: int
    znode: str


Operation: TypeAlias = Check | Create | Put | Delete | Enqueue | Dequeue
Operations: TypeAlias = tuple[Operation, ...]


def check_topic(name: str, version: int, id_: str) -> Operations:
    """Nothing happens unless the topic's znode is the one that was read."""
    return Check(topic_id(id_)), Check(topic(name), version)


def create_topic(name: str, node: TopicNode) -> Operations:
    """The znodes of a topic without partitions."""
    return Create(topic(name), node), Create(moves(name)), Create(topic_id(node.topic_id), name)


def delete_topic(name: str, version: int, id_: str) -> Operations:
    """The same go."""
    return Delete(topic_id(id_)), Delete(moves(name)), Delete(topic(name), version)


def reassign(name: TopicPartition, to: tuple[int, ...], nodes: PartitionNodes) -> Operation:
    """RAR, which may be there already."""
    node = reassigned(name)
    return Create(node, to) if nodes.reassigned is None else Put(node, to)
