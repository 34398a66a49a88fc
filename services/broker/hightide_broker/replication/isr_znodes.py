"""How the two kinds of clusters spell in ZooKeeper what a leader stores about its partition.

One adapter for clusters with a controller (leaderAndISR), and one for those without (ISR). `isr_store` knows
neither: it writes by version, and reads what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hightide_leaders.core.elections import isr_change
from hightide_leaders.core.values import TopicPartition
from hightide_leaders.znode_operations import operations_of
from hightide_runtime.znodes.cluster_znodes import BrokerIncarnationZnode, LeaderAndIsrZnode, TopicZnode
from hightide_runtime.znodes.leaders_znodes import IsrZnode, LedTopicZnode
from hightide_runtime.znodes.led_nodes import IsrNode
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.zookeeper.session import Check, SetData

from hightide_broker.core.effects import StoreIsr
from hightide_broker.core.replica import NO_LEADER


@dataclass(frozen=True, slots=True)
class StoredIsr:
    """What the znode says, beside its version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    recovered: tuple[RecoveredLog, ...]


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """What the znode of a topic says about which partitions there are."""

    topic_id: bytes
    """Empty if an operator wrote the znode, and it has no id yet."""
    partition_count: int | None = None
    """None if that is not in the znode: then a partition is gone only with its topic."""
    first_leader_epochs: Mapping[int, int] = field(default_factory=dict)
    """The first leader epochs of partitions whose numbers were used before."""


class IsrZnodes(Protocol):
    """The znodes of the partitions that this broker leads."""

    def path(self, topic: str, partition: int) -> str:
        """The znode with the ISR; its version is the partition epoch."""
        ...

    def change(self, topic: str, partition: int, effect: StoreIsr) -> tuple[SetData, tuple[Check, ...]]:
        """The write of an ISR, and the checks that the followers which join are in the life that fetched."""
        ...

    def decode(self, data: bytes) -> StoredIsr:
        """What the znode says. Raises ZnodeGarbage."""
        ...

    def decode_topic(self, data: bytes) -> StoredTopic:
        """What the topic's znode says. Raises ZnodeGarbage."""
        ...


class LeaderAndIsrZnodes:
    """In a cluster with a controller, which writes the same znodes."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def path(self, topic: str, partition: int) -> str:
        """leaderAndISR."""
        return LeaderAndIsrZnode.path(topic, partition)

    def change(self, topic: str, partition: int, effect: StoreIsr) -> tuple[SetData, tuple[Check, ...]]:
        """The leader, and the controller epoch of the decision, stay as they are."""
        znode = LeaderAndIsrZnode(
            self._broker_id,
            effect.leader_epoch,
            effect.isr,
            effect.controller_epoch,
            eligible=effect.eligible,
            recovered=effect.recovered,
            unclean_epoch=effect.unclean_epoch,
        )
        write = SetData(self.path(topic, partition), znode.encode(), effect.expected_partition_epoch)
        return write, tuple(
            Check(BrokerIncarnationZnode.path(member), life) for member, life in effect.joining
        )

    def decode(self, data: bytes) -> StoredIsr:
        """leaderAndISR."""
        read = LeaderAndIsrZnode.decode(data)
        return StoredIsr(read.leader, read.leader_epoch, read.isr, read.eligible, read.recovered)

    def decode_topic(self, data: bytes) -> StoredTopic:
        """Its partitions are in the topic's znode."""
        read = TopicZnode.decode(data)
        return StoredTopic(read.topic_id, len(read.partitions), dict(read.first_leader_epochs))


class LedIsrZnodes:
    """In a cluster without a controller, where only leaders write these znodes."""

    def path(self, topic: str, partition: int) -> str:
        """ISR."""
        return IsrZnode.path(topic, partition)

    def change(self, topic: str, partition: int, effect: StoreIsr) -> tuple[SetData, tuple[Check, ...]]:
        """What the decider says about the write of its leader (V2 commit thread: ISR and CUR)."""
        isr = IsrNode(
            effect.leader_epoch,
            effect.isr,
            eligible=effect.eligible,
            recovered=effect.recovered,
            unclean_epoch=effect.unclean_epoch,
        )
        name = TopicPartition(topic, partition)
        *lives, write = operations_of(isr_change(name, isr, effect.expected_partition_epoch, effect.joining))
        assert isinstance(write, SetData), write
        return write, tuple(each for each in lives if isinstance(each, Check))

    def decode(self, data: bytes) -> StoredIsr:
        """ISR; who leads is said by another znode."""
        read = IsrZnode.decode(data)
        return StoredIsr(NO_LEADER, read.epoch, read.isr, read.eligible, read.recovered)

    def decode_topic(self, data: bytes) -> StoredTopic:
        """Its partitions are its children, also those that an admin is adding."""
        read = LedTopicZnode.decode(data)
        return StoredTopic(read.topic_id, first_leader_epochs=dict(read.first_leader_epochs))
