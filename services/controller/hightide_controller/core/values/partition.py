"""A partition as the controller sees it, and the legal changes of its state."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from hightide_runtime.znodes.recovered_log import RecoveredLog
from msgspec import Struct

__all__ = [
    "NO_LEADER",
    "VALID_PREDECESSORS",
    "LeaderAndIsr",
    "Partition",
    "PartitionState",
    "TopicPartition",
]

NO_LEADER: Final = -1


class TopicPartition(NamedTuple):
    """A topic name and a partition number; the key of every index in ClusterState."""

    topic: str
    partition: int


class PartitionState(Enum):
    """The state of a partition."""

    NON_EXISTENT = auto()
    """No topic znode names it; the state that a partition is forgotten into."""
    NEW = auto()
    """Assigned, but without a leaderAndISR znode. Its first decision *creates* that znode, so that a
    partition that was led before is never initialised again."""
    ONLINE = auto()
    """It has a leader, as the last decision known has it."""
    OFFLINE = auto()
    """No member of its ISR is alive; its leader is -1 and its ISR is kept."""


VALID_PREDECESSORS: Final[dict[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NON_EXISTENT: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    # ONLINE or OFFLINE to NEW: an operator deleted the leaderAndISR znode.
    PartitionState.NEW: frozenset(
        {PartitionState.NON_EXISTENT, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    # NEW to OFFLINE: a takeover finds the znode of a partition whose leader is gone.
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
}


class LeaderAndIsr(Struct, frozen=True):
    """The decision about one partition, as its znode holds it.

    `partition_epoch` is the zkVersion of the znode that was read; in a decision that is being stored, it is
    the version that the znode will have. `eligible` replicas left the ISR when it fell below
    min.insync.replicas, and have all committed records (KIP-966). `recovered` are the logs that may have lost
    their ends. `unclean_epoch` is the last leader epoch whose election may have lost records, 0: none.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int
    eligible: tuple[int, ...] = ()
    recovered: tuple[RecoveredLog, ...] = ()
    unclean_epoch: int = 0

    @property
    def is_unclean(self) -> bool:
        """Whether its leader was elected although it may lack records."""
        return self.unclean_epoch > 0 and self.unclean_epoch == self.leader_epoch and self.leader != NO_LEADER


class Partition(Struct, frozen=True):
    """One partition: its replicas, and the last decision known about it."""

    name: TopicPartition
    replicas: tuple[int, ...]
    state: PartitionState
    leader_and_isr: LeaderAndIsr | None

    def __post_init__(self) -> None:
        assert self.replicas, self.name
        assert (self.state is PartitionState.NEW) == (self.leader_and_isr is None), self
