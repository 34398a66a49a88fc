"""What happens to the coordinator of one shard. Events enter the core through `machine.step` and nowhere
else.

`connection_id` numbers the streams of RegisterConsumer, `request_id` the other RPCs: the shell makes both
up and
uses none twice. `step` is given the time with each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

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


class Endpoint(Struct, frozen=True):
    """A broker or coordinator, and its addresses."""

    id: int
    host: str
    port: int
    external_host: str = ""
    """The address for clients from outside; empty: none."""
    external_port: int = 0


class Elected(Struct, frozen=True):
    """This process is the active coordinator of the shard. It has everything that ZooKeeper holds about the
    shard's groups and about all topics (§5 coordinatorStartup, §10)."""

    coordinator_epoch: int
    groups: Mapping[str, StoredGroup]
    topics: Mapping[str, Topic]
    brokers: tuple[Endpoint, ...] = ()


class Deposed(Struct, frozen=True):
    """This process is not the active coordinator (any more): its session expired, or another one was elected.
    It forgets everything (§10 handleNewSession)."""


class CoordinatorSeen(Struct, frozen=True):
    """Another process is active; None: no process is. For refusals that name it."""

    coordinator: Endpoint | None


class TopicsChanged(Struct, frozen=True):
    """Topics were created, deleted (None) or changed (§6). If `is_full`, it is the full list: other topics
    are gone."""

    topics: Mapping[str, Topic | None]
    is_full: bool = False


class BrokersChanged(Struct, frozen=True):
    """The live brokers, for StartFetcher."""

    brokers: tuple[Endpoint, ...]


class Ticked(Struct, frozen=True):
    """Time has passed. The shell sends it when `machine.next_deadline_ms` has come."""


# ---- consumers


class ConsumerRegistered(Struct, frozen=True):
    """A stream was opened with this registration (§7). `new_member_id` and `new_consumer_id` are made up
    by the
    shell, for whom they are needed: the core draws no random numbers."""

    connection_id: int
    registration: Registration
    new_member_id: str
    new_consumer_id: str


class PingAnswered(Struct, frozen=True):
    """The answer to a Ping, with the positions of an auto-committing consumer (§11)."""

    connection_id: int
    sequence: int
    coordinator_epoch: int
    generation: int
    positions: tuple[ConsumerPosition, ...] = ()


class FetchersStopped(Struct, frozen=True):
    """The answer to a StopFetcher (§11)."""

    connection_id: int
    sequence: int
    coordinator_epoch: int
    generation: int
    positions: tuple[ConsumerPosition, ...] = ()


class FetchersStarted(Struct, frozen=True):
    """The answer to a StartFetcher (§11)."""

    connection_id: int
    sequence: int
    coordinator_epoch: int
    generation: int


class ConsumerLeft(Struct, frozen=True):
    """The goodbye: the consumer has stopped everything and leaves for good."""

    connection_id: int
    positions: tuple[ConsumerPosition, ...] = ()


class ConnectionLost(Struct, frozen=True):
    """The stream ended without a goodbye; the consumer may come back."""

    connection_id: int


# ---- requests


class OffsetCommit(Struct, frozen=True):
    """One offset of a CommitOffsets or ResetOffsets request."""

    name: TopicPartition
    generation: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    is_reset: bool = False


class CommitRequested(Struct, frozen=True):
    """CommitOffsets, from a member, or from a caller that is no member (member_id empty)."""

    request_id: int
    group: str
    member_id: str
    commits: tuple[OffsetCommit, ...]
    sequence: int = 0
    """The member's own number of the request; 0: it does not count them."""


class ResetRequested(Struct, frozen=True):
    """ResetOffsets."""

    request_id: int
    group: str
    commits: tuple[OffsetCommit, ...]
    validate_only: bool = False


class DeleteGroupRequested(Struct, frozen=True):
    """DeleteGroup."""

    request_id: int
    group: str


class DeleteOffsetsRequested(Struct, frozen=True):
    """DeleteOffsets."""

    request_id: int
    group: str
    topics: tuple[str, ...]
    validate_only: bool = False


# ---- outcomes of effects


class StoreCommitted(Struct, frozen=True):
    """All writes of a StoreGroup are durable."""

    store_id: int


class StoreRefused(Struct, frozen=True):
    """Some writes of a StoreGroup did not find ZooKeeper as expected, because an operator changed it. Others
    may have been done. The group has to be read again."""

    store_id: int


class StoreUnknown(Struct, frozen=True):
    """The connection broke: each write of a StoreGroup may have been done or not, or may still be done. The
    group has to be read again, once ZooKeeper answers."""

    store_id: int


class StoreFenced(Struct, frozen=True):
    """The coordinator epoch has moved: another one was elected. Nothing was written."""

    store_id: int


class GroupRead(Struct, frozen=True):
    """The answer to ReadGroup: the group after all stores sent before. None: it does not exist."""

    group: str
    stored: StoredGroup | None


class OffsetsLookedUp(Struct, frozen=True):
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
