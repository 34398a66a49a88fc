"""The conversions of ControllerService's requests into events of the core, and of outcomes into messages.

`convert` has the other conversions.
"""

from __future__ import annotations

from collections.abc import Iterable

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_controller.contract.convert import ERROR_CODES
from hightide_controller.core.effects import ElectionOutcome, PartitionOutcome
from hightide_controller.core.events import Divergence, ReplicasDamaged, ReplicasFailed
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requests import (
    AddPartitionsRequested,
    AlterTopicConfigRequested,
    CancelReassignmentsRequested,
    DeleteTopicRequested,
    ElectionKind,
    ElectLeadersRequested,
    Move,
    ReassignmentsRequested,
    ReassignmentThrottleRequested,
    RemovePartitionsRequested,
)

__all__ = [
    "add_partitions_in",
    "alter_config_in",
    "cancel_in",
    "delete_topic_in",
    "elect_in",
    "election_out",
    "failed_replicas_in",
    "name_in",
    "name_out",
    "names_in",
    "reassign_in",
    "remove_partitions_in",
    "result_out",
    "throttle_in",
]

_TOPIC_ID_BYTES = 16
_KINDS = {
    controller_pb2.ELECTION_KIND_PREFERRED: ElectionKind.PREFERRED,
    controller_pb2.ELECTION_KIND_UNCLEAN: ElectionKind.UNCLEAN,
}


def delete_topic_in(request: controller_pb2.DeleteTopicRequest, request_id: int) -> DeleteTopicRequested:
    """The event of a DeleteTopic request. Raises ServiceError if the topic id is not valid."""
    return DeleteTopicRequested(
        request_id, request.topic, request.validate_only, _topic_id_in(request.topic_id)
    )


def add_partitions_in(
    request: controller_pb2.AddPartitionsRequest, request_id: int
) -> AddPartitionsRequested:
    """The event of an AddPartitions request."""
    assignment = tuple(tuple(assigned.replicas) for assigned in request.assignment)
    return AddPartitionsRequested(
        request_id, request.topic, request.partition_count, assignment, request.validate_only
    )


def remove_partitions_in(
    request: controller_pb2.RemovePartitionsRequest, request_id: int
) -> RemovePartitionsRequested:
    """The event of a RemovePartitions request. Raises ServiceError if the topic id is not valid."""
    return RemovePartitionsRequested(
        request_id,
        request.topic,
        request.partition_count,
        request.validate_only,
        _topic_id_in(request.topic_id),
    )


def alter_config_in(
    request: controller_pb2.AlterTopicConfigRequest, request_id: int
) -> AlterTopicConfigRequested:
    """The event of an AlterTopicConfig request."""
    return AlterTopicConfigRequested(
        request_id, request.topic, dict(request.set), tuple(request.reset), request.validate_only
    )


def reassign_in(request: controller_pb2.ReassignPartitionsRequest, request_id: int) -> ReassignmentsRequested:
    """The event of a ReassignPartitions request. A throttle of 0 does not change the throttle. Raises
    ServiceError."""
    moves = tuple(Move(name_in(move.partition), tuple(move.replicas)) for move in request.moves)
    throttle = _rate_in(request.throttle_bytes_per_s) or None
    return ReassignmentsRequested(request_id, moves, throttle, request.validate_only)


def cancel_in(
    request: controller_pb2.CancelReassignmentsRequest, request_id: int
) -> CancelReassignmentsRequested:
    """The event of a CancelReassignments request."""
    return CancelReassignmentsRequested(request_id, names_in(request.partitions), request.validate_only)


def throttle_in(
    request: controller_pb2.AlterReassignmentThrottleRequest, request_id: int
) -> ReassignmentThrottleRequested:
    """The event of an AlterReassignmentThrottle request. Raises ServiceError."""
    return ReassignmentThrottleRequested(request_id, _rate_in(request.throttle_bytes_per_s))


def elect_in(request: controller_pb2.ElectLeadersRequest, request_id: int) -> ElectLeadersRequested:
    """The event of an ElectLeaders request. Raises ServiceError if the kind of election is not known."""
    kind = _KINDS.get(request.kind)
    if kind is None:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"election kind {request.kind} is not known; it is PREFERRED (1) or UNCLEAN (2)",
        )
    return ElectLeadersRequested(request_id, kind, names_in(request.partitions), request.validate_only)


def failed_replicas_in(
    request: controller_pb2.ReportFailedReplicasRequest,
) -> list[ReplicasFailed | ReplicasDamaged]:
    """The events of a ReportFailedReplicas request. Raises ServiceError for a condition that this version
    does not know."""
    failed: list[tuple[str, int]] = []
    damaged: list[tuple[str, int, int]] = []
    whole: list[tuple[str, int]] = []
    diverged: list[tuple[str, int, Divergence]] = []
    hanging: list[tuple[str, int]] = []
    differing: list[tuple[str, int, Divergence]] = []
    for replica in request.replicas:
        name = replica.topic_id.hex(), replica.partition
        match replica.condition:
            case controller_pb2.REPLICA_CONDITION_UNSPECIFIED:
                failed.append(name)
            case controller_pb2.REPLICA_CONDITION_DAMAGED:
                damaged.append((*name, max(-1, replica.damaged_offset)))
            case controller_pb2.REPLICA_CONDITION_WHOLE:
                whole.append(name)
            case controller_pb2.REPLICA_CONDITION_DIVERGED:
                diverged.append((*name, _divergence_in(replica.divergence)))
            case controller_pb2.REPLICA_CONDITION_DIFFERS:
                differing.append((*name, _divergence_in(replica.divergence)))
            case controller_pb2.REPLICA_CONDITION_HANGS:
                hanging.append(name)
            case unknown:
                raise ServiceError(
                    ErrorCode.ERROR_CODE_INVALID_REQUEST,
                    f"replica condition {unknown} is not known; it is 0 (its log directory failed), DAMAGED "
                    "(1), WHOLE (2), DIVERGED (3), HANGS (4) or DIFFERS (5)",
                )
    events: list[ReplicasFailed | ReplicasDamaged] = []
    if failed:
        events.append(ReplicasFailed(request.broker_id, request.broker_epoch, tuple(failed)))
    if damaged or whole or diverged or hanging or differing:
        events.append(
            ReplicasDamaged(
                request.broker_id, request.broker_epoch, tuple(damaged), tuple(whole), tuple(diverged),
                tuple(hanging), tuple(differing),
            )
        )  # fmt: skip
    return events


def _divergence_in(found: controller_pb2.Divergence) -> Divergence:
    return Divergence(found.offset, found.high_watermark, found.leader, found.leader_epoch)


def result_out(outcome: PartitionOutcome) -> controller_pb2.PartitionResult:
    """The outcome of one partition."""
    code = ErrorCode.ERROR_CODE_UNSPECIFIED if outcome.refusal is None else ERROR_CODES[outcome.refusal]
    return controller_pb2.PartitionResult(
        partition=name_out(outcome.name), error_code=code, message=outcome.message
    )


def election_out(election: ElectionOutcome) -> controller_pb2.Election:
    """The outcome of one election."""
    return controller_pb2.Election(
        result=result_out(election.outcome),
        leader=election.leader,
        leader_epoch=election.leader_epoch,
        previous_leader=election.previous_leader,
        previous_isr=election.previous_isr,
    )


def name_out(name: TopicPartition) -> controller_pb2.PartitionName:
    """The name of a partition, for a response."""
    return controller_pb2.PartitionName(topic=name.topic, partition=name.partition)


def name_in(name: controller_pb2.PartitionName) -> TopicPartition:
    """The name of a partition, from a request."""
    return TopicPartition(name.topic, name.partition)


def names_in(names: Iterable[controller_pb2.PartitionName]) -> tuple[TopicPartition, ...]:
    """The names of partitions, in the order of the request."""
    return tuple(name_in(name) for name in names)


def _rate_in(throttle_bytes_per_s: int) -> int:
    if throttle_bytes_per_s < 0:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"throttle_bytes_per_s is {throttle_bytes_per_s}; it is a number of bytes, or 0 for no limit",
        )
    return throttle_bytes_per_s


def _topic_id_in(topic_id: bytes) -> str:
    if len(topic_id) not in (0, _TOPIC_ID_BYTES):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"a topic id has {_TOPIC_ID_BYTES} bytes, and this one has {len(topic_id):,}; leave it out to "
            "name the topic by its name alone",
        )
    return topic_id.hex()
