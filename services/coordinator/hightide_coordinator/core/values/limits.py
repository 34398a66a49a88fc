"""The settings of the coordinator that its core decides by (consumer coordinator §4)."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["GroupLimits"]


class GroupLimits(Struct, frozen=True):
    """Set from the command line; times in milliseconds."""

    session_timeout_min_ms: int = 500
    session_timeout_max_ms: int = 1_800_000
    ping_retries_max: int = 0
    """How many Pings in a row may go unanswered beyond the first. Pings go out every third of the session
    timeout
    and each has two thirds of it, so that 0 means: dead after one session timeout of silence."""
    commit_interval_ms: int = 5_000
    """How often positions of auto-committing consumers are written down."""
    join_window_ms: int = 100
    """A change of members waits so long for more of them, again and again while more come (C7)."""
    join_window_max_ms: int = 3_000
    """The longest time of all these waits together."""
    rebalance_retries_max: int = 4
    rebalance_backoff_ms: int = 500
    rebalance_backoff_max_ms: int = 10_000
    consumers_max: int = 20_000
    groups_max: int = 10_000
    commits_per_request_max: int = 10_000
    commits_waiting_max: int = 10_000
    """How many CommitOffsets of one group may wait for ZooKeeper."""
    offsets_waiting_max: int = 100_000
    """How many offsets they may hold altogether."""
    commit_bytes_waiting_max: int = 128 << 20
    """What the commits of all groups of the shard that wait may take, in memory."""
    deletes_waiting_max: int = 100
    """How many DeleteGroups, and how many DeleteOffsets, of one group may wait for ZooKeeper."""
    topics_per_deletion_max: int = 1_000
    resets_checked_max: int = 100
    """For how many ResetOffsets the ends of partitions may be looked up at the same time."""
    commits_checked_max: int = 10_000
    """The same for CommitOffsets."""
    leaps_checked_max: int = 1_000
    """The same for positions of members."""
    streams_max: int = 64
    topics_per_consumer_max: int = 1_000
    pattern_characters_max: int = 1_000
    patterns_per_group_max: int = 100
    """How many different ones the members of a group may subscribe to."""
    patterns_max: int = 2_000
    """How many different ones all groups of the shard may."""
