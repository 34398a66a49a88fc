"""Conversions between the controller's messages and the broker's values: decisions, stops, metadata, and
their outcomes.

They check the shape of messages (an id of 16 bytes, a port), so that all other code can rely on it,
and raise ServiceError (INVALID_REQUEST).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import metadata_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.recovered_log import RecoveredLog
from hightide_runtime.znodes.topic_names import is_legal_topic_name

from hightide_broker.cluster.metadata import (
    EndpointView,
    MetadataUpdate,
    PartitionView,
    RemovedPartitions,
    TopicView,
)
from hightide_broker.cluster.partition_decisions import (
    Decisions,
    PartitionDecision,
    Stamp,
    StopDecision,
    TopicDecisions,
)
from hightide_broker.core.replica import Decision

ControlResults = Sequence[tuple[bytes, int, ErrorCode.ValueType]]
"""The outcome of each decision: topic id, partition, and the error, or ERROR_CODE_UNSPECIFIED."""


def _topic_id(value: bytes) -> bytes:
    if len(value) != 16:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST, f"a topic id has 16 bytes; this one has {len(value)}"
        )
    return value


def stamp_in(stamp: control_pb2.ControllerStamp) -> Stamp:
    """The fence of a control request."""
    return Stamp(
        stamp.cluster_id, stamp.controller_id, stamp.controller_epoch, stamp.broker_epoch, stamp.sequence
    )


def endpoint_in(endpoint: metadata_pb2.Endpoint) -> EndpointView:
    """A broker or controller. Raises ServiceError if an address is not valid."""
    has_outside = endpoint.external_host or endpoint.external_port
    is_reachable = _is_address(endpoint.host, endpoint.port)
    if has_outside:
        is_reachable = is_reachable and _is_address(endpoint.external_host, endpoint.external_port)
    if endpoint.id < 0 or not is_reachable:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{endpoint.host[:255]!r}:{endpoint.port} is not where process {endpoint.id} can be reached",
        )
    return EndpointView(
        endpoint.id, endpoint.host, endpoint.port, endpoint.external_host, endpoint.external_port
    )


def _is_address(host: str, port: int) -> bool:
    return host != "" and 0 < port < 65_536


def _check_decision(topic: str, decided: PartitionDecision) -> None:
    """Check that the numbers of one decision are valid and do not contradict each other."""
    decision = decided.decision
    if (
        decided.partition < 0
        or decision.leader < -1
        or min(decision.leader_epoch, decision.partition_epoch) < 0
    ):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decided.partition}: leader {decision.leader}, leader epoch {decision.leader_epoch} "
            f"and partition epoch {decision.partition_epoch} make no decision",
        )
    replicas, isr = set(decision.replicas), set(decision.isr)
    leads = decision.leader == -1 or decision.leader in isr
    unique = len(replicas) == len(decision.replicas) and len(isr) == len(decision.isr)
    if not isr or not isr <= replicas or min(replicas) < 0 or not unique or not leads:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decided.partition}: leader {decision.leader}, ISR {list(decision.isr)} and replicas "
            f"{list(decision.replicas)} contradict each other",
        )
    if not 0 <= decided.first_leader_epoch <= decision.leader_epoch or not replicas.issuperset(
        decided.adding_replicas
    ):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decided.partition}: first leader epoch {decided.first_leader_epoch} and adding "
            f"replicas {list(decided.adding_replicas)} do not fit leader epoch {decision.leader_epoch} and "
            f"replicas {list(decision.replicas)}",
        )


def _check_doubts(topic: str, decided: PartitionDecision) -> None:
    """Check the fields that few decisions have: eligible replicas, recovered logs, and the unclean epoch."""
    decision = decided.decision
    eligible, ends = decision.eligible, decision.recovered
    is_sensible = (
        len(set(eligible)) == len(eligible)
        and set(decision.isr).isdisjoint(eligible)
        and len({each.broker_id for each in ends}) == len(ends)
        and all(min(each.broker_id, each.leader_epoch + 1, each.log_end_offset) >= 0 for each in ends)
        and 0 <= decision.unclean_epoch <= decision.leader_epoch
    )
    if not is_sensible:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decided.partition}: eligible {list(eligible)}, recovered {list(map(list, ends))} and "
            f"unclean epoch {decision.unclean_epoch} do not fit ISR {list(decision.isr)} and leader epoch "
            f"{decision.leader_epoch}",
        )


def _recovered_log_in(log: control_pb2.RecoveredLog) -> RecoveredLog:
    return RecoveredLog(log.broker_id, log.leader_epoch, log.log_end_offset)


def _check_each_once(topic: TopicDecisions) -> None:
    partitions = [each.partition for each in topic.partitions]
    if len(set(partitions)) != len(partitions):
        ((duplicate, _),) = Counter(partitions).most_common(1)
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"the request decides about {topic.topic}-{duplicate} more than once; name each partition once",
        )


def decisions_in(request: control_pb2.LeaderAndISRRequest) -> Decisions:
    """The decisions of a LeaderAndISR request."""
    epoch = request.stamp.controller_epoch
    topics = tuple(_topic_decisions_in(topic, epoch) for topic in request.topics)
    for topic in topics:
        _check_each_once(topic)
    return Decisions(topics, tuple(endpoint_in(leader) for leader in request.leaders))


def _topic_decisions_in(topic: control_pb2.LeaderAndISRTopic, controller_epoch: int) -> TopicDecisions:
    """The decisions about one topic of the request. The name must be legal, since it becomes a part of a
    path.

    Each field of a message is read once, and the value is checked: a field of a message costs more time
    than one of a value, and a failover brings ten thousand decisions. A slice copies all numbers of a
    repeated field at once; without it, a tuple asks for one after the other.
    """
    if not is_legal_topic_name(topic.topic):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_TOPIC_NAME, f"{topic.topic[:249]!r} is not the name of a topic"
        )
    decisions = tuple(
        PartitionDecision(
            each.partition,
            Decision(
                controller_epoch,
                each.leader,
                each.leader_epoch,
                tuple(each.isr[:]),
                tuple(each.replicas[:]),
                each.partition_epoch,
                tuple(each.eligible[:]),
                tuple(map(_recovered_log_in, each.recovered)) if each.recovered else (),
                each.unclean_epoch,
            ),
            each.first_leader_epoch,
            tuple(each.adding_replicas[:]),
        )
        for each in topic.partitions
    )
    for decided in decisions:
        _check_decision(topic.topic, decided)
        if decided.decision.eligible or decided.decision.recovered or decided.decision.unclean_epoch:
            _check_doubts(topic.topic, decided)
    return TopicDecisions(topic.topic, _topic_id(topic.topic_id), dict(topic.configs), decisions)


def stops_in(request: control_pb2.StopReplicaRequest) -> tuple[StopDecision, ...]:
    """The stops of a StopReplica request."""
    for each in request.partitions:
        if each.partition < 0 or each.leader_epoch < -1 or each.partition_epoch < 0:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"{each.topic[:249]!r}-{each.partition} in leader epoch {each.leader_epoch} and partition "
                f"epoch {each.partition_epoch} is no replica",
            )
    return tuple(
        StopDecision(
            each.topic,
            _topic_id(each.topic_id),
            each.partition,
            each.leader_epoch,
            each.delete,
            each.partition_epoch if each.HasField("partition_epoch") else None,
        )
        for each in request.partitions
    )


def control_results_out(results: ControlResults) -> list[control_pb2.ControlPartitionResult]:
    """The results in a response of LeaderAndISR or StopReplica."""
    return [
        control_pb2.ControlPartitionResult(topic_id=topic_id, partition=partition, error_code=code)
        for topic_id, partition, code in results
    ]


def metadata_update_in(request: control_pb2.UpdateMetadataRequest) -> MetadataUpdate:
    """The update of an UpdateMetadata request."""
    if request.reassignment_throttle_bytes_per_s < 0:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"the speed limit is {request.reassignment_throttle_bytes_per_s} bytes per second; it is at "
            "least 0, and 0 means no limit",
        )
    for topic in request.topics:
        _check_described(topic)
    removed = ErrorCode.ERROR_CODE_UNKNOWN_PARTITION
    return MetadataUpdate(
        controller_epoch=request.stamp.controller_epoch,
        controller=endpoint_in(request.controller) if request.HasField("controller") else None,
        brokers=tuple(endpoint_in(broker) for broker in request.brokers),
        topics=tuple(_topic_in(topic) for topic in request.topics if topic.error_code != removed),
        deleted_topic_ids=tuple(_topic_id(value) for value in request.deleted_topic_ids),
        full=request.full,
        removed=tuple(
            RemovedPartitions(topic.topic_id, tuple(each.partition for each in topic.partitions))
            for topic in request.topics
            if topic.error_code == removed
        ),
        reassignment_throttle_bytes_per_s=request.reassignment_throttle_bytes_per_s,
    )


def _check_described(topic: metadata_pb2.TopicMetadata) -> None:
    """Check a topic of an UpdateMetadata request, since its name and numbers go to every client that asks."""
    _topic_id(topic.topic_id)
    if not is_legal_topic_name(topic.topic):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_TOPIC_NAME, f"{topic.topic[:249]!r} is not the name of a topic"
        )
    numbers = {each.partition for each in topic.partitions}
    removes = topic.error_code == ErrorCode.ERROR_CODE_UNKNOWN_PARTITION
    if len(numbers) != len(topic.partitions) or (numbers and min(numbers) < (1 if removes else 0)):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic.topic}: its partitions run from 0, each stands there once, and 0 is never removed",
        )
    if topic.error_code and not removes:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic.topic}: error code {topic.error_code} has no meaning in UpdateMetadata",
        )


def _topic_in(topic: metadata_pb2.TopicMetadata) -> TopicView:
    views = (
        PartitionView(
            each.partition,
            each.leader,
            each.leader_epoch,
            tuple(each.replicas[:]),
            tuple(each.isr[:]),
            each.partition_epoch,
        )
        for each in topic.partitions
    )
    ordered = tuple(sorted(views, key=lambda view: view.partition))
    return TopicView(topic.topic, _topic_id(topic.topic_id), ordered, dict(topic.configs))
