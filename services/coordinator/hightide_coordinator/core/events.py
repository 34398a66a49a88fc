"""What happens to the coordinator of one shard. Events enter the core through `machine.step` and nowhere
else.

`connection_id` numbers the streams of RegisterConsumer, `request_id` the other RPCs: the shell makes both
up and
uses none twice. `step` is given the time with each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hightide_coordinator.core.values.registration import (
    ConsumerPosition,
    Registration,
    StoredGroup,
    StoredOffset,
)
from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition

__all__ = [
    "BrokersChanged",
    "CommitRequested",
    "ConnectionLost",
    "ConsumerLeft",
    "ConsumerRegistered",
    "CoordinatorSeen",
    "DeleteGroupRequested",
    "DeleteOffsetsRequested",
    "Deposed",
    "Elected",
    "Endpoint",
    "Event",
    "FetchersStarted",
    "FetchersStopped",
    "GroupRead",
    "OffsetCommit",
    "OffsetsLookedUp",
    "PingAnswered",
    "ResetRequested",
    "StoreCommitted",
    "StoreFenced",
    "StoreRefused",
    "StoreUnknown",
    "Ticked",
    "TopicsChanged",
]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker or coordinator, and its addresses."""

    id: int
    host: str
    port: int
    external_host: str = ""
    """The address for clients from outside; empty: none."""
    external_port: int = 0


@dataclass(frozen=True, slots=True)
class Elected:
    """This process is the active coordinator of the shard. It has everything that ZooKeeper holds about the
    shard's groups and about all topics (§5 coordinatorStartup, §10)."""

    coordinator_epoch: int
    groups: Mapping[str, StoredGroup]
    topics: Mapping[str, Topic]
    brokers: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Deposed:
    """This process is not the active coordinator (any more): its session expired, or another one was elected.
    It forgets everything (§10 handleNewSession)."""


@dataclass(frozen=True, slots=True)
class CoordinatorSeen:
    """Another process is active; None: no process is. For refusals that name it."""

    coordinator: Endpoint | None


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics were created, deleted (None) or changed (§6). If `is_full`, it is the full list: other topics
    are gone."""

    topics: Mapping[str, Topic | None]
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """The live brokers, for StartFetcher."""

    brokers: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed. The shell sends it when `machine.next_deadline_ms` has come."""


# ---- consumers


@dataclass(frozen=True, slots=True)
class ConsumerRegistered:
    """A stream was opened with this registration (§7). `new_member_id` and `new_consumer_id` are made up
    by the
    shell, for whom they are needed: the core draws no random numbers."""

    connection_id: int
    registration: Registration
    new_member_id: str
    new_consumer_id: str


@dataclass(frozen=True, slots=True)
class PingAnswered:
    """The answer to a Ping, with the positions of an auto-committing consumer (§11)."""

    connection_id: int
    sequence: int
    coordinator_epoch: int
    generation: int
    positions: tuple[ConsumerPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchersStopped:
    """The answer to a StopFetcher (§11)."""

    connection_id: int
    sequence: int
    coordinator_epoch: int
    generation: int
    positions: tuple[ConsumerPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchersStarted:
    """The answer to a StartFetcher (§11)."""

    connection_id: int
    sequence: int
    coordinator_epoch: int
    generation: int


@dataclass(frozen=True, slots=True)
class ConsumerLeft:
    """The goodbye: the consumer has stopped everything and leaves for good."""

    connection_id: int
    positions: tuple[ConsumerPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The stream ended without a goodbye; the consumer may come back."""

    connection_id: int


# ---- requests


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """One offset of a CommitOffsets or ResetOffsets request."""

    name: TopicPartition
    generation: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    is_reset: bool = False


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """CommitOffsets, from a member, or from a caller that is no member (member_id empty)."""

    request_id: int
    group: str
    member_id: str
    commits: tuple[OffsetCommit, ...]
    sequence: int = 0
    """The member's own number of the request; 0: it does not count them."""


@dataclass(frozen=True, slots=True)
class ResetRequested:
    """ResetOffsets."""

    request_id: int
    group: str
    commits: tuple[OffsetCommit, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteGroupRequested:
    """DeleteGroup."""

    request_id: int
    group: str


@dataclass(frozen=True, slots=True)
class DeleteOffsetsRequested:
    """DeleteOffsets."""

    request_id: int
    group: str
    topics: tuple[str, ...]
    validate_only: bool = False


# ---- outcomes of effects


@dataclass(frozen=True, slots=True)
class StoreCommitted:
    """All writes of a StoreGroup are durable."""

    store_id: int


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """Some writes of a StoreGroup did not find ZooKeeper as expected, because an operator changed it. Others
    may have been done. The group has to be read again."""

    store_id: int


@dataclass(frozen=True, slots=True)
class StoreUnknown:
    """The connection broke: each write of a StoreGroup may have been done or not, or may still be done. The
    group has to be read again, once ZooKeeper answers."""

    store_id: int


@dataclass(frozen=True, slots=True)
class StoreFenced:
    """The coordinator epoch has moved: another one was elected. Nothing was written."""

    store_id: int


@dataclass(frozen=True, slots=True)
class GroupRead:
    """The answer to ReadGroup: the group after all stores sent before. None: it does not exist."""

    group: str
    stored: StoredGroup | None


@dataclass(frozen=True, slots=True)
class OffsetsLookedUp:
    """The answer to LookUpOffsets: offsets found at the leaders, and the reasons why others were not
    found."""

    look_up_id: int
    found: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)


Event: TypeAlias = (
    Elected
    | Deposed
    | CoordinatorSeen
    | TopicsChanged
    | BrokersChanged
    | Ticked
    | ConsumerRegistered
    | PingAnswered
    | FetchersStopped
    | FetchersStarted
    | ConsumerLeft
    | ConnectionLost
    | CommitRequested
    | ResetRequested
    | DeleteGroupRequested
    | DeleteOffsetsRequested
    | StoreCommitted
    | StoreRefused
    | StoreUnknown
    | StoreFenced
    | GroupRead
    | OffsetsLookedUp
)
