"""What a consumer says of itself when it registers, and what the stores remember of groups."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "ConsumerPosition",
    "OffsetReset",
    "OwnedPartition",
    "PartitionOwner",
    "Registration",
    "StoredGroup",
    "StoredOffset",
]


class OffsetReset(Enum):
    """Where a partition starts of which the group has committed nothing."""

    SMALLEST = "smallest"
    LARGEST = "largest"
    #: Nowhere: the consumer is told with offset -1, and decides.
    ERROR = "error"


class OwnedPartition(Struct, frozen=True):
    """A partition that a consumer says it owns, since this generation."""

    name: TopicPartition
    generation: int


class ConsumerPosition(Struct, frozen=True):
    """How far a consumer has come in a partition that was given to it in this generation."""

    name: TopicPartition
    generation: int
    offset: int
    leader_epoch: int = -1


class TopicFilter(Struct, frozen=True):
    """A subscription by pattern: the topics that the RE2 expression `pattern` matches, and none of `exclude`.
    Equal filters are matched once, for all members."""

    pattern: str
    exclude: tuple[str, ...] = ()
    """RE2 expressions, sorted, each once."""


class Registration(Struct, frozen=True):
    """The first message of a consumer (consumer coordinator §7, RegisterConsumerRequest)."""

    group: str
    consumer_id: str = ""
    member_id: str = ""
    """Empty the first time; then what the coordinator gave, also an earlier one."""
    instance_id: str = ""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Topic → number of streams; empty with a pattern."""
    pattern: str = ""
    exclude: tuple[str, ...] = ()
    pattern_streams: int = 1
    auto_commit: bool = True
    offset_reset: OffsetReset = OffsetReset.SMALLEST
    session_timeout_ms: int = 10_000
    assignor: str = ""
    owned: tuple[OwnedPartition, ...] = ()
    seen_coordinator_epoch: int = 0
    peer: str = ""
    """Its network address, for people to read."""

    @property
    def filter(self) -> TopicFilter:
        """The subscription by pattern."""
        assert self.pattern, "it names topics"
        return TopicFilter(self.pattern, self.exclude)


class PartitionOwner(Struct, frozen=True):
    """Whose a partition is: (member_id, generation) is the fence of commits."""

    member_id: str
    consumer_id: str
    instance_id: str
    stream: int
    generation: int
    topic_id: bytes = b""
    """Of which topic of that name; empty: an operator wrote it."""
    first_leader_epoch: int = 0
    """Of which partition of that number: `Topic.first_leader_epochs`."""


class StoredOffset(Struct, frozen=True):
    """A committed offset. It holds for the topic with this id only."""

    offset: int
    leader_epoch: int
    topic_id: bytes
    metadata: str = ""
    first_leader_epoch: int = 0
    """Of the partition, as far as the coordinator knew that stored it; 0 if its number was not used
    before."""


class StoredGroup(Struct, frozen=True):
    """A group as ZooKeeper holds it."""

    generation: int = 0
    session_timeout_ms: int = 0
    owners: Mapping[TopicPartition, PartitionOwner] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    """Topics of which it holds something that is not told, because their znodes cannot be understood now."""
