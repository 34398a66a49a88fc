"""The controller's decisions, as the broker's own values (V3 section C)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hightide_broker.cluster.metadata import EndpointView, PartitionView
from hightide_broker.core.replica import Decision

PartitionKey = tuple[bytes, int]
"""A topic id (16 bytes) and a partition: the broker's key for its replicas."""


class Stamp(Struct, frozen=True):
    """The sender, the receiver and their epochs: the fence of every control request."""

    cluster_id: str
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    sequence: int = 0
    """The request's number among those of its controller, rising; 0: it was not given one."""


class PartitionDecision(Struct, frozen=True):
    """The decision about one partition, and what the shell has to know beside it."""

    partition: int
    decision: Decision
    first_leader_epoch: int = 0
    """The leader epoch with which the partition began: 0, unless it was removed and added again."""
    adding_replicas: tuple[int, ...] = ()
    """The replicas that a move adds."""

    @property
    def is_first(self) -> bool:
        """Whether the partition never had a leader before, so that no log of it can exist anywhere."""
        return self.decision.leader_epoch == self.first_leader_epoch

    @property
    def view(self) -> PartitionView:
        """The partition as the metadata of the cluster has it."""
        known = self.decision
        return PartitionView(
            self.partition, known.leader, known.leader_epoch, known.replicas, known.isr, known.partition_epoch
        )


class TopicDecisions(Struct, frozen=True):
    """The decisions for one topic, and the settings under which its replicas run."""

    topic: str
    topic_id: bytes
    configs: Mapping[str, str]
    partitions: tuple[PartitionDecision, ...]


class Decisions(Struct, frozen=True):
    """One LeaderAndISR request, or what a starting broker read from ZooKeeper."""

    topics: tuple[TopicDecisions, ...]
    leaders: tuple[EndpointView, ...]


class StopDecision(Struct, frozen=True):
    """An order to stop one replica; with `delete` its data goes into quarantine."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    delete: bool
    partition_epoch: int | None = None
    """The leader epoch in which it was not assigned any more; None if the partition is gone for good."""
