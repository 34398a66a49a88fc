"""Describing topics and the cluster from ZooKeeper's truth: leaders change ISRs without the controller."""

from __future__ import annotations

from collections.abc import Sequence

from hightide.v1 import metadata_pb2

from hightide_controller.convert import (
    BrokerSummary,
    ClusterSummary,
    Identity,
    topic_metadata_out,
    unknown_topic_out,
)
from hightide_controller.core.cluster_state import ClusterState
from hightide_controller.core.partition import NO_LEADER, LeaderAndIsr, TopicPartition
from hightide_controller.core.topic_configs import MIN_INSYNC_REPLICAS
from hightide_controller.store import ControllerStore

__all__ = ["described_topics", "summary_of"]


async def described_topics(store: ControllerStore, names: Sequence[str]) -> list[metadata_pb2.TopicMetadata]:
    """DescribeTopics: in the order asked, or all by name. Raises ZooKeeperError."""
    asked = list(dict.fromkeys(names)) or await store.topic_names()
    topics = {topic.name: topic for topic in await store.read_topics(asked)}
    partitions = [
        TopicPartition(topic.name, number)
        for topic in topics.values()
        for number in range(len(topic.assignment))
    ]
    states = await store.read_states(partitions)
    described = []
    for name in asked:
        topic = topics.get(name)
        if topic is None:
            if names:
                described.append(unknown_topic_out(name))
            continue
        numbers = range(len(topic.assignment))
        described.append(topic_metadata_out(topic, {n: states.get(TopicPartition(name, n)) for n in numbers}))
    return described


async def summary_of(store: ControllerStore, state: ClusterState, identity: Identity) -> ClusterSummary:
    """DescribeCluster. Raises ZooKeeperError."""
    epoch = state.controller_epoch
    states = await store.read_states(list(state.partitions))
    offline = under_replicated = under_min_isr = 0
    for name, known in states.items():
        partition = state.partitions.get(name)
        if partition is None:
            continue
        configured = state.topics[name.topic].configs.get(MIN_INSYNC_REPLICAS, "1")
        in_sync = _live_in_sync(known)
        offline += known is None or known.leader == NO_LEADER
        under_replicated += in_sync < len(partition.replicas)
        under_min_isr += in_sync < int(configured)
    assigned = {broker_id for broker_id, names in state.replicas_on.items() if names}
    return ClusterSummary(
        identity=identity,
        controller_epoch=epoch,
        brokers=tuple(
            BrokerSummary(
                broker_id,
                state.brokers.get(broker_id),
                state.is_live(broker_id),
                len(state.led_by.get(broker_id, ())),
                len(state.replicas_on.get(broker_id, ())),
            )
            for broker_id in sorted(assigned | set(state.brokers))
        ),
        topic_count=len(state.topics),
        partition_count=len(state.partitions),
        offline_partition_count=offline,
        under_replicated_partition_count=under_replicated,
        under_min_isr_partition_count=under_min_isr,
    )


def _live_in_sync(known: LeaderAndIsr | None) -> int:
    """How many replicas are in sync; the ISR of an offline partition only says who was."""
    return 0 if known is None or known.leader == NO_LEADER else len(known.isr)
