"""Which partition is meant, and what the coordinator knows of topics."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

__all__ = ["Topic", "TopicPartition"]


class TopicPartition(NamedTuple):
    """The key of every index in the core."""

    topic: str
    partition: int


class Topic(Struct, frozen=True):
    """A topic znode as the coordinator reads it."""

    name: str
    topic_id: bytes
    partition_count: int
    first_leader_epochs: dict[int, int] = field(default_factory=dict)
    """Partition → the leader epoch that it begins with, where its number was used and removed before. What
    was
    committed under an earlier one is void."""
