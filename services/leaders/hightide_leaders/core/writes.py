"""The operations of which the writes to ZooKeeper consist. The shell makes one multi of each write.

Rules of this file: an operation names what it changes, and no path. All operations of a write happen, or
none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hightide_leaders.core.values import IsrNode, StateChange, TopicNode, TopicPartition

ANY_VERSION = -1
"""The version of a write that depends on none."""


@dataclass(frozen=True, slots=True)
class CheckIncarnation:
    """Nothing happens unless this is still the newest life of the broker."""

    broker_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class CheckTopicId:
    """Nothing happens unless there is a topic of this id: the versions of its znodes begin at 0 again with a
    later topic of the same name."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class CheckIsr:
    """Nothing happens unless the ISR znode has this version: since then nobody was elected."""

    name: TopicPartition
    version: int


@dataclass(frozen=True, slots=True)
class CreateLeader:
    """Create the ephemeral leader znode in the session of who writes."""

    name: TopicPartition
    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class DeleteLeader:
    """Delete the leader znode."""

    name: TopicPartition


@dataclass(frozen=True, slots=True)
class CreateIsr:
    """Create the ISR znode; there is none before the first election."""

    name: TopicPartition
    isr: IsrNode


@dataclass(frozen=True, slots=True)
class PutIsr:
    """Set the ISR znode if it has this version."""

    name: TopicPartition
    isr: IsrNode
    version: int


@dataclass(frozen=True, slots=True)
class PutReplicas:
    """Set AR; `create` if there is none yet."""

    name: TopicPartition
    replicas: tuple[int, ...]
    create: bool = False


@dataclass(frozen=True, slots=True)
class PutReassigned:
    """Set RAR; `create` if there is none yet."""

    name: TopicPartition
    replicas: tuple[int, ...]
    create: bool = True


@dataclass(frozen=True, slots=True)
class DeleteReassigned:
    """Delete RAR."""

    name: TopicPartition


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create the znode of a topic, the parent of its RARs, and the marker of its id."""

    topic: str
    node: TopicNode


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Create the parent of a partition's znodes, and its RAR."""

    name: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PutTopic:
    """Set the znode of a topic if it has this version, and is still that of the topic of the node's id."""

    topic: str
    node: TopicNode
    version: int


@dataclass(frozen=True, slots=True)
class CheckTopic:
    """Nothing happens unless the topic's znode is the one that was read."""

    topic: str
    version: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class DeletePartition:
    """Delete the znodes of a partition that exist: leader, ISR, AR, RAR, and their parent."""

    name: TopicPartition
    has_leader: bool
    isr_version: int
    """NO_VERSION if it has no ISR znode."""
    has_replicas: bool
    has_reassigned: bool


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete the znode of a topic, the parent of its RARs, and the marker of its id."""

    topic: str
    version: int
    topic_id: str


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


Operation: TypeAlias = (
    CheckIncarnation
    | CheckTopicId
    | CheckIsr
    | CreateLeader
    | DeleteLeader
    | CreateIsr
    | PutIsr
    | PutReplicas
    | PutReassigned
    | DeleteReassigned
    | CreateTopic
    | CreatePartition
    | PutTopic
    | CheckTopic
    | DeletePartition
    | DeleteTopic
    | Enqueue
    | Dequeue
)
Operations: TypeAlias = tuple[Operation, ...]
