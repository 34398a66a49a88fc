"""What requests ask of one topic, until it is done: the part of an RPC that topic_writes.py carries out.

A requested change stays with its topic until ZooKeeper holds it, or it is refused. So writes that fail, or
whose outcome is unknown, need no special handling. It outlives its request once a write that carries it may
have happened (`is_begun`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["RequestedChange", "RequestedGrowth", "RequestedMoves", "RequestedSettings", "RequestedShrink"]


@dataclass(slots=True)
class RequestedGrowth:
    """AddPartitions: the topic is to have `partition_count` partitions."""

    request_id: int
    partition_count: int
    assignment: tuple[tuple[int, ...], ...] = ()
    """AR of the new ones; chosen at the beginning if the request leaves it open."""
    is_begun: bool = False
    """Whether a write that carries it was sent to ZooKeeper."""


@dataclass(slots=True)
class RequestedShrink:
    """RemovePartitions: the topic is to have `partition_count` partitions."""

    request_id: int
    partition_count: int
    is_begun: bool = False


@dataclass(slots=True)
class RequestedSettings:
    """AlterTopicConfig: settings to set, and settings to reset to their defaults."""

    request_id: int
    to_set: dict[str, str] = field(default_factory=dict)
    to_reset: tuple[str, ...] = ()
    is_begun: bool = False


@dataclass(slots=True)
class RequestedMoves:
    """ReassignPartitions and CancelReassignments, as far as they are about one topic.

    Partition → its new replicas, None if its move is to be cancelled. Partitions that are settled are
    removed.
    """

    request_id: int
    targets: dict[int, tuple[int, ...] | None]
    begun: set[int] = field(default_factory=set)
    """Partitions of which a write was sent to ZooKeeper."""
    is_begun: bool = False
    """Never: the request is answered when the moves are stored, whatever brokers have received."""


RequestedChange = RequestedGrowth | RequestedShrink | RequestedSettings | RequestedMoves
