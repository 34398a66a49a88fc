"""The values that describe consumer groups. All of them are immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hightide.records import TopicPartition

if TYPE_CHECKING:
    from hightide.errors import HightideError

GroupStateName = Literal["unspecified", "empty", "recovering", "gathering", "rebalancing", "stable", "failed"]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group in a list, with its coordinator's address."""

    group: str
    state: GroupStateName
    member_count: int
    generation: int
    coordinator_address: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer of a group. A member that is not connected keeps its partitions for a while. `partitions`
    are those that it owns, each with the generation in which it was assigned."""

    consumer_id: str
    instance_id: str
    peer: str
    session_timeout_ms: int
    is_connected: bool
    topics: Mapping[str, int]
    pattern: str
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The position that a group has committed for a partition: the offset of the next record to read, the
    leader epoch of the record before it (-1: not known), and the metadata that the application stored with
    it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The state of one group, from its coordinator. `reason` says what began the last rebalance, or why it
    failed."""

    group: str
    state: GroupStateName
    reason: str
    generation: int
    assignor: str
    members: tuple[GroupMember, ...]
    offsets: Mapping[TopicPartition, CommittedOffset]
    topics: tuple[str, ...]
    coordinator_id: int
    coordinator_address: str
    coordinator_epoch: int
    rebalance_count: int
    last_rebalance_ms: int

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Partition → the consumer id of its owner."""
        return {partition: member.consumer_id for member in self.members for partition in member.partitions}


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in one partition. `lag` is the number of records between the committed offset and
    the high watermark `end`; it is None if nothing is committed, or if the partition no longer exists.
    `owner` is the consumer id of the consumer that reads it."""

    partition: TopicPartition
    committed: int | None
    end: int | None
    lag: int | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The outcome of a reset for one partition. `previous` is the offset that was committed before, or None;
    `offset` is the offset that is committed now, or would be. If nothing was done, `error` says why."""

    partition: TopicPartition
    previous: int | None
    offset: int
    error: "HightideError | None" = None

    @property
    def ok(self) -> bool:
        """Whether the reset was carried out, or could be."""
        return self.error is None
