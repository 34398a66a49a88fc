"""Where protobuf messages and the broker's own dataclasses meet, and the only place.

What comes from outside is checked here for its shape (an id of 16 bytes, a port, no partition named
twice), so that everything behind it can rely on that. Errors: ServiceError(INVALID_REQUEST).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hightide.v1 import (
    broker_control_service_pb2 as control_pb2,
    broker_service_pb2 as broker_pb2,
    metadata_pb2,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.decisions import Decisions, PartitionDecision, Stamp, StopDecision, TopicDecisions
from hightide_broker.metadata import EndpointView, MetadataCache, MetadataUpdate, PartitionView, TopicView
from hightide_runtime.errors import ServiceError

ControlResults = Sequence[tuple[bytes, int, ErrorCode]]
"""What became of each decision: topic id, partition, and why it failed or ERROR_CODE_UNSPECIFIED."""


def _topic_id(value: bytes) -> bytes:
    if len(value) != 16:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST, f"a topic id has 16 bytes; this one has {len(value)}"
        )
    return value


# --- the controller's word -------------------------------------------------------------------------


def stamp_in(stamp: control_pb2.ControllerStamp) -> Stamp:
    """The fence of a control request."""
    return Stamp(stamp.cluster_id, stamp.controller_id, stamp.controller_epoch, stamp.broker_epoch)


def endpoint_in(endpoint: metadata_pb2.Endpoint) -> EndpointView:
    """A broker or controller."""
    return EndpointView(endpoint.id, endpoint.host, endpoint.port)


def _endpoint_out(endpoint: EndpointView) -> metadata_pb2.Endpoint:
    return metadata_pb2.Endpoint(id=endpoint.id, host=endpoint.host, port=endpoint.port)


def decisions_in(request: control_pb2.LeaderAndISRRequest) -> Decisions:
    """LeaderAndISR."""
    topics = tuple(
        TopicDecisions(
            topic.topic,
            _topic_id(topic.topic_id),
            dict(topic.configs),
            tuple(
                PartitionDecision(
                    each.partition,
                    each.leader,
                    each.leader_epoch,
                    tuple(each.isr),
                    tuple(each.replicas),
                    each.partition_epoch,
                    each.controller_epoch,
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return Decisions(topics, tuple(endpoint_in(leader) for leader in request.leaders))


def stops_in(request: control_pb2.StopReplicaRequest) -> tuple[StopDecision, ...]:
    """StopReplica."""
    return tuple(
        StopDecision(each.topic, _topic_id(each.topic_id), each.partition, each.leader_epoch, each.delete)
        for each in request.partitions
    )


def control_results_out(results: ControlResults) -> list[control_pb2.ControlPartitionResult]:
    """The answer to LeaderAndISR and StopReplica."""
    return [
        control_pb2.ControlPartitionResult(topic_id=topic_id, partition=partition, error_code=code)
        for topic_id, partition, code in results
    ]


def metadata_update_in(request: control_pb2.UpdateMetadataRequest) -> MetadataUpdate:
    """UpdateMetadata."""
    return MetadataUpdate(
        controller_epoch=request.stamp.controller_epoch,
        controller=endpoint_in(request.controller) if request.HasField("controller") else None,
        brokers=tuple(endpoint_in(broker) for broker in request.brokers),
        topics=tuple(_topic_in(topic) for topic in request.topics),
        deleted_topic_ids=tuple(_topic_id(value) for value in request.deleted_topic_ids),
        full=request.full,
    )


def _topic_in(topic: metadata_pb2.TopicMetadata) -> TopicView:
    views = (
        PartitionView(
            each.partition,
            each.leader,
            each.leader_epoch,
            tuple(each.replicas),
            tuple(each.isr),
            each.partition_epoch,
        )
        for each in topic.partitions
    )
    ordered = tuple(sorted(views, key=lambda view: view.partition))
    return TopicView(topic.topic, _topic_id(topic.topic_id), ordered, dict(topic.configs))


# --- what clients are told -------------------------------------------------------------------------


def _topic_out(topic: TopicView) -> metadata_pb2.TopicMetadata:
    return metadata_pb2.TopicMetadata(
        topic=topic.topic,
        topic_id=topic.topic_id,
        configs=topic.configs,
        partitions=[
            metadata_pb2.PartitionMetadata(
                partition=each.partition,
                leader=each.leader,
                leader_epoch=each.leader_epoch,
                replicas=each.replicas,
                isr=each.isr,
                partition_epoch=each.partition_epoch,
            )
            for each in topic.partitions
        ],
    )


def metadata_out(
    cache: MetadataCache, names: Iterable[str], everything: bool
) -> broker_pb2.GetMetadataResponse:
    """GetMetadata: the topics asked for in their order, unknown ones marked as such."""
    response = broker_pb2.GetMetadataResponse(
        cluster_id=cache.cluster_id,
        brokers=[_endpoint_out(cache.brokers[broker_id]) for broker_id in sorted(cache.brokers)],
        controller_epoch=cache.controller_epoch,
    )
    if cache.controller is not None:
        response.controller.CopyFrom(_endpoint_out(cache.controller))
    if everything:
        response.topics.extend(_topic_out(topic) for topic in cache.topics())
        return response
    for name in names:
        known = cache.topic(name)
        if known is not None:
            response.topics.append(_topic_out(known))
        else:
            response.topics.add(topic=name, error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
    return response
