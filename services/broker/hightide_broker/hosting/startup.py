"""What a broker reads from ZooKeeper when it starts (V3 section E): all topics, and the leaders of its
partitions.

The broker acts on these decisions as if a controller had sent them. A live controller sends them again once
the broker is registered. Nothing on disk is deleted because it is not mentioned (docs/protocol.md, "Nothing
is deleted by omission").
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hightide_runtime.znodes.cluster_znodes import (
    BROKER_IDS,
    TOPICS,
    BrokerZnode,
    ControllerEpochZnode,
    ControllerZnode,
    LeaderAndIsrZnode,
    TopicConfigZnode,
    TopicIdZnode,
    TopicZnode,
    ZnodeGarbage,
)
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import Operation, Znode, ZooKeeperSession

from hightide_broker.cluster.metadata import EndpointView, MetadataUpdate, TopicView
from hightide_broker.cluster.partition_decisions import Decisions, PartitionDecision, TopicDecisions
from hightide_broker.core.replica import Decision

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterAsStored:
    """The cluster as ZooKeeper has it."""

    controller_epoch: int
    metadata: MetadataUpdate
    decisions: Decisions
    """The decisions for this broker: the partitions with it in AR, each with the epoch of the controller that
    wrote it."""
    unreadable: tuple[str, ...] = ()
    """What cannot be decoded and may be about this broker's replicas: it is in none of the above."""
    markers: Mapping[bytes, int] = field(default_factory=dict)
    """The version of each topic's marker, read before its partitions: who removes one of them raises it."""


class StoredCluster(Protocol):
    """The cluster in ZooKeeper, as its kind spells it."""

    async def read(self) -> ClusterAsStored:
        """Read the whole cluster, at least as new as this call. Raises ZooKeeperError."""
        ...

    def departure(
        self, topic: TopicDecisions, stored: PartitionDecision, told: RecoveredLog
    ) -> Sequence[Operation]:
        """The write by which this broker leaves the ISR of a partition, and says how far its log goes."""
        ...


async def read_cluster(session: ZooKeeperSession, broker_id: int) -> ClusterAsStored:
    """Read the whole cluster, at least as new as this call, in a few round trips whatever the number of
    partitions.

    Raises ZooKeeperError.
    """
    await session.sync()
    controller_epoch, controller = await _read_controller(session)
    brokers = await read_brokers(session)
    unreadable: list[str] = []
    topics = await _read_topics(session, unreadable)
    markers = {topic.topic_id: TopicIdZnode.path(topic.topic_id) for topic in topics.values()}
    paths = [
        LeaderAndIsrZnode.path(name, partition)
        for name, topic in topics.items()
        for partition in range(len(topic.partitions))
    ]
    # The markers come first: if a partition is removed and made again after that, its topic's has another
    # version.
    states = await session.multi_read([*markers.values(), *paths])
    configs = await session.multi_read([TopicConfigZnode.path(name) for name in topics])
    views: list[TopicView] = []
    mine: list[TopicDecisions] = []
    for name, topic in topics.items():
        decided = _decisions(name, topic, states, broker_id, unreadable)
        settings = configs_of(name, configs)
        views.append(TopicView(name, topic.topic_id, tuple(each.view for each in decided), settings))
        assigned = tuple(each for each in decided if broker_id in each.decision.replicas)
        if assigned:
            mine.append(TopicDecisions(name, topic.topic_id, settings, assigned))
    metadata = MetadataUpdate(controller_epoch, controller, brokers, tuple(views), full=True)
    decisions = Decisions(tuple(mine), brokers)
    versions = {topic_id: states[path].version for topic_id, path in markers.items() if path in states}
    return ClusterAsStored(controller_epoch, metadata, decisions, tuple(unreadable), versions)


async def _read_controller(session: ZooKeeperSession) -> tuple[int, EndpointView | None]:
    found = await session.multi_read([ControllerEpochZnode.path(), ControllerZnode.path()])
    epoch = 0
    endpoint = None
    try:
        if (znode := found.get(ControllerEpochZnode.path())) is not None:
            epoch = ControllerEpochZnode.decode(znode.data).controller_epoch
        if (znode := found.get(ControllerZnode.path())) is not None:
            active = ControllerZnode.decode(znode.data)
            endpoint = EndpointView(
                active.controller_id, active.host, active.port, active.external_host, active.external_port
            )
    except ZnodeGarbage as error:
        log.error("%s", error)
    return epoch, endpoint


async def read_brokers(session: ZooKeeperSession) -> tuple[EndpointView, ...]:
    """The brokers that are registered. Raises ZooKeeperError."""
    names = await session.children(BROKER_IDS)
    found = await session.multi_read([f"{BROKER_IDS}/{name}" for name in names])
    brokers = []
    for name in names:
        znode = found.get(f"{BROKER_IDS}/{name}")
        if znode is None:
            continue
        try:
            broker = BrokerZnode.decode(znode.data)
            brokers.append(
                EndpointView(
                    BrokerZnode.broker_id_of(name), broker.host, broker.port, broker.external_host,
                    broker.external_port,
                )
            )  # fmt: skip
        except ZnodeGarbage as error:
            log.error("%s", error)
    return tuple(brokers)


async def _read_topics(session: ZooKeeperSession, unreadable: list[str]) -> dict[str, TopicZnode]:
    names = [name for name in await session.children(TOPICS) if is_legal_topic_name(name)]
    found = await session.multi_read([TopicZnode.path(name) for name in names])
    topics = {}
    for name in names:
        znode = found.get(TopicZnode.path(name))
        if znode is None:
            continue
        try:
            topic = TopicZnode.decode(znode.data)
        except ZnodeGarbage as error:
            log.error("topic %s: %s", name, error)
            unreadable.append(TopicZnode.path(name))
            continue
        if topic.topic_id:
            topics[name] = topic
        else:
            log.warning(
                "topic %s was written by an operator, without an id; the controller will assign one", name
            )
    return topics


def _decisions(
    name: str, topic: TopicZnode, states: Mapping[str, Znode], broker_id: int, unreadable: list[str]
) -> list[PartitionDecision]:
    decided = []
    for partition, replicas in enumerate(topic.partitions):
        znode = states.get(LeaderAndIsrZnode.path(name, partition))
        if znode is None:
            continue  # new: the controller has not chosen a leader yet
        try:
            state = LeaderAndIsrZnode.decode(znode.data)
        except ZnodeGarbage as error:
            log.error("%s-%d: %s", name, partition, error)
            if broker_id in replicas:
                unreadable.append(LeaderAndIsrZnode.path(name, partition))
            continue
        decision = Decision(
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            replicas,
            znode.version,
            state.eligible,
            state.recovered,
            state.unclean_epoch,
        )
        decided.append(PartitionDecision(partition, decision, topic.first_leader_epochs.get(partition, 0)))
    return decided


def configs_of(name: str, found: Mapping[str, Znode]) -> Mapping[str, str]:
    """The settings of a topic, of these znodes; none where they cannot be read."""
    znode = found.get(TopicConfigZnode.path(name))
    if znode is None:
        return {}
    try:
        return TopicConfigZnode.decode(znode.data).configs
    except ZnodeGarbage as error:
        log.error("topic %s: %s", name, error)
        return {}
