"""One group as its coordinator sees it: what is durable, what is the target, and the steps in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hightide_runtime.timer_wheel import NeverDue
from msgspec import Struct

from hightide_coordinator.core.assignors import StreamId
from hightide_coordinator.core.effects import ItemOutcome
from hightide_coordinator.core.events import OffsetCommit
from hightide_coordinator.core.state.member import Bucket, Member
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.registration import (
    ConsumerPosition,
    OffsetReset,
    PartitionOwner,
    StoredOffset,
    TopicFilter,
)
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "FENCED_MEMBERS_MAX",
    "VALID_PREDECESSORS",
    "CommitChecking",
    "CommitWaiting",
    "DeleteWaiting",
    "Group",
    "GroupState",
    "OffsetDeletionWaiting",
    "PatternInterest",
    "PositionChecking",
    "ResetChecking",
    "StartAsked",
    "StartFound",
    "StoreInFlight",
]

FENCED_MEMBERS_MAX: Final = 100
"""How many members that were replaced by the next process of their instance are remembered, so that they get
the right error."""


class GroupState(Enum):
    """The state of a group, as in the contract."""

    EMPTY = auto()
    """No members; its offsets are kept."""
    RECOVERING = auto()
    """The coordinator is new, and waits for the members that it knows from ZooKeeper."""
    GATHERING = auto()
    """Members come or go; what comes within the join window is one rebalance."""
    REBALANCING = auto()
    """Partitions are being given to other members."""
    STABLE = auto()
    """Every partition has its owner."""
    FAILED = auto()
    """The last rebalance failed too often; it is tried again with a pause, and at every change."""


VALID_PREDECESSORS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    # A group is made EMPTY, or RECOVERING by a takeover that finds owners.
    GroupState.EMPTY: frozenset(
        {
            GroupState.RECOVERING,
            GroupState.GATHERING,
            GroupState.REBALANCING,
            GroupState.STABLE,
            GroupState.FAILED,
        }
    ),
    GroupState.RECOVERING: frozenset(),
    GroupState.GATHERING: frozenset(
        {
            GroupState.EMPTY,
            GroupState.RECOVERING,
            GroupState.REBALANCING,
            GroupState.STABLE,
            GroupState.FAILED,
        }
    ),
    GroupState.REBALANCING: frozenset({GroupState.GATHERING, GroupState.STABLE, GroupState.FAILED}),
    GroupState.STABLE: frozenset({GroupState.GATHERING, GroupState.REBALANCING, GroupState.FAILED}),
    GroupState.FAILED: frozenset({GroupState.REBALANCING, GroupState.GATHERING}),
}


@dataclass(slots=True)
class CommitWaiting:
    """A CommitOffsets or ResetOffsets that waits for the group's next store."""

    request_id: int
    member_id: str
    commits: tuple[OffsetCommit, ...]
    is_reset: bool = False
    """Whether an operator sent it: the fences of members do not apply."""
    ends: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    """The ends of partitions that were looked up and found."""
    unfound: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The reasons why ends were not found of partitions in which a commit leaps."""
    overtaken: frozenset[TopicPartition] = frozenset()
    """Partitions in which its member sought while their ends were looked up."""
    meant: Mapping[TopicPartition, tuple[bytes, int]] = field(default_factory=dict)
    """Of one that names no generations: the topic ids and first leader epochs at its arrival."""
    outcomes: tuple[ItemOutcome, ...] = ()
    """Set when it becomes part of a write to ZooKeeper."""


@dataclass(slots=True)
class DeleteWaiting:
    """A DeleteGroup that waits for the group's next store."""

    request_id: int


@dataclass(slots=True)
class OffsetDeletionWaiting:
    """A DeleteOffsets that waits for the group's next store."""

    request_id: int
    topics: frozenset[str]
    deleted_count: int = 0
    """Set when it becomes part of a write to ZooKeeper."""


@dataclass(slots=True)
class ResetChecking:
    """A ResetOffsets for which the ends of its partitions are being looked up."""

    request_id: int
    group: str
    commits: tuple[OffsetCommit, ...]
    validate_only: bool
    meant: Mapping[TopicPartition, tuple[bytes, int]]
    """As of CommitWaiting."""


@dataclass(slots=True)
class CommitChecking:
    """A CommitOffsets for which the ends of some of its partitions are being looked up."""

    request_id: int
    group: str
    member_id: str
    commits: tuple[OffsetCommit, ...]
    overtaken: set[TopicPartition] = field(default_factory=set)
    """Partitions in which the member has committed a seek since."""
    meant: Mapping[TopicPartition, tuple[bytes, int]] = field(default_factory=dict)
    """As of CommitWaiting."""


@dataclass(slots=True)
class PositionChecking:
    """A position of a member that leaps, for which the end of its partition is being looked up."""

    group: str
    member_id: str
    position: ConsumerPosition
    sequence: int | None
    """The sequence of the order that it answers."""
    is_overtaken: bool = False
    """Whether the member has committed a seek in the partition since."""


@dataclass(slots=True)
class StoreInFlight:
    """A store that was sent to ZooKeeper; one at a time."""

    store_id: int
    owners: dict[TopicPartition, PartitionOwner | None] = field(default_factory=dict)
    offsets: dict[TopicPartition, StoredOffset | None] = field(default_factory=dict)
    positions: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """The offsets that consumers reported with their answers."""
    commits: list[CommitWaiting] = field(default_factory=list)
    farewells: list[int] = field(default_factory=list)
    deletes: list[DeleteWaiting] = field(default_factory=list)
    offset_deletions: list[OffsetDeletionWaiting] = field(default_factory=list)


class StartAsked(Struct, frozen=True):
    """A look-up of where a partition starts."""

    look_up_id: int
    offset_reset: OffsetReset
    """The preference of its intended owner at that time."""


class StartFound(Struct, frozen=True):
    """The start of a partition; not durable yet. It holds for an intended owner with the same preference."""

    committed: StoredOffset
    offset_reset: OffsetReset


@dataclass(slots=True)
class PatternInterest:
    """A pattern that members subscribed to, and its matches now: the shard's own set, not a copy."""

    topics: set[str]
    member_count: int = 0


@dataclass(slots=True, eq=False)
class Group:
    """A group. `placement` decides the next step of each partition, and keeps it in the bucket of those that
    wait for the same thing: `gives`, `asks`, `waiting`, and each member's `stops` and `starts`."""

    name: str
    state: GroupState = GroupState.EMPTY
    reason: str = ""
    """The reason of the current or last rebalance, or why it does not succeed. For people."""
    begun_by: RebalanceReason = RebalanceReason.OTHER
    """The cause of the rebalance that is under way, or comes next."""
    generation: int = 0

    # ---- durable
    owners: dict[TopicPartition, PartitionOwner] = field(default_factory=dict)
    owned: dict[str, Bucket] = field(default_factory=dict)
    """The same by member id."""
    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    is_stored: bool = False
    """Whether it has a znode."""
    session_timeout_ms: int = 0
    """The longest one of its members."""

    # ---- members
    members: dict[str, Member] = field(default_factory=dict)
    by_consumer: dict[str, Member] = field(default_factory=dict)
    by_identity: dict[str, Member] = field(default_factory=dict)
    missing: dict[str, Member] = field(default_factory=dict)
    """Members that own something, and have not registered with this coordinator yet (§10)."""
    fenced: deque[str] = field(default_factory=lambda: deque(maxlen=FENCED_MEMBERS_MAX))
    named_topics: dict[str, int] = field(default_factory=dict)
    """Topic → how many members name it."""
    patterns: dict[TopicFilter, PatternInterest] = field(default_factory=dict)
    assignors: dict[str, int] = field(default_factory=dict)
    assignor: str = ""
    """The input of the last rebalance."""

    concerns: set[str] = field(default_factory=set)
    """Topics whose changes concern it: `ShardState.concerned` by group."""
    doubtful: set[str] = field(default_factory=set)
    """Topics of which something was removed, perhaps the last (`concerns`)."""

    # ---- the target
    target: dict[TopicPartition, StreamId] = field(default_factory=dict)
    is_changed: bool = False
    """Members or topics changed since the target was made (C6)."""
    changed_ms: int = 0
    gather_until_ms: int = 0
    renewed: set[TopicPartition] = field(default_factory=set)
    """Only without C7: partitions that are stopped and started again although they do not move."""

    # ---- between
    readers: dict[TopicPartition, Member] = field(default_factory=dict)
    """The member that may be reading a partition: never two."""
    steps: dict[TopicPartition, Bucket] = field(default_factory=dict)
    """The bucket in which a partition waits. A partition in no bucket is where it should be."""
    gives: Bucket = field(default_factory=dict)
    """Partitions without a reader: their next owner can be stored."""
    asks: Bucket = field(default_factory=dict)
    """Partitions without a committed offset: their start has to be looked up."""
    waiting: Bucket = field(default_factory=dict)
    """Partitions that wait for an answer, a store, a look-up, a member's return, or the next attempt."""
    to_order: dict[str, Member] = field(default_factory=dict)
    """Members with something in their buckets."""
    open_orders: dict[str, Member] = field(default_factory=dict)
    """Members with an order open."""
    open_stops: int = 0
    """How many of those orders are StopFetchers."""
    resting: dict[str, Member] = field(default_factory=dict)
    """Members that did not answer an order in time, and wait for the next attempt."""
    found: dict[TopicPartition, StartFound] = field(default_factory=dict)
    """Start offsets that were looked up, and are not durable yet."""
    asked: dict[TopicPartition, StartAsked] = field(default_factory=dict)
    """The partitions that are being looked up, with the number of the look-up."""
    leaps: dict[TopicPartition, int] = field(default_factory=dict)
    """Positions that leap: being compared with the end of their partition, or found to be beyond it."""
    begun: dict[TopicPartition, tuple[bytes, int]] = field(default_factory=dict)
    """Partitions that existed when the group began to read their topic, while it has no committed offset of
    the topic; with the topic id and the first leader epoch. Partitions above all of them are new."""
    voided: dict[TopicPartition, None] = field(default_factory=dict)
    """Deleted partitions, whose znodes have to be deleted."""
    positions: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """Positions that consumers reported with their answers, and that are not durable yet."""
    positions_due_ms: int = 0
    """The time by which they have to be durable; 0: there are none."""
    commits: list[CommitWaiting] = field(default_factory=list)
    offsets_waiting: int = 0
    """The number of offsets in these, and in the store under way."""
    deletes: list[DeleteWaiting] = field(default_factory=list)
    offset_deletions: list[OffsetDeletionWaiting] = field(default_factory=list)
    farewells: list[int] = field(default_factory=list)
    """Connections that are closed when the positions are durable."""
    store: StoreInFlight | None = None
    is_reading: bool = False
    """Whether it is being read from ZooKeeper again."""
    is_read_due: bool = False
    """Whether it has to be, once no store is under way."""
    store_failures: int = 0
    store_not_before_ms: int = 0

    # ---- attempts
    began_ms: int = 0
    failures: int = 0
    """How many attempts in a row failed."""
    retry_ms: int = 0
    """When the next attempt begins; 0: none has failed."""
    gives_not_before_ms: int = 0
    """While StopFetchers are open, so that their answers need only few stores."""
    failed_partitions: dict[TopicPartition, str] = field(default_factory=dict)
    """The reasons why start offsets could not be looked up, until the next attempt."""
    rebalance_count: int = 0
    last_rebalance_ms: int = 0
    armed_ms: int = NeverDue

    @property
    def is_nothing(self) -> bool:
        """Whether nothing would be lost with it, if it has no members."""
        is_open = self.store is not None or self.is_reading
        has_requests = self.commits or self.deletes or self.offset_deletions
        return not (is_open or self.is_stored or has_requests or self.farewells)

    def become(self, state: GroupState) -> None:
        """Change the state."""
        if state is not self.state:
            assert self.state in VALID_PREDECESSORS[state], (self.name, self.state, state)
            self.state = state

    def note_reason(self, begun_by: RebalanceReason, reason: str) -> None:
        """Set the reason of the next rebalance."""
        self.begun_by, self.reason = begun_by, reason
