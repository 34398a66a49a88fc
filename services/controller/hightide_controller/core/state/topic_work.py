"""The work about a topic: one TopicWork for each topic that is not merely being led.

It holds what is below /admin about the topic, what requests ask of it, and the write or read under way.
Topics without any of these have no TopicWork, so a cluster at rest costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hightide_controller.core.events import (
    StoredAddition,
    StoredDeletion,
    StoredReassignment,
    StoredRemoval,
    Topic,
)
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requested_changes import RequestedChange

__all__ = ["TopicDeletion", "TopicWork"]


@dataclass(slots=True)
class TopicDeletion:
    """A topic that is being deleted, at the request of a client or an operator. This is never cancelled.

    `is_read`: its partitions and the znodes beside them were read since the intent was written, so that the
    writes of leaders do not make every chunk fail.
    """

    is_read: bool = False


@dataclass(slots=True)
class TopicWork:
    """The work about one topic. Mutable, like the ClusterState of which it is a part."""

    moves: dict[int, StoredReassignment] = field(default_factory=dict)
    """The content of /admin/partitions_reassigned, by partition."""
    additions: dict[int, StoredAddition] = field(default_factory=dict)
    removals: dict[int, StoredRemoval] = field(default_factory=dict)
    intent: StoredDeletion | None = None
    """The content of /admin/delete_topics."""
    leftovers: dict[TopicPartition, int | None] = field(default_factory=dict)
    """See TopicsRead."""
    deletion: TopicDeletion | None = None
    requested_changes: list[RequestedChange] = field(default_factory=list)
    """In the order in which they came."""
    due_moves: dict[int, None] = field(default_factory=dict)
    """Partitions with a move that may continue: their znode, their state or their replicas changed."""
    move_faults: dict[int, str] = field(default_factory=dict)
    """The reasons why moves that an operator requested cannot begin."""
    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Moves that make no progress, and the dead brokers for which they wait."""
    awaited: dict[int, dict[int, None]] = field(default_factory=dict)
    """The partitions whose moves wait, by the dead broker that they wait for."""
    abandoned: dict[int, StoredReassignment] = field(default_factory=dict)
    """Moves under way whose znode is gone: they have ended, or an operator deleted it."""
    newcomer: Topic | None = None
    """A topic whose id or marker is not written yet. Until then it is not in ClusterState.topics."""
    orphan_markers: dict[str, None] = field(default_factory=dict)
    """The ids of topics that an operator deleted: their markers have to be removed."""
    perhaps_created: dict[str, None] = field(default_factory=dict)
    """The ids of topics whose creation has an unknown outcome. If one is not found, an operator has deleted
    it, or it never existed."""
    store_id: int | None = None
    """The multi about this topic that is under way: at most one."""
    is_reading: bool = False
    """Whether a ReadTopics about it is under way; there are no writes meanwhile."""
    unsure: set[TopicPartition] = field(default_factory=set)
    """Partitions of a multi that failed: in ClusterState.rereading until that read answers."""
    is_gone: bool = False
    """Whether ZooKeeper was read, and had no such topic."""
    read_cause: str | None = None
    """The cause of a read (or of one more) that follows when the current work is done."""
    doubtful_version: int | None = None
    """The topic znode's version on which a multi with an unknown outcome builds; it may still happen."""
    refusals: int = 0
    """Multis refused in a row."""
    is_resting: bool = False
    """Whether it was refused too often, or cannot be decoded: it is tried again at the next tick."""
    complaints: dict[str, str] = field(default_factory=dict)
    """What is invalid about it, by path; also in ClusterState.complaints."""

    @property
    def is_busy(self) -> bool:
        """Whether ZooKeeper has to answer first."""
        return self.store_id is not None or self.is_reading

    @property
    def is_idle(self) -> bool:
        """Whether it can be dropped."""
        stands = (
            self.moves or self.abandoned or self.additions or self.removals or self.intent or self.complaints
        )
        wanted = (
            self.deletion or self.requested_changes or self.newcomer or self.orphan_markers or self.is_resting
        )
        in_doubt = self.perhaps_created or self.doubtful_version is not None
        return not (stands or wanted or self.is_busy or in_doubt)
