"""Describing topics and the cluster from ZooKeeper, because leaders change ISRs without the controller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import metadata_pb2
from hightide_runtime.topics.topic_configs import MIN_INSYNC_REPLICAS
from hightide_runtime.znodes.cluster_znodes import CONTROLLER_CANDIDATES, COORDINATOR_CANDIDATES

from hightide_controller.contract.convert import (
    BrokerSummary,
    ClusterSummary,
    Identity,
    topic_metadata_out,
    unknown_topic_out,
)
from hightide_controller.contract.convert_requests import name_out
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, TopicPartition
from hightide_controller.zookeeper.admin_reader import AdminReader
from hightide_controller.zookeeper.store import ControllerStore

__all__ = ["described_topics", "listed_reassignments", "summary_of"]


async def described_topics(
    store: ControllerStore, names: Sequence[str], sees: Callable[[str], bool] | None
) -> list[metadata_pb2.TopicMetadata]:
    """DescribeTopics: in the order of the request, or all by name. A topic that the client may not know of is
    unknown (`sees`; None: it may know of all). Raises ZooKeeperError."""
    store = store.apart()
    asked = list(dict.fromkeys(names)) or await store.topic_names()
    known = asked if sees is None else [name for name in asked if sees(name)]
    topics = {topic.name: topic for topic in await store.read_topics(known)}
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
    states = await store.apart().read_states(list(state.partitions))
    controllers = await store.read_candidates(CONTROLLER_CANDIDATES)
    coordinators = await store.read_candidates(COORDINATOR_CANDIDATES)
    offline = under_replicated = under_min_isr = not_preferred = 0
    for name, known in states.items():
        partition = state.partitions.get(name)
        if partition is None:
            continue
        configured = state.topics[name.topic].configs.get(MIN_INSYNC_REPLICAS, "1")
        in_sync = _live_in_sync(known)
        offline += known is None or known.leader == NO_LEADER
        under_replicated += in_sync < len(partition.replicas)
        under_min_isr += in_sync < int(configured)
        preferred = partition.replicas[0]
        if known is not None and known.leader not in (NO_LEADER, preferred):
            not_preferred += preferred in known.isr and state.is_live(preferred)
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
        not_preferred_leader_count=not_preferred,
        reassignment_count=sum(len(work.moves) for work in state.work.values()),
        throttle_bytes_per_s=0 if state.throttle is None else state.throttle.throttle_bytes_per_s,
        complaints=tuple(sorted(state.complaints.items())),
        controllers=controllers,
        coordinators=coordinators,
    )


def _live_in_sync(known: LeaderAndIsr | None) -> int:
    """How many replicas are in sync. The ISR of an offline partition only says which ones were."""
    return 0 if known is None or known.leader == NO_LEADER else len(known.isr)


async def listed_reassignments(
    store: ControllerStore,
    admin: AdminReader,
    state: ClusterState,
    asked: Collection[TopicPartition],
) -> controller_pb2.ListReassignmentsResponse:
    """ListReassignments: the moves below /admin, with the replicas in sync. Raises ZooKeeperError."""
    read = (await admin.read_moves()).admin
    moves = {
        name: move
        for name, move in sorted(read.reassignments.items())
        if move is not None and name in state.partitions and (not asked or name in asked)
    }
    states = await store.apart().read_states(moves)
    listed = []
    for name, move in moves.items():
        partition, stored = state.partitions.get(name), states.get(name)
        if partition is None:
            continue
        listed.append(
            controller_pb2.Reassignment(
                partition=name_out(name),
                topic_id=bytes.fromhex(state.topics[name.topic].topic_id),
                original=move.original or partition.replicas,
                target=move.target,
                replicas=partition.replicas,
                isr=() if stored is None else stored.isr,
                leader=NO_LEADER if stored is None else stored.leader,
            )
        )
    return controller_pb2.ListReassignmentsResponse(
        reassignments=listed,
        throttle_bytes_per_s=0 if read.throttle is None else read.throttle.throttle_bytes_per_s,
    )
