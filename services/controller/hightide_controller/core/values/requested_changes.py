"""What requests ask of one topic, until it is so: the part of an RPC that topic_writes.py carries out.

A wish stays with its topic until ZooKeeper holds what it asks for, or it is refused: writes that fail, or
whose outcome is unknown, need no further thought. It outlives the patience of its request once a write that
carries it may have happened (`is_begun`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["RequestedChange", "RequestedGrowth", "RequestedMoves", "RequestedSettings", "RequestedShrink"]


@dataclass(slots=True)
class RequestedGrowth:
    """AddPartitions: the topic shall have `partition_count` partitions."""

    request_id: int
    partition_count: int
    assignment: tuple[tuple[int, ...], ...] = ()
    """AR of the new ones; chosen when it begins where the request leaves it open."""
    is_begun: bool = False
    """Whether a write that carries it was handed to ZooKeeper."""


@dataclass(slots=True)
class RequestedShrink:
    """RemovePartitions: the topic shall have `partition_count` partitions."""

    request_id: int
    partition_count: int
    is_begun: bool = False


@dataclass(slots=True)
class RequestedSettings:
    """AlterTopicConfig: these settings shall hold, and those be back to their defaults."""

    request_id: int
    to_set: dict[str, str] = field(default_factory=dict)
    to_reset: tuple[str, ...] = ()
    is_begun: bool = False


@dataclass(slots=True)
class RequestedMoves:
    """ReassignPartitions and CancelReassignments, as far as one topic is meant.

    Partition → the replicas that it shall have, None where its move shall be taken back. What is settled is
    left out from then on.
    """

    request_id: int
    targets: dict[int, tuple[int, ...] | None]
    begun: set[int] = field(default_factory=set)
    """Partitions of which a write was handed to ZooKeeper."""
    is_begun: bool = False
    """Never: the request is answered when the moves are stored, whatever brokers have heard of it."""


RequestedChange = RequestedGrowth | RequestedShrink | RequestedSettings | RequestedMoves
