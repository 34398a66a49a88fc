"""The answers of the controller and the brokers to an admin client, as the SDK's own types. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from hightide.cluster.metadata import topic_description
from hightide.errors import HightideError, UnknownTopicError, from_code
from hightide.records import (
    BrokerDescription,
    ClusterDescription,
    Complaint,
    Election,
    PartitionOutcome,
    ProducerState,
    Reassignment,
    ReplicaDescription,
    TopicDescription,
    TopicPartition,
)
from hightide.servers import LogDirectory, ServerAddress, ServerDescription, ServerSetting, SettingOrigin
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import errors_pb2, server_service_pb2
from hightide.v1.metadata_pb2 import Endpoint, TopicMetadata
from hightide.v1.server_service_pb2 import DescribeServerResponse

_ORIGINS: Final[Mapping[int, SettingOrigin]] = {
    server_service_pb2.SERVER_SETTING_ORIGIN_DEFAULT: SettingOrigin.DEFAULT,
    server_service_pb2.SERVER_SETTING_ORIGIN_ENVIRONMENT: SettingOrigin.ENVIRONMENT,
    server_service_pb2.SERVER_SETTING_ORIGIN_ARGUMENT: SettingOrigin.ARGUMENT,
}


def described(topic: TopicMetadata) -> TopicDescription:
    """A topic that was asked for by name. Raises UnknownTopicError, or any other error that the server
    answered for it."""
    if topic.error_code == errors_pb2.ERROR_CODE_UNKNOWN_TOPIC:
        raise UnknownTopicError(f"topic {topic.topic} does not exist", topic=topic.topic)
    if topic.error_code != errors_pb2.ERROR_CODE_UNSPECIFIED:
        raise from_code(topic.error_code, "", topic=topic.topic)
    return topic_description(topic)


def cluster_description(answer: controller_pb2.DescribeClusterResponse) -> ClusterDescription:
    """The cluster as the controller described it."""
    return ClusterDescription(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller.id,
        controller_address=_address(answer.controller) or "",
        controller_epoch=answer.controller_epoch,
        brokers=tuple(
            BrokerDescription(
                broker_id=broker.endpoint.id,
                address=_address(broker.endpoint),
                alive=broker.alive,
                broker_epoch=broker.broker_epoch,
                leader_count=broker.leader_count,
                replica_count=broker.replica_count,
            )
            for broker in answer.brokers
        ),
        topic_count=answer.topic_count,
        partition_count=answer.partition_count,
        offline_partition_count=answer.offline_partition_count,
        under_replicated_partition_count=answer.under_replicated_partition_count,
        under_min_isr_partition_count=answer.under_min_isr_partition_count,
        not_preferred_leader_count=answer.not_preferred_leader_count,
        reassignment_count=answer.reassignment_count,
        reassignment_throttle_bytes_per_s=answer.reassignment_throttle_bytes_per_s,
        complaints=tuple(Complaint(each.subject, each.message) for each in answer.complaints),
        controllers=_servers(answer.controllers),
        coordinators=_servers(answer.coordinators),
        coordination=(
            "leaders" if answer.coordination == controller_pb2.COORDINATION_LEADERS else "controller"
        ),
    )


def outcome(result: controller_pb2.PartitionResult) -> PartitionOutcome:
    """The outcome of one partition."""
    return PartitionOutcome(topic_partition(result.partition), _error(result))


def election(answer: controller_pb2.Election) -> Election:
    """The outcome of one election. A message says why nothing changed: the broker that leads, led before."""
    previous = answer.leader if answer.result.message else answer.previous_leader
    return Election(
        partition=topic_partition(answer.result.partition),
        leader=_broker(answer.leader),
        leader_epoch=answer.leader_epoch,
        previous_leader=_broker(previous),
        previous_isr=tuple(answer.previous_isr),
        message=answer.result.message,
        error=_error(answer.result),
    )


def reassignment(answer: controller_pb2.Reassignment) -> Reassignment:
    """One move under way."""
    return Reassignment(
        partition=topic_partition(answer.partition),
        topic_id=answer.topic_id,
        original=tuple(answer.original),
        target=tuple(answer.target),
        replicas=tuple(answer.replicas),
        isr=tuple(answer.isr),
        leader=_broker(answer.leader),
    )


def replica_description(broker_id: int, answer: broker_pb2.ReplicaDescription) -> ReplicaDescription:
    """One replica, as its broker described it."""
    return ReplicaDescription(
        partition=TopicPartition(answer.topic, answer.partition),
        topic_id=answer.topic_id,
        broker_id=broker_id,
        is_leader=answer.is_leader,
        leader_epoch=answer.leader_epoch,
        log_start_offset=answer.log_start_offset,
        log_end_offset=answer.log_end_offset,
        high_watermark=answer.high_watermark,
        size_bytes=answer.size_bytes,
        log_directory=answer.log_directory,
        storage_failed=answer.error_code == errors_pb2.ERROR_CODE_STORAGE_FAILED,
    )


def log_directory(broker_id: int, answer: broker_pb2.LogDirectoryDescription) -> LogDirectory:
    """One log directory, as its broker described it."""
    failed = answer.error_code != errors_pb2.ERROR_CODE_UNSPECIFIED
    return LogDirectory(broker_id, answer.path, answer.total_bytes, answer.free_bytes, failed)


def server_description(answer: DescribeServerResponse, round_trip_ms: float) -> ServerDescription:
    """One process, as it described itself."""
    return ServerDescription(
        service=answer.service,
        instance=answer.instance,
        version=answer.version,
        started_at_ms=answer.started_at_ms,
        clock_ms=answer.clock_ms,
        advertised=answer.advertised,
        external_advertised=answer.external_advertised,
        zookeeper_session_timeout_ms=answer.zookeeper_session_timeout_ms,
        round_trip_ms=round_trip_ms,
        settings=tuple(
            ServerSetting(
                each.name,
                each.value,
                each.default_value,
                _ORIGINS.get(each.origin, SettingOrigin.UNKNOWN),
                each.variable,
                each.meaning,
            )
            for each in answer.settings
        ),
    )


def producer_states(answer: broker_pb2.DescribeProducersPartitionResult) -> list[ProducerState]:
    """The state that the log of one partition keeps, by producer id."""
    return [
        ProducerState(
            each.producer_id,
            each.producer_epoch,
            each.first_sequence,
            each.first_offset,
            each.next_sequence,
            each.end_offset,
        )
        for each in answer.producers
    ]


def topic_partition(name: controller_pb2.PartitionName) -> TopicPartition:
    """The name of a partition."""
    return TopicPartition(name.topic, name.partition)


def partition_name(partition: TopicPartition) -> controller_pb2.PartitionName:
    """The name of a partition, for a request."""
    return controller_pb2.PartitionName(topic=partition.topic, partition=partition.partition)


def _error(result: controller_pb2.PartitionResult) -> HightideError | None:
    if result.error_code == errors_pb2.ERROR_CODE_UNSPECIFIED:
        return None
    return from_code(
        result.error_code,
        result.message,
        topic=result.partition.topic,
        partition=result.partition.partition,
    )


def _servers(endpoints: Iterable[Endpoint]) -> tuple[ServerAddress, ...]:
    return tuple(ServerAddress(each.id, address) for each in endpoints if (address := _address(each)))


def _broker(broker_id: int) -> int | None:
    return None if broker_id < 0 else broker_id


def _address(endpoint: Endpoint) -> str | None:
    return f"{endpoint.host}:{endpoint.port}" if endpoint.port else None
