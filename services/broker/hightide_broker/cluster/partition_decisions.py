"""What the controller decided, as the broker's own dataclasses (V3 section C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hightide_broker.cluster.metadata import EndpointView
from hightide_broker.core.isr_state import RecoveredLog

PartitionKey = tuple[bytes, int]
"""A topic id (16 bytes) and a partition: what the broker knows its replicas by."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who speaks, to whom, and under which epochs: the fence of every control request."""

    cluster_id: str
    controller_id: int
    controller_epoch: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionDecision:
    """Who shall lead one partition; as the leaderAndISR znode says it."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    first_leader_epoch: int = 0
    """The leader epoch that the partition began with: 0, but for one that was removed and added again."""
    adding_replicas: tuple[int, ...] = ()
    """The replicas that a move adds."""
    eligible: tuple[int, ...] = ()
    """Out of the ISR, and hold all that is committed (KIP-966)."""
    recovered: tuple[RecoveredLog, ...] = ()
    """Of those that may have lost the end of their logs."""
    unclean_epoch: int = 0
    """The last leader epoch whose election may have lost records; 0 where none did."""

    @property
    def is_first(self) -> bool:
        """Whether nobody has led the partition before: there can be no log of it anywhere."""
        return self.leader_epoch == self.first_leader_epoch


@dataclass(frozen=True, slots=True)
class TopicDecisions:
    """The decisions for one topic, and the settings under which its replicas run."""

    topic: str
    topic_id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionDecision, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """One LeaderAndISR request, or what a starting broker read from ZooKeeper."""

    topics: tuple[TopicDecisions, ...]
    leaders: tuple[EndpointView, ...]


@dataclass(frozen=True, slots=True)
class StopDecision:
    """One replica to stop; with `delete` its data goes into quarantine."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    delete: bool
    partition_epoch: int | None = None
    """The one with which it was not assigned any more; None where the partition is gone for good."""
