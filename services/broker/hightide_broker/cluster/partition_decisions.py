"""The controller's decisions, as the broker's own dataclasses (V3 section C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hightide_broker.cluster.metadata import EndpointView
from hightide_broker.core.isr_state import RecoveredLog

PartitionKey = tuple[bytes, int]
"""A topic id (16 bytes) and a partition: the broker's key for its replicas."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The sender, the receiver and their epochs: the fence of every control request."""

    cluster_id: str
    controller_id: int
    controller_epoch: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionDecision:
    """The decision about one partition, as in its leaderAndISR znode."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    first_leader_epoch: int = 0
    """The leader epoch with which the partition began: 0, unless it was removed and added again."""
    adding_replicas: tuple[int, ...] = ()
    """The replicas that a move adds."""
    eligible: tuple[int, ...] = ()
    """Replicas that are not in the ISR and have all committed records (KIP-966)."""
    recovered: tuple[RecoveredLog, ...] = ()
    """How far the logs go of the replicas that may have lost the end of theirs."""
    unclean_epoch: int = 0
    """The last leader epoch whose election may have lost records; 0 if there was none."""

    @property
    def is_first(self) -> bool:
        """Whether the partition never had a leader before, so that no log of it can exist anywhere."""
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
    """An order to stop one replica; with `delete` its data goes into quarantine."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    delete: bool
    partition_epoch: int | None = None
    """The leader epoch in which it was not assigned any more; None if the partition is gone for good."""
