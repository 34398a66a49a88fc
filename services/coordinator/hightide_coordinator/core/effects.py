"""What the coordinator's core wants done. The shell performs effects in their order.

What must be durable first comes first: a StoreGroup with the owners and start offsets is answered by
StoreCommitted before the core asks for the StartFetcher of those partitions (C4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import (
    OffsetReset,
    OwnedPartition,
    PartitionOwner,
    StoredOffset,
)
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "AnswerCommit",
    "AnswerDelete",
    "AnswerDeleteOffsets",
    "AnswerReset",
    "CloseConnection",
    "Effect",
    "ItemOutcome",
    "LogSentence",
    "LookUpOffsets",
    "ReadGroup",
    "RefuseRequest",
    "Resign",
    "SendPings",
    "SendRegistered",
    "SendStartFetcher",
    "SendStopFetcher",
    "StartPartition",
    "StoreGroup",
    "WatchTopics",
]


# ---- to consumers


class SendRegistered(Struct, frozen=True):
    """Accept the registration: the first message on the stream."""

    connection_id: int
    coordinator_epoch: int
    generation: int
    member_id: str
    consumer_id: str
    ping_interval_ms: int
    answer_timeout_ms: int
    retained: tuple[OwnedPartition, ...]


class SendPings(Struct, frozen=True):
    """Pings for many consumers of one group, which differ only in `sequences`.

    `connections` are (connection id, sequence, retry count).
    """

    coordinator_epoch: int
    generation: int
    connections: tuple[tuple[int, int, int], ...]


class SendStopFetcher(Struct, frozen=True):
    """Stop reading these partitions, and only these (C7)."""

    connection_id: int
    coordinator_epoch: int
    generation: int
    sequence: int
    partitions: tuple[OwnedPartition, ...]


class StartPartition(Struct, frozen=True):
    """A partition to read, and its first offset; -1: there is no committed offset, and the consumer wants an
    error."""

    name: TopicPartition
    topic_id: bytes
    stream: int
    generation: int
    offset: int
    leader_epoch: int


class SendStartFetcher(Struct, frozen=True):
    """Read these partitions too. Owners and offsets are durable."""

    connection_id: int
    coordinator_epoch: int
    generation: int
    sequence: int
    partitions: tuple[StartPartition, ...]
    brokers: tuple[Endpoint, ...]


class CloseConnection(Struct, frozen=True):
    """End the stream: with OK if there is no refusal (a goodbye was carried out), otherwise with this
    error."""

    connection_id: int
    refusal: Refusal | None = None
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


# ---- to ZooKeeper and brokers


class StoreGroup(Struct, frozen=True):
    """Write what changed of a group, under the coordinator epoch; one store a group is under way at a time.

    Where it is too much for one multi, offsets come before owners and the group's znode comes first.
    Parents are
    made where they are missing. Answered by StoreCommitted, StoreRefused, StoreUnknown or StoreFenced.
    """

    store_id: int
    group: str
    coordinator_epoch: int
    generation: int
    session_timeout_ms: int
    owners: Mapping[TopicPartition, PartitionOwner | None] = field(default_factory=dict)
    """The new owners; None: the partition has no owner any more."""
    offsets: Mapping[TopicPartition, StoredOffset | None] = field(default_factory=dict)
    """None: deleted."""
    delete_group: bool = False
    """Delete the group with everything below it; `owners` and `offsets` are empty."""


class ReadGroup(Struct, frozen=True):
    """Read a group again, as often as necessary; answered by GroupRead."""

    group: str


class LookUpOffsets(Struct, frozen=True):
    """Ask the leaders where partitions begin or end; answered by OffsetsLookedUp, within a few seconds."""

    look_up_id: int
    wanted: Mapping[TopicPartition, OffsetReset]


class WatchTopics(Struct, frozen=True):
    """Topics to watch because they concern a group from now on (§6), and topics that concern none any more. A
    new coordinator begins with none."""

    more: frozenset[str]
    fewer: frozenset[str] = frozenset()


# ---- to callers


class ItemOutcome(Struct, frozen=True):
    """The outcome of one partition of a request; without a refusal it is durable."""

    name: TopicPartition
    refusal: Refusal | None = None
    message: str = ""
    previous_offset: int = -1


class AnswerCommit(Struct, frozen=True):
    """The answer to CommitRequested, in the order of the request."""

    request_id: int
    outcomes: tuple[ItemOutcome, ...]


class AnswerReset(Struct, frozen=True):
    """The answer to ResetRequested, in the order of the request."""

    request_id: int
    outcomes: tuple[ItemOutcome, ...]


class AnswerDelete(Struct, frozen=True):
    """Answer a deletion: the group is gone."""

    request_id: int


class AnswerDeleteOffsets(Struct, frozen=True):
    """The answer to DeleteOffsetsRequested: the number of partitions that had an offset, and have none any
    more."""

    request_id: int
    deleted_count: int


class RefuseRequest(Struct, frozen=True):
    """Refuse the whole request."""

    request_id: int
    refusal: Refusal
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class Resign(Struct, frozen=True):
    """Another coordinator was elected, or this one's session is over: end every stream with NOT_COORDINATOR
    and fail every request that waits."""


class LogSentence(Struct, frozen=True):
    """Log a sentence for operators: the cause of a rebalance, its end, members that were declared dead."""

    message: str
    is_warning: bool = False
    begun_group: str = ""
    """The group of which this says that an attempt to rebalance it begins."""
    rebalanced_group: str = ""
    """The group whose rebalance, or attempt at one, this says has ended: it is counted, and traced."""


Effect: TypeAlias = (
    SendRegistered
    | SendPings
    | SendStopFetcher
    | SendStartFetcher
    | CloseConnection
    | StoreGroup
    | ReadGroup
    | LookUpOffsets
    | WatchTopics
    | AnswerCommit
    | AnswerReset
    | AnswerDelete
    | AnswerDeleteOffsets
    | RefuseRequest
    | Resign
    | LogSentence
)
