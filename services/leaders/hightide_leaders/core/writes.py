"""The operations of which the writes to ZooKeeper consist: those of ZooKeeper, and what goes into queues.

Rules of this file: a znode is named by its path, of `hightide_runtime.znodes.paths`, and what is in it is a
value. All operations of a multi happen, or none.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode, TopicNode
from hightide_runtime.znodes.paths import moves_path, reassigned_path, topic_id_path, topic_path
from msgspec import Struct

from hightide_leaders.core.values import PartitionNodes, StateChange, TopicPartition

ANY_VERSION: Final = -1
"""The version of an operation that depends on none."""


Content: TypeAlias = TopicNode | IsrNode | LeaderNode | tuple[int, ...] | str
"""What is in a znode; text for the marker of a topic id, which names the topic, and for parents."""


class Check(Struct, frozen=True):
    """Nothing happens unless the znode is there, in this version."""

    path: str
    version: int = ANY_VERSION


class Create(Struct, frozen=True):
    """Create a znode that is not there; that of a leader is ephemeral, in the session of who writes."""

    path: str
    content: Content = ""


class Put(Struct, frozen=True):
    """Set a znode that has this version."""

    path: str
    content: Content
    version: int = ANY_VERSION


class Delete(Struct, frozen=True):
    """Delete a znode that has this version."""

    path: str
    version: int = ANY_VERSION


class Enqueue(Struct, frozen=True):
    """Put a state change at the end of a broker's queue."""

    broker_id: int
    change: StateChange


class Dequeue(Struct, frozen=True):
    """Remove a state change from a broker's queue."""

    broker_id: int
    znode: str


Operation: TypeAlias = Check | Create | Put | Delete | Enqueue | Dequeue
Operations: TypeAlias = tuple[Operation, ...]


def check_topic(name: str, version: int, id_: str) -> Operations:
    """Nothing happens unless the topic's znode is the one that was read."""
    return Check(topic_id_path(id_)), Check(topic_path(name), version)


def create_topic(name: str, node: TopicNode) -> Operations:
    """The znodes of a topic without partitions."""
    marker = Create(topic_id_path(node.topic_id.hex()), name)
    return Create(topic_path(name), node), Create(moves_path(name)), marker


def delete_topic(name: str, version: int, id_: str) -> Operations:
    """The same go."""
    return Delete(topic_id_path(id_)), Delete(moves_path(name)), Delete(topic_path(name), version)


def reassign(name: TopicPartition, to: tuple[int, ...], nodes: PartitionNodes) -> Operation:
    """RAR, which may be there already."""
    path = reassigned_path(*name)
    return Create(path, to) if nodes.reassigned is None else Put(path, to)
