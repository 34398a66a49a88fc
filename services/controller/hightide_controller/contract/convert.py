"""The only conversions between the controller's dataclasses and protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import metadata_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.listeners import address_told
from hightide_runtime.znodes.cluster_znodes import CandidateZnode, ControllerZnode
from hightide_runtime.zookeeper.errors import ZooKeeperError

from hightide_controller.core.effects import Decision, Refusal, RefuseRequest, ReplicaStop
from hightide_controller.core.events import Broker, CreateTopicRequested, Topic
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, TopicPartition

__all__ = [
    "ERROR_CODES",
    "BrokerSummary",
    "ClusterSummary",
    "Identity",
    "cluster_out",
    "create_topic_in",
    "created_out",
    "error_of",
    "leader_and_isr_out",
    "not_controller",
    "topic_metadata_out",
    "topic_out",
    "unknown_topic_out",
    "update_metadata_out",
]

ERROR_CODES: Final[Mapping[Refusal, ErrorCode.ValueType]] = {
    Refusal.NOT_CONTROLLER: ErrorCode.ERROR_CODE_NOT_CONTROLLER,
    Refusal.STALE_CONTROLLER_EPOCH: ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH,
    Refusal.TOPIC_ALREADY_EXISTS: ErrorCode.ERROR_CODE_TOPIC_ALREADY_EXISTS,
    Refusal.INVALID_TOPIC_NAME: ErrorCode.ERROR_CODE_INVALID_TOPIC_NAME,
    Refusal.INVALID_PARTITION_COUNT: ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT,
    Refusal.INVALID_REPLICATION_FACTOR: ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR,
    Refusal.INVALID_ASSIGNMENT: ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT,
    Refusal.INVALID_CONFIG: ErrorCode.ERROR_CODE_INVALID_CONFIG,
    Refusal.INVALID_REQUEST: ErrorCode.ERROR_CODE_INVALID_REQUEST,
    Refusal.OVERLOADED: ErrorCode.ERROR_CODE_OVERLOADED,
    Refusal.TIMED_OUT: ErrorCode.ERROR_CODE_TIMED_OUT,
    Refusal.UNKNOWN_BROKER: ErrorCode.ERROR_CODE_UNKNOWN_BROKER,
    Refusal.STALE_BROKER_EPOCH: ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH,
    Refusal.UNKNOWN_TOPIC: ErrorCode.ERROR_CODE_UNKNOWN_TOPIC,
    Refusal.UNKNOWN_PARTITION: ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
    Refusal.INCONSISTENT_TOPIC_ID: ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID,
    Refusal.TOPIC_BEING_DELETED: ErrorCode.ERROR_CODE_TOPIC_BEING_DELETED,
    Refusal.NO_REASSIGNMENT: ErrorCode.ERROR_CODE_NO_REASSIGNMENT,
    Refusal.REASSIGNMENT_IN_PROGRESS: ErrorCode.ERROR_CODE_REASSIGNMENT_IN_PROGRESS,
    Refusal.ELIGIBLE_LEADERS_NOT_AVAILABLE: ErrorCode.ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
    Refusal.ELECTION_NOT_NEEDED: ErrorCode.ERROR_CODE_ELECTION_NOT_NEEDED,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this controller, as brokers and clients see it."""

    cluster_id: str
    controller_id: int
    host: str
    port: int
    external_host: str = ""
    """The address for clients from outside; empty: none."""
    external_port: int = 0


@dataclass(frozen=True, slots=True)
class BrokerSummary:
    """One broker as the controller sees it; `broker` is None if it is assigned but not registered."""

    broker_id: int
    broker: Broker | None
    alive: bool
    leader_count: int
    replica_count: int


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """The content of a DescribeCluster answer."""

    identity: Identity
    controller_epoch: int
    brokers: tuple[BrokerSummary, ...] = ()
    topic_count: int = 0
    partition_count: int = 0
    offline_partition_count: int = 0
    under_replicated_partition_count: int = 0
    under_min_isr_partition_count: int = 0
    not_preferred_leader_count: int = 0
    reassignment_count: int = 0
    throttle_bytes_per_s: int = 0
    complaints: tuple[tuple[str, str], ...] = ()
    """(subject, message), bounded by the core."""
    controllers: tuple[CandidateZnode, ...] = ()
    """All that may be elected, the active one among them."""
    coordinators: tuple[CandidateZnode, ...] = ()


def create_topic_in(
    request: controller_pb2.CreateTopicRequest, request_id: int, topic_id: str
) -> CreateTopicRequested:
    """The event of a CreateTopic request. `topic_id` is the id for the new topic."""
    return CreateTopicRequested(
        request_id=request_id,
        name=request.topic,
        topic_id=topic_id,
        partition_count=request.partition_count,
        replication_factor=request.replication_factor,
        assignment=tuple(tuple(assigned.replicas) for assigned in request.assignment),
        configs=dict(request.configs),
        validate_only=request.validate_only,
    )


def error_of(refused: RefuseRequest) -> ServiceError:
    """A refusal of the core as the error of the RPC."""
    return ServiceError(ERROR_CODES[refused.refusal], refused.message)


def not_controller(active: ControllerZnode | None, *, may_have_begun: bool = False) -> ServiceError:
    """NOT_CONTROLLER, naming the active one if it is known. `may_have_begun` means that this controller was
    active when it took the request, so that the request may still be carried out."""
    facts = {"may_have_begun": "true"} if may_have_begun else {}
    if active is None:
        message = "this controller is not the active one, and none is known to be; try again after a pause"
        return ServiceError(ErrorCode.ERROR_CODE_NOT_CONTROLLER, message, facts)
    address = address_told(active)
    facts |= {
        "controller_id": str(active.controller_id),
        "controller_address": str(address),
        "host": address.host,
        "port": str(address.port),
    }
    message = f"this controller is not the active one; controller {active.controller_id} is, at {address}"
    return ServiceError(ErrorCode.ERROR_CODE_NOT_CONTROLLER, message, facts)


def zookeeper_unavailable(error: ZooKeeperError) -> ServiceError:
    """The error for requests that need an answer of ZooKeeper."""
    return ServiceError(
        ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE, f"ZooKeeper does not answer, try again: {error}"
    )


def endpoint_of(process: Broker | Identity) -> metadata_pb2.Endpoint:
    """The addresses of a process, from inside and from outside, for brokers."""
    return metadata_pb2.Endpoint(
        id=_id_of(process),
        host=process.host,
        port=process.port,
        external_host=process.external_host,
        external_port=process.external_port,
    )


def endpoint_told(process: Broker | Identity | CandidateZnode) -> metadata_pb2.Endpoint:
    """The address of a process for the client that asks."""
    address = address_told(process)
    return metadata_pb2.Endpoint(id=_id_of(process), host=address.host, port=address.port)


def _id_of(process: Broker | Identity | CandidateZnode) -> int:
    match process:
        case Broker():
            return process.broker_id
        case Identity():
            return process.controller_id
        case CandidateZnode():
            return process.id


def stamp_of(identity: Identity, controller_epoch: int, broker_epoch: int) -> control_pb2.ControllerStamp:
    """The stamp of a message: its sender, and the registration (broker epoch) of its receiver."""
    return control_pb2.ControllerStamp(
        cluster_id=identity.cluster_id,
        controller_id=identity.controller_id,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
    )


def _add_doubts(partition: control_pb2.LeaderAndISRPartition, decided: LeaderAndIsr) -> None:
    """Add the fields that few decisions have; for protobuf, an empty field costs as much time as a set
    one."""
    partition.eligible.extend(decided.eligible)
    partition.recovered.extend(
        control_pb2.RecoveredLog(broker_id=broker_id, leader_epoch=epoch, log_end_offset=end)
        for broker_id, epoch, end in decided.recovered
    )
    partition.unclean_epoch = decided.unclean_epoch


def leader_and_isr_out(
    state: ClusterState, identity: Identity, broker_epoch: int, decisions: Iterable[Decision]
) -> control_pb2.LeaderAndISRRequest:
    """The LeaderAndISR request with these decisions by topic, the topics' settings and the leaders'
    addresses."""
    by_topic: dict[tuple[str, str], list[control_pb2.LeaderAndISRPartition]] = {}
    leaders: dict[int, None] = {}
    for decision in decisions:
        decided = decision.state
        leaders[decided.leader] = None
        partition = control_pb2.LeaderAndISRPartition(
            partition=decision.name.partition,
            leader=decided.leader,
            leader_epoch=decided.leader_epoch,
            isr=decided.isr,
            replicas=decision.replicas,
            partition_epoch=decided.partition_epoch,
            controller_epoch=decided.controller_epoch,
            first_leader_epoch=decision.first_leader_epoch,
            adding_replicas=decision.adding_replicas,
        )
        if decided.eligible or decided.recovered or decided.unclean_epoch:
            _add_doubts(partition, decided)
        by_topic.setdefault((decision.name.topic, decision.topic_id), []).append(partition)
    topics = []
    for (name, topic_id), partitions in by_topic.items():
        known = state.topics.get(name)
        configs = known.configs if known is not None and known.topic_id == topic_id else {}
        topics.append(
            control_pb2.LeaderAndISRTopic(
                topic=name, topic_id=bytes.fromhex(topic_id), configs=configs, partitions=partitions
            )
        )
    return control_pb2.LeaderAndISRRequest(
        stamp=stamp_of(identity, state.controller_epoch, broker_epoch),
        topics=topics,
        leaders=[endpoint_of(state.brokers[leader]) for leader in leaders if leader in state.brokers],
    )


def stop_replica_out(
    state: ClusterState, identity: Identity, broker_epoch: int, stops: Iterable[ReplicaStop]
) -> control_pb2.StopReplicaRequest:
    """The StopReplica request with these stops."""
    return control_pb2.StopReplicaRequest(
        stamp=stamp_of(identity, state.controller_epoch, broker_epoch),
        partitions=[
            control_pb2.StopReplicaPartition(
                topic=stop.topic,
                topic_id=bytes.fromhex(stop.topic_id),
                partition=stop.partition,
                leader_epoch=stop.leader_epoch,
                delete=stop.delete,
                partition_epoch=stop.partition_epoch,
            )
            for stop in stops
        ],
    )


def update_metadata_out(
    state: ClusterState,
    identity: Identity,
    broker_epoch: int,
    names: Iterable[TopicPartition] | None,
    deleted_topic_ids: Iterable[str],
) -> control_pb2.UpdateMetadataRequest:
    """The UpdateMetadata request with the present state of these partitions, or of all partitions if `names`
    is None."""
    by_topic: dict[str, list[int]] = {}
    removed: dict[str, list[int]] = {}
    if names is None:
        by_topic = {topic.name: list(range(len(topic.assignment))) for topic in state.topics.values()}
    else:
        for name in names:
            if name in state.partitions:
                by_topic.setdefault(name.topic, []).append(name.partition)
            elif name.topic in state.topics:
                removed.setdefault(name.topic, []).append(name.partition)
    topics = [
        topic_metadata_out(
            state.topics[topic],
            {number: state.partitions[TopicPartition(topic, number)].leader_and_isr for number in numbers},
        )
        for topic, numbers in by_topic.items()
    ]
    topics += [_removed_out(state.topics[topic], numbers) for topic, numbers in removed.items()]
    return control_pb2.UpdateMetadataRequest(
        stamp=stamp_of(identity, state.controller_epoch, broker_epoch),
        brokers=[endpoint_of(broker) for broker in state.live_brokers()],
        controller=endpoint_of(identity),
        topics=topics,
        deleted_topic_ids=[bytes.fromhex(topic_id) for topic_id in deleted_topic_ids],
        full=names is None,
        reassignment_throttle_bytes_per_s=(
            0 if state.throttle is None else state.throttle.throttle_bytes_per_s
        ),
    )


def _removed_out(topic: Topic, numbers: Iterable[int]) -> metadata_pb2.TopicMetadata:
    """The metadata of partitions that were removed from a topic."""
    return metadata_pb2.TopicMetadata(
        topic=topic.name,
        topic_id=bytes.fromhex(topic.topic_id),
        error_code=ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
        partitions=[
            metadata_pb2.PartitionMetadata(partition=number, leader=NO_LEADER) for number in sorted(numbers)
        ],
    )


def topic_metadata_out(topic: Topic, states: Mapping[int, LeaderAndIsr | None]) -> metadata_pb2.TopicMetadata:
    """The metadata of a topic with these of its partitions. The state is None for a partition without a
    leader."""
    return metadata_pb2.TopicMetadata(
        topic=topic.name,
        topic_id=bytes.fromhex(topic.topic_id),
        partitions=[
            _partition_out(number, topic.assignment[number], states[number]) for number in sorted(states)
        ],
        configs=topic.configs,
    )


def _partition_out(
    number: int, replicas: tuple[int, ...], state: LeaderAndIsr | None
) -> metadata_pb2.PartitionMetadata:
    if state is None:
        # A partition without a znode has had no leader yet.
        return metadata_pb2.PartitionMetadata(
            partition=number, leader=NO_LEADER, leader_epoch=-1, replicas=replicas, partition_epoch=-1
        )
    return metadata_pb2.PartitionMetadata(
        partition=number,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=replicas,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
    )


def created_out(state: ClusterState, topic: Topic) -> controller_pb2.CreateTopicResponse:
    """The response of CreateTopic. With validate_only the topic does not exist."""
    return controller_pb2.CreateTopicResponse(topic=topic_out(state, topic))


def topic_out(state: ClusterState, topic: Topic) -> metadata_pb2.TopicMetadata:
    """The metadata of a topic with all its partitions, as they are or, with validate_only, as they would
    be."""
    partitions = {
        number: state.partitions.get(TopicPartition(topic.name, number))
        for number in range(len(topic.assignment))
    }
    states = {number: None if p is None else p.leader_and_isr for number, p in partitions.items()}
    return topic_metadata_out(topic, states)


def unknown_topic_out(name: str) -> metadata_pb2.TopicMetadata:
    """The metadata for a name that no topic has."""
    return metadata_pb2.TopicMetadata(topic=name, error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)


def cluster_out(summary: ClusterSummary) -> controller_pb2.DescribeClusterResponse:
    """The response of DescribeCluster."""
    return controller_pb2.DescribeClusterResponse(
        cluster_id=summary.identity.cluster_id,
        controller=endpoint_told(summary.identity),
        controller_epoch=summary.controller_epoch,
        brokers=[_broker_out(broker) for broker in summary.brokers],
        topic_count=summary.topic_count,
        partition_count=summary.partition_count,
        offline_partition_count=summary.offline_partition_count,
        under_replicated_partition_count=summary.under_replicated_partition_count,
        under_min_isr_partition_count=summary.under_min_isr_partition_count,
        not_preferred_leader_count=summary.not_preferred_leader_count,
        reassignment_count=summary.reassignment_count,
        reassignment_throttle_bytes_per_s=summary.throttle_bytes_per_s,
        complaints=[
            controller_pb2.Complaint(subject=subject, message=message)
            for subject, message in summary.complaints
        ],
        controllers=[endpoint_told(each) for each in summary.controllers],
        coordinators=[endpoint_told(each) for each in summary.coordinators],
        coordination=controller_pb2.COORDINATION_CONTROLLER,
    )


def _broker_out(summary: BrokerSummary) -> controller_pb2.BrokerDescription:
    broker = summary.broker
    return controller_pb2.BrokerDescription(
        endpoint=metadata_pb2.Endpoint(id=summary.broker_id) if broker is None else endpoint_told(broker),
        alive=summary.alive,
        broker_epoch=0 if broker is None else broker.broker_epoch,
        leader_count=summary.leader_count,
        replica_count=summary.replica_count,
    )
