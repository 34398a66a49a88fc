"""Topics, moves and the cluster as clients see them without a controller: from ZooKeeper, each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import metadata_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_leaders.core.values import NO_LEADER, PartitionNodes, TopicPartition
from hightide_runtime.serving.listeners import address_told
from hightide_runtime.topics.topic_configs import MIN_INSYNC_REPLICAS
from hightide_runtime.znodes.cluster_znodes import COORDINATOR_CANDIDATES, TOPICS
from hightide_runtime.znodes.leaders_znodes import LedTopicZnode
from hightide_runtime.zookeeper.candidates import read_candidates
from hightide_runtime.zookeeper.registrations import read_registrations
from hightide_runtime.zookeeper.session import ZooKeeperSession

from hightide_broker.cluster.metadata import EndpointView
from hightide_broker.coordination.led_cluster import LedCluster, Topics

COMPLAINTS_MAX = 1_000


@dataclass(slots=True)
class Complaints:
    """What could not be read, by its path."""

    found: dict[str, str] = field(default_factory=dict)

    def complain(self, path: str, reason: str, advice: str = "") -> None:
        """Something is wrong with what is there."""
        if len(self.found) < COMPLAINTS_MAX:
            self.found[path] = f"{reason}; {advice or 'correct or delete it'}"

    def settled(self, path: str) -> None:
        """Nothing is wrong with it."""


def topic_out(
    name: str, topic: LedTopicZnode, nodes: Mapping[int, PartitionNodes]
) -> metadata_pb2.TopicMetadata:
    """A topic with the partitions that are there for clients."""
    return metadata_pb2.TopicMetadata(
        topic=name,
        topic_id=topic.topic_id,
        partitions=[_partition_out(number, nodes[number]) for number in shown(topic, nodes)],
        configs=dict(topic.configs),
    )


def shown(topic: LedTopicZnode, nodes: Mapping[int, PartitionNodes]) -> list[int]:
    """The partitions that are there for clients; not those that an admin is still creating."""
    return [number for number in sorted(nodes) if number < topic.partition_count]


def proposed_out(
    name: str,
    topic_id: bytes,
    assignment: Iterable[tuple[int, ...]],
    configs: Mapping[str, str],
    first: int = 0,
) -> metadata_pb2.TopicMetadata:
    """Partitions that would be created."""
    return metadata_pb2.TopicMetadata(
        topic=name,
        topic_id=topic_id,
        partitions=[
            _partition_out(number, PartitionNodes("", replicas))
            for number, replicas in enumerate(assignment, first)
        ],
        configs=configs,
    )


def unknown_out(name: str) -> metadata_pb2.TopicMetadata:
    """A name that no topic has."""
    return metadata_pb2.TopicMetadata(topic=name, error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)


def leader_of(nodes: PartitionNodes) -> int:
    """Who leads, by the leader znode; -1: nobody."""
    return NO_LEADER if nodes.leader is None else nodes.leader.broker_id


def _partition_out(number: int, nodes: PartitionNodes) -> metadata_pb2.PartitionMetadata:
    isr = nodes.isr
    return metadata_pb2.PartitionMetadata(
        partition=number,
        leader=leader_of(nodes),
        leader_epoch=-1 if isr is None else isr.epoch,
        replicas=nodes.assigned,
        isr=() if isr is None else isr.isr,
        partition_epoch=nodes.version,
    )


def move_out(
    name: TopicPartition, topic: LedTopicZnode, nodes: PartitionNodes
) -> controller_pb2.Reassignment:
    """A move that is under way."""
    return controller_pb2.Reassignment(
        partition=name_out(name),
        topic_id=topic.topic_id,
        original=nodes.replicas,
        target=nodes.reassigned or (),
        replicas=nodes.assigned,
        isr=() if nodes.isr is None else nodes.isr.isr,
        leader=leader_of(nodes),
    )


def name_out(name: TopicPartition) -> controller_pb2.PartitionName:
    """The name of a partition."""
    return controller_pb2.PartitionName(topic=name.topic, partition=name.partition)


def is_moving(nodes: PartitionNodes) -> bool:
    """Whether a partition is being moved, and neither created nor deleted."""
    return bool(nodes.replicas and nodes.reassigned)


def endpoint_out(process: EndpointView) -> metadata_pb2.Endpoint:
    """The address of a process for the client that asks."""
    address = address_told(process)
    return metadata_pb2.Endpoint(id=process.id, host=address.host, port=address.port)


async def described_cluster(
    session: ZooKeeperSession,
    cluster: LedCluster,
    cluster_id: str,
    me: EndpointView,
) -> controller_pb2.DescribeClusterResponse:
    """The whole cluster. Raises ZooKeeperError."""
    complaints = Complaints()
    registered = await read_registrations(session, complaints.complain, complaints.settled, watch=False)
    topics = await cluster.read_topics(await session.children(TOPICS), complaints.complain)
    throttle = await cluster.read_throttle(complaints.complain)
    coordinators = await read_candidates(session, COORDINATOR_CANDIDATES)
    answer = controller_pb2.DescribeClusterResponse(
        cluster_id=cluster_id,
        controller=endpoint_out(me),
        topic_count=sum(topic.partition_count > 0 for topic, _ in topics.values()),
        complaints=[
            controller_pb2.Complaint(subject=path, message=message)
            for path, message in sorted(complaints.found.items())
        ],
        reassignment_throttle_bytes_per_s=throttle or 0,
        coordination=controller_pb2.COORDINATION_LEADERS,
    )
    for each in coordinators:
        address = address_told(each)
        answer.coordinators.add(id=each.id, host=address.host, port=address.port)
    leads, holds = _count_partitions(answer, topics, {each.broker_id for each in registered})
    known = {each.broker_id: each for each in registered}
    for broker_id in sorted({*known, *holds}):
        found = known.get(broker_id)
        broker = answer.brokers.add(
            alive=found is not None,
            broker_epoch=0 if found is None else found.czxid,
            leader_count=leads[broker_id],
            replica_count=holds[broker_id],
        )
        broker.endpoint.id = broker_id
        if found is not None:
            address = address_told(found.znode)
            broker.endpoint.host, broker.endpoint.port = address.host, address.port
    return answer


def _count_partitions(
    answer: controller_pb2.DescribeClusterResponse, topics: Topics, alive: set[int]
) -> tuple[Counter[int], Counter[int]]:
    """Count into the answer; and what each broker leads, and holds."""
    leads: Counter[int] = Counter()
    holds: Counter[int] = Counter()
    for topic, nodes in topics.values():
        needed = topic.configs.get(MIN_INSYNC_REPLICAS, "1")
        for number in shown(topic, nodes):
            each = nodes[number]
            leader = leader_of(each)
            in_sync = 0 if leader == NO_LEADER or each.isr is None else len(each.isr.isr)
            answer.partition_count += 1
            answer.offline_partition_count += leader == NO_LEADER
            answer.under_replicated_partition_count += in_sync < len(each.assigned)
            answer.under_min_isr_partition_count += in_sync < (int(needed) if needed.isdigit() else 1)
            answer.reassignment_count += is_moving(each)
            if leader != NO_LEADER:
                leads[leader] += 1
                preferred = each.replicas[0] if each.replicas else leader
                is_ready = each.isr is not None and preferred in each.isr.isr and preferred in alive
                answer.not_preferred_leader_count += leader != preferred and is_ready
            holds.update(each.assigned)
    return leads, holds
