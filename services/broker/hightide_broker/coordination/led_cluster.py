"""A cluster without a controller (V2), as its znodes spell it: read at the start, for strays, and piece by
piece when something has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hightide_leaders.core import elections
from hightide_leaders.core.values import PartitionNodes, TopicPartition
from hightide_leaders.znode_operations import numbers_in, operations_of, partition_of, paths_of
from hightide_runtime.znodes.admin_znodes import ReassignmentThrottleZnode
from hightide_runtime.znodes.cluster_znodes import TOPICS, ClusterIdZnode, TopicZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.leaders_znodes import LedTopicZnode
from hightide_runtime.znodes.led_nodes import FIRST_EPOCH, IsrNode, LeaderNode
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import Operation, ZooKeeperSession

from hightide_broker.cluster.metadata import (
    EndpointView,
    MetadataUpdate,
    PartitionView,
    RemovedPartitions,
    TopicView,
)
from hightide_broker.cluster.partition_decisions import Decisions, PartitionDecision, TopicDecisions
from hightide_broker.core.replica import NO_LEADER, Decision
from hightide_broker.hosting.startup import ClusterAsStored, read_brokers
from hightide_broker.hosting.strays import HeldReplica, StoredPartitions, is_of_cluster

log = logging.getLogger(__name__)

EPOCH: Final = 0
"""The controller epoch of every decision: there is no controller."""
Topics = dict[str, tuple[LedTopicZnode, dict[int, PartitionNodes]]]
"""Topics by name, each with the partitions of it that were read."""
KNOWN: Final = 1
"""The controller epoch of metadata, which says that some has been read."""


def log_garbage(subject: str, reason: str) -> None:
    """Log what cannot be read."""
    log.error("%s: %s", subject, reason)


Complain = Callable[[str, str], None]
"""Hears what in ZooKeeper cannot be read, and why."""


class LedCluster:
    """Reads the znodes. Belongs to the event loop's thread."""

    def __init__(self, session: ZooKeeperSession, cluster_id: str, me: EndpointView) -> None:
        """`me`: this broker, which clients may ask for everything that elsewhere a controller answers."""
        self._session = session
        self._cluster_id = cluster_id
        self._me = me

    async def read(self) -> ClusterAsStored:
        """Read the whole cluster, at least as new as this call. Raises ZooKeeperError."""
        await self._session.sync()
        brokers = await read_brokers(self._session)
        unreadable: list[str] = []

        def complain(subject: str, reason: str) -> None:
            log_garbage(subject, reason)
            unreadable.append(subject)

        topics = await self.read_topics(await self._session.children(TOPICS), complain)
        mine = []
        for name, (topic, nodes) in topics.items():
            decided = tuple(
                PartitionDecision(number, decision_of(each), first_leader_epoch(each.first_epoch))
                for number, each in sorted(nodes.items())
                if each.isr is not None and self._me.id in each.assigned
            )
            if decided:
                mine.append(TopicDecisions(name, topic.topic_id, topic.configs, decided))
        update = self.update(brokers, views_of(topics), full=True)
        markers = {topic.topic_id: topic.removals for topic, _ in topics.values()}
        return ClusterAsStored(EPOCH, update, Decisions(tuple(mine), brokers), tuple(unreadable), markers)

    def update(
        self,
        brokers: Iterable[EndpointView],
        topics: Iterable[TopicView],
        deleted: Iterable[bytes] = (),
        removed: Iterable[RemovedPartitions] = (),
        *,
        full: bool = False,
        throttle_bytes_per_s: int | None = None,
    ) -> MetadataUpdate:
        """News of the cluster, as a controller would send it."""
        return MetadataUpdate(
            KNOWN, self._me, tuple(brokers), tuple(topics), tuple(deleted), full,
            tuple(removed), reassignment_throttle_bytes_per_s=throttle_bytes_per_s,
        )  # fmt: skip

    def departure(
        self, topic: TopicDecisions, stored: PartitionDecision, told: RecoveredLog
    ) -> Sequence[Operation]:
        """What the decider says about leaving an ISR. A leader znode of an earlier life goes with it."""
        decision = stored.decision
        nodes = PartitionNodes(
            topic.topic_id.hex(),
            decision.replicas,
            None if decision.leader == NO_LEADER else LeaderNode(decision.leader, decision.leader_epoch, 0),
            IsrNode(
                decision.leader_epoch, decision.isr, decision.partition_epoch, decision.eligible,
                decision.recovered, decision.unclean_epoch,
            ),
        )  # fmt: skip
        name = TopicPartition(topic.topic, stored.partition)
        write = elections.departure(name, nodes, told.broker_id, told.leader_epoch, told.log_end_offset)
        return operations_of(write or ())

    async def read_suspects(self, suspects: Sequence[HeldReplica]) -> StoredPartitions | None:
        """What `strays.look_at` needs, at least as new as this call; None if this is another cluster's
        ZooKeeper. Raises ZooKeeperError.

        The assignment is read together with the ISR, and every write that takes a replica away gives the ISR
        another version.
        """
        await self._session.sync()
        found = await self._session.multi_read([ClusterIdZnode.path()])
        if not is_of_cluster(found.get(ClusterIdZnode.path()), self._cluster_id):
            return None
        is_whole = any(not held.topic for held in suspects)
        names = {held.topic for held in suspects}
        if is_whole:
            names = set(filter(is_legal_topic_name, await self._session.children(TOPICS)))
        read = await self.read_topics(sorted(names))
        # One that is there and cannot be read is not gone.
        exist = await self._session.multi_read([LedTopicZnode.path(name) for name in names - read.keys()])
        topics: dict[str, TopicZnode | None] = {path.rpartition("/")[2]: None for path in exist}
        states: dict[tuple[str, int], tuple[int, int]] = {}
        for name, (topic, nodes) in read.items():
            count = max(nodes, default=-1) + 1
            replicas = (nodes[number].assigned if number in nodes else () for number in range(count))
            topics[name] = TopicZnode(topic.topic_id, tuple(replicas))
            states |= {
                (name, number): (each.epoch, each.version)
                for number, each in nodes.items()
                if each.isr is not None
            }
        return StoredPartitions(topics, states, is_whole=is_whole)

    # --- pieces ----------------------------------------------------------------------------------

    async def read_throttle(self, complain: Complain = log_garbage) -> int | None:
        """The speed limit of moves in bytes a second; 0: there is none; None: it cannot be read, and
        `complain` gets why. Raises ZooKeeperError."""
        path = ReassignmentThrottleZnode.path()
        znode = (await self._session.multi_read([path])).get(path)
        if znode is None:
            return 0
        try:
            return ReassignmentThrottleZnode.decode(znode.data).throttle_bytes_per_s
        except ZnodeGarbage as error:
            complain(path, error.reason)
            return None

    async def read_topics(self, names: Iterable[str], complain: Complain = log_garbage) -> Topics:
        """These topics, with all their partitions; those that are not there are left out. Raises
        ZooKeeperError."""
        wanted = [name for name in names if is_legal_topic_name(name)]
        children = await self._session.multi_children([LedTopicZnode.path(name) for name in wanted])
        of = [
            TopicPartition(name, number)
            for name in wanted
            for number in numbers_in(children.get(LedTopicZnode.path(name), ()))
        ]
        return await self.read_partitions(of, wanted, complain)

    async def read_partitions(
        self, names: Sequence[TopicPartition], topics: Iterable[str] = (), complain: Complain = log_garbage
    ) -> Topics:
        """The topics of these partitions, and others, with these of their partitions. What is not there, or
        cannot be read, is left out; `complain` gets what the latter is about, and why. Raises
        ZooKeeperError."""
        wanted = dict.fromkeys([*topics, *(name.topic for name in names)])
        found = await self._session.multi_read(
            [*map(LedTopicZnode.path, wanted), *(path for name in names for path in paths_of(name))]
        )
        read: Topics = {}
        for topic in wanted:
            znode = found.get(LedTopicZnode.path(topic))
            if znode is not None:
                try:
                    read[topic] = LedTopicZnode.decode(znode.data), {}
                except ZnodeGarbage as error:
                    complain(LedTopicZnode.path(topic), str(error))
        for name in names:
            nodes = partition_of(name, found, 1)
            if nodes is None or name.topic not in read:
                continue
            if nodes.garbage:
                complain(f"{name.topic}-{name.partition}", nodes.garbage)
            else:
                read[name.topic][1][name.partition] = nodes
        return read


def first_leader_epoch(first_epoch: int) -> int:
    """The first epoch of a partition as the broker's hosting has it: 0, unless its number was used before."""
    return first_epoch if first_epoch > FIRST_EPOCH else 0


def decision_of(nodes: PartitionNodes) -> Decision:
    """What the znodes of a partition say, as a decision for the broker's core."""
    assert nodes.isr is not None
    isr = nodes.isr
    leader = NO_LEADER if nodes.leader is None else nodes.leader.broker_id
    return Decision(
        EPOCH, leader, isr.epoch, isr.isr, nodes.assigned, isr.version, isr.eligible, isr.recovered,
        isr.unclean_epoch,
    )  # fmt: skip


def views_of(topics: Topics) -> list[TopicView]:
    """Topics for clients, with these of their partitions. What is still being created is not among them."""
    return [
        TopicView(
            name,
            topic.topic_id,
            tuple(
                _partition_view(number, each)
                for number, each in sorted(nodes.items())
                if number < topic.partition_count and each.isr is not None
            ),
            topic.configs,
        )
        for name, (topic, nodes) in topics.items()
        if topic.partition_count
    ]


def _partition_view(number: int, nodes: PartitionNodes) -> PartitionView:
    known = decision_of(nodes)
    return PartitionView(
        number, known.leader, known.leader_epoch, known.replicas, known.isr, known.partition_epoch
    )
