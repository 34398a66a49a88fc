"""What is in the znodes of a cluster that is coordinated by leaders (V2), as values: `leaders_znodes` reads
and writes them, and the core of such a cluster decides by them.

`znode` in a field's metadata is its name in the content if it has another one there, None if it is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hightide_runtime.znodes.recovered_log import RecoveredLog

FIRST_EPOCH: Final = 1
"""The epoch of a partition's first leader. 0 is the epoch before it, in which nobody led."""
NO_VERSION: Final = -1
"""The partition epoch of a partition without an ISR znode."""


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The znode of a topic: its id, its number of partitions, and its settings that differ from the
    defaults."""

    topic_id: bytes
    attempt: tuple[int, int] | None = field(default=None, metadata={"znode": "created_by"})
    """Who creates or grows it, as broker id and incarnation; None when that is done."""
    partition_count: int = 0
    """The partitions that are there for clients. Those above it are the attempt's; without one they go."""
    configs: Mapping[str, str] = field(default_factory=dict, hash=False)
    removals: int = 0
    """How often partitions were removed. It is the version of the topic id's marker, which all that is
    written about a partition checks: the versions of its znodes begin at 0 again with its number."""
    first_leader_epochs: Mapping[int, int] = field(default_factory=dict, hash=False)
    """The first leader epochs of partitions whose numbers were used before."""

    def first_epoch(self, partition: int) -> int:
        """The first leader epoch of a partition."""
        return self.first_leader_epochs.get(partition, FIRST_EPOCH)

    def counts(self, partition: int) -> bool:
        """Whether the topic has the partition, or is getting it."""
        return self.attempt is not None or partition < self.partition_count


@dataclass(frozen=True, slots=True)
class LeaderNode:
    """The leader znode: ephemeral, so it is gone soon after the session that created it."""

    broker_id: int
    epoch: int = field(metadata={"znode": "leader_epoch"})
    session: int = field(default=0, metadata={"znode": None})
    """Of who is to create it, ZooKeeper knows that."""


@dataclass(frozen=True, slots=True)
class IsrNode:
    """The ISR znode: what a leader of this epoch last wrote. It stays when the leader is gone."""

    epoch: int = field(metadata={"znode": "leader_epoch"})
    isr: tuple[int, ...]
    version: int = field(default=NO_VERSION, metadata={"znode": None})
    """The version of the znode, which is the partition epoch. Each election and each change of the ISR
    raises it. It is not in the content."""
    eligible: tuple[int, ...] = ()
    """Replicas out of the ISR that have all committed records (KIP-966)."""
    recovered: tuple[RecoveredLog, ...] = ()
    """What the logs have that may have lost their ends."""
    unclean_epoch: int = 0

    @property
    def doubted(self) -> frozenset[int]:
        """The replicas whose logs may have lost their ends."""
        return frozenset(log.broker_id for log in self.recovered)
