"""What there is to do about a topic: one TopicWork for each topic that is not merely being led.

It holds what stands below /admin about the topic, what requests wish of it, and the write or read that is
under way. Topics without any have none, so that a cluster at rest costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hightide_controller.core.events import (
    AdditionZnode,
    DeletionZnode,
    ReassignmentZnode,
    RemovalZnode,
    Topic,
)
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requested_changes import RequestedChange

__all__ = ["Deletion", "TopicWork"]


@dataclass(slots=True)
class Deletion:
    """A topic on its way out: asked for by request or by hand, and never taken back.

    `is_read`: its partitions and what stands beside them were read since the intent was written, so that
    no leader's own writes make every chunk fail.
    """

    is_read: bool = False


@dataclass(slots=True)
class TopicWork:
    """Mutable, like the ClusterState that it is a part of."""

    moves: dict[int, ReassignmentZnode] = field(default_factory=dict)
    """What stands at /admin/partitions_reassigned, by partition."""
    additions: dict[int, AdditionZnode] = field(default_factory=dict)
    removals: dict[int, RemovalZnode] = field(default_factory=dict)
    intent: DeletionZnode | None = None
    """What stands at /admin/delete_topics."""
    leftovers: dict[TopicPartition, int | None] = field(default_factory=dict)
    """See TopicsRead."""
    deletion: Deletion | None = None
    requested_changes: list[RequestedChange] = field(default_factory=list)
    """In the order in which they came."""
    due_moves: dict[int, None] = field(default_factory=dict)
    """Partitions with a move that may go on: their znode, their state or their replicas changed."""
    move_faults: dict[int, str] = field(default_factory=dict)
    """Why moves that a hand asked for cannot begin."""
    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Moves that do not get on, and the brokers that they wait for, which are not alive."""
    awaited: dict[int, dict[int, None]] = field(default_factory=dict)
    """The same by broker."""
    abandoned: dict[int, ReassignmentZnode] = field(default_factory=dict)
    """Moves under way whose znode is gone: taken away by a hand, unless they have come to their end."""
    newcomer: Topic | None = None
    """A topic whose id or marker is not written yet; it is not in ClusterState.topics before it is."""
    orphan_markers: dict[str, None] = field(default_factory=dict)
    """The ids of topics that a hand took away: their markers must go."""
    perhaps_created: dict[str, None] = field(default_factory=dict)
    """The ids of topics whose creation has an unknown outcome. One that is not found has been taken away by a
    hand, if it ever was."""
    store_id: int | None = None
    """The multi about this topic that is under way: at most one."""
    is_reading: bool = False
    """Whether a ReadTopics about it is under way; nothing is written meanwhile."""
    unsure: set[TopicPartition] = field(default_factory=set)
    """Partitions of a multi that failed: in ClusterState.rereading until that read answers."""
    is_gone: bool = False
    """Whether ZooKeeper was read, and there was no such topic."""
    read_cause: str | None = None
    """It must be read when that is done (or once more): with this cause."""
    doubtful_version: int | None = None
    """The topic znode's version on which a multi of unknown outcome builds; it may happen yet."""
    refusals: int = 0
    """Multis refused in a row."""
    is_resting: bool = False
    """Refused too often, or not to be understood: it is tried again at the next tick."""
    complaints: dict[str, str] = field(default_factory=dict)
    """What makes no sense about it, by path; also in ClusterState.complaints."""

    @property
    def is_busy(self) -> bool:
        """Whether ZooKeeper has to answer first."""
        return self.store_id is not None or self.is_reading

    @property
    def is_idle(self) -> bool:
        """Whether it can be forgotten."""
        stands = (
            self.moves or self.abandoned or self.additions or self.removals or self.intent or self.complaints
        )
        wanted = (
            self.deletion or self.requested_changes or self.newcomer or self.orphan_markers or self.is_resting
        )
        in_doubt = self.perhaps_created or self.doubtful_version is not None
        return not (stands or wanted or self.is_busy or in_doubt)
