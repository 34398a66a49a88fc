"""Where protobuf messages and the broker's own dataclasses meet, and the only place.

What comes from outside is checked here for its shape (an id of 16 bytes, a port, no partition named
twice), so that everything behind it can rely on that. Errors: ServiceError(INVALID_REQUEST).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.message import DecodeError
from hightide.batch.errors import MalformedMessage
from hightide.batch.header import Buffer
from hightide.batch.wire import FetchPartitionResult, FetchResponse, ProducePartition
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import metadata_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.listeners import address_told
from hightide_runtime.topic_names import is_legal_topic_name

from hightide_broker.core.fetch_session import Position, SessionRequest
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.core.refusals import Refusal
from hightide_broker.data_calls import (
    FetchCall,
    FetchFrom,
    OffsetFound,
    OffsetQuestion,
    Outcome,
    PlainRecord,
    PlainRecordsRead,
    Read,
    Refused,
)
from hightide_broker.decisions import Decisions, PartitionDecision, Stamp, StopDecision, TopicDecisions
from hightide_broker.limits import REQUEST_PARTITIONS_MAX
from hightide_broker.metadata import (
    EndpointView,
    MetadataCache,
    MetadataUpdate,
    PartitionView,
    RemovedPartitions,
    TopicView,
)
from hightide_broker.replica_calls import EpochAnswer, EpochQuestion, Follower, ReplicaFetchCall

ControlResults = Sequence[tuple[bytes, int, ErrorCode.ValueType]]
"""What became of each decision: topic id, partition, and why it failed or ERROR_CODE_UNSPECIFIED."""

_CODES: Final[dict[Refusal, ErrorCode.ValueType]] = {
    Refusal.NOT_LEADER: ErrorCode.ERROR_CODE_NOT_LEADER,
    Refusal.PARTITION_OFFLINE: ErrorCode.ERROR_CODE_PARTITION_OFFLINE,
    Refusal.FENCED_LEADER_EPOCH: ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH,
    Refusal.UNKNOWN_LEADER_EPOCH: ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH,
    Refusal.STALE_CONTROLLER_EPOCH: ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH,
    Refusal.NOT_ASSIGNED: ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
    Refusal.INVALID_DECISION: ErrorCode.ERROR_CODE_INVALID_REQUEST,
    Refusal.OFFSET_OUT_OF_RANGE: ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE,
    Refusal.OFFSET_NOT_AVAILABLE: ErrorCode.ERROR_CODE_OFFSET_NOT_AVAILABLE,
    Refusal.NOT_ENOUGH_REPLICAS: ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS,
    Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Refusal.STORAGE_FAILED: ErrorCode.ERROR_CODE_STORAGE_FAILED,
}
"""Core's refusals as the contract tells them; total, and a test says so."""

_REFUSALS: Final = {code: refusal for refusal, code in _CODES.items()}


def error_code_of(refusal: Refusal) -> ErrorCode.ValueType:
    """The contract's code for a refusal of the core."""
    return _CODES[refusal]


def refusal_of(code: int) -> Refusal:
    """What a leader's error means to the core of a follower; an unknown one is NOT_LEADER: ask again."""
    return _REFUSALS.get(ErrorCode.ValueType(code), Refusal.NOT_LEADER)


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
    """A broker or controller. One that nobody could reach is a mistake of who names it."""
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


def _endpoint_out(endpoint: EndpointView) -> metadata_pb2.Endpoint:
    """As the client that asks can reach it."""
    told = address_told(endpoint)
    return metadata_pb2.Endpoint(id=endpoint.id, host=told.host, port=told.port)


def _check_decision(topic: str, decision: PartitionDecision) -> None:
    """What the numbers of one decision must be for there to be a sense in it."""
    if (
        decision.partition < 0
        or decision.leader < -1
        or min(decision.leader_epoch, decision.partition_epoch) < 0
    ):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decision.partition}: leader {decision.leader}, leader epoch {decision.leader_epoch} "
            f"and partition epoch {decision.partition_epoch} make no decision",
        )
    replicas, isr = set(decision.replicas), set(decision.isr)
    leads = decision.leader == -1 or decision.leader in isr
    unique = len(replicas) == len(decision.replicas) and len(isr) == len(decision.isr)
    if not isr or not isr <= replicas or min(replicas) < 0 or not unique or not leads:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decision.partition}: leader {decision.leader}, ISR {list(decision.isr)} and replicas "
            f"{list(decision.replicas)} contradict each other",
        )
    if not 0 <= decision.first_leader_epoch <= decision.leader_epoch or not replicas.issuperset(
        decision.adding_replicas
    ):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"{topic}-{decision.partition}: first leader epoch {decision.first_leader_epoch} and adding "
            f"replicas {list(decision.adding_replicas)} do not fit leader epoch {decision.leader_epoch} and "
            f"replicas {list(decision.replicas)}",
        )


def _check_each_once(keys: Sequence[tuple[bytes, int]]) -> None:
    if len(set(keys)) != len(keys):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            "the request decides about a partition twice; which is meant?",
        )


def decisions_in(request: control_pb2.LeaderAndISRRequest) -> Decisions:
    """LeaderAndISR."""
    topics = tuple(map(_topic_decisions_in, request.topics))
    _check_each_once([(topic.topic_id, each.partition) for topic in topics for each in topic.partitions])
    return Decisions(topics, tuple(endpoint_in(leader) for leader in request.leaders))


def _topic_decisions_in(topic: control_pb2.LeaderAndISRTopic) -> TopicDecisions:
    """One topic of it. What becomes a ZooKeeper path or a directory must be fit for it.

    Each decision is read once and then checked: a field of a message costs more than one of ours, and a
    failover brings ten thousand decisions.
    """
    if not is_legal_topic_name(topic.topic):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_TOPIC_NAME, f"{topic.topic[:249]!r} is not the name of a topic"
        )
    decisions = tuple(
        PartitionDecision(
            each.partition,
            each.leader,
            each.leader_epoch,
            tuple(each.isr),
            tuple(each.replicas),
            each.partition_epoch,
            each.controller_epoch,
            each.first_leader_epoch,
            tuple(each.adding_replicas),
        )
        for each in topic.partitions
    )
    for decision in decisions:
        _check_decision(topic.topic, decision)
    return TopicDecisions(topic.topic, _topic_id(topic.topic_id), dict(topic.configs), decisions)


def stops_in(request: control_pb2.StopReplicaRequest) -> tuple[StopDecision, ...]:
    """StopReplica."""
    for each in request.partitions:
        if each.partition < 0 or each.leader_epoch < -1 or each.partition_epoch < 0:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"{each.topic[:249]!r}-{each.partition} in leader epoch {each.leader_epoch} and partition "
                f"epoch {each.partition_epoch} is no replica",
            )
    _check_each_once([(each.topic_id, each.partition) for each in request.partitions])
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
    """The answer to LeaderAndISR and StopReplica."""
    return [
        control_pb2.ControlPartitionResult(topic_id=topic_id, partition=partition, error_code=code)
        for topic_id, partition, code in results
    ]


def metadata_update_in(request: control_pb2.UpdateMetadataRequest) -> MetadataUpdate:
    """UpdateMetadata."""
    if request.reassignment_throttle_bytes_per_s < 0:
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"a speed limit of {request.reassignment_throttle_bytes_per_s} bytes a second is none; say 0",
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
    """A topic of an UpdateMetadata: its name and numbers are sent on to every client that asks."""
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
            f"{topic.topic}: error code {topic.error_code} says nothing in an UpdateMetadata",
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
                traceparent="" if each.change is None else each.change.traceparent,
            )
            for each in topic.partitions
        ],
    )


def metadata_names_in(request: broker_pb2.GetMetadataRequest) -> Sequence[str]:
    """The topics that a GetMetadata names: each once, so that an answer is never larger than the cluster."""
    return _topic_names(request.topics)


def _topic_names(names: Sequence[str]) -> Sequence[str]:
    if len(names) > REQUEST_PARTITIONS_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"the request names {len(names)} topics; take at most {REQUEST_PARTITIONS_MAX}, or all",
        )
    if len(set(names)) != len(names):
        raise ServiceError(ErrorCode.ERROR_CODE_INVALID_REQUEST, "the request names a topic twice; ask once")
    return names


def metadata_out(
    cache: MetadataCache, names: Iterable[str], everything: bool
) -> broker_pb2.GetMetadataResponse:
    """GetMetadata: the topics asked for in their order, unknown ones marked as such."""
    response = broker_pb2.GetMetadataResponse(
        cluster_id=cache.cluster_id,
        brokers=[_endpoint_out(cache.brokers[broker_id]) for broker_id in sorted(cache.brokers)],
        controller_epoch=cache.controller_epoch,
        coordinators=[
            metadata_pb2.Endpoint() if each is None else _endpoint_out(each) for each in cache.coordinators
        ],
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


def described_topics_in(request: broker_pb2.DescribeReplicasRequest) -> Sequence[str]:
    """The topics that a DescribeReplicas names, each once; none means all."""
    return _topic_names(request.topics)


# --- the data path ---------------------------------------------------------------------------------


def produce_out(
    asked: Sequence[ProducePartition[memoryview]], outcomes: Sequence[Outcome]
) -> broker_pb2.ProduceResponse:
    """The answer to Produce, in the order of the request."""
    response = broker_pb2.ProduceResponse()
    for each, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Refused):
            response.partitions.add(
                topic_id=each.topic_id, partition=each.partition, error_code=outcome.code,
                error_message=outcome.message, base_offset=-1, current_leader=outcome.current_leader,
                current_leader_epoch=outcome.current_leader_epoch,
            )  # fmt: skip
        else:
            response.partitions.add(
                topic_id=each.topic_id, partition=each.partition, base_offset=outcome.base_offset,
                log_start_offset=outcome.log_start_offset, current_leader=-1, current_leader_epoch=-1,
            )  # fmt: skip
    return response


def produce_untold_out(asked: Sequence[ProducePartition[memoryview]]) -> broker_pb2.ProduceResponse:
    """The answer to Produce with ACKS_NONE: neither offsets nor errors are told."""
    response = broker_pb2.ProduceResponse()
    for each in asked:
        response.partitions.add(
            topic_id=each.topic_id, partition=each.partition, base_offset=-1, current_leader=-1,
            current_leader_epoch=-1,
        )  # fmt: skip
    return response


def fetch_in(request: broker_pb2.FetchRequest) -> FetchCall:
    """Fetch."""
    return FetchCall(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        tuple(
            FetchFrom(
                (each.topic_id, each.partition),
                each.leader_epoch,
                each.fetch_offset,
                each.max_bytes,
                each.last_fetched_epoch if each.HasField("last_fetched_epoch") else NO_EPOCH,
            )
            for each in request.partitions
        ),
        request.from_follower,
    )


def fetch_out(read: Sequence[Read]) -> FetchResponse[Sequence[Buffer]]:
    """The answer to Fetch, in the order of the request."""
    return FetchResponse(tuple(_read_out(each) for each in read))


def _read_out(read: Read) -> FetchPartitionResult[Sequence[Buffer]]:
    why = read.refused
    if why is None:
        return FetchPartitionResult(
            read.key[0], read.key[1], 0, "", read.high_watermark, read.log_start_offset, -1, -1, read.batches
        )
    epoch, end_offset = why.agreed or (0, 0)
    return FetchPartitionResult(
        read.key[0], read.key[1], why.code, why.message, read.high_watermark, read.log_start_offset,
        why.current_leader, why.current_leader_epoch, read.batches, end_offset, epoch,
    )  # fmt: skip


def list_offsets_in(request: broker_pb2.ListOffsetsRequest) -> tuple[OffsetQuestion, ...]:
    """ListOffsets."""
    return tuple(
        OffsetQuestion((each.topic_id, each.partition), each.leader_epoch, each.spec, each.timestamp_us)
        for each in request.partitions
    )


def list_offsets_out(
    asked: Sequence[OffsetQuestion], answers: Sequence[OffsetFound | Refused]
) -> broker_pb2.ListOffsetsResponse:
    """The answer to ListOffsets, in the order of the request."""
    response = broker_pb2.ListOffsetsResponse()
    for question, answer in zip(asked, answers, strict=True):
        topic_id, partition = question.key
        if isinstance(answer, Refused):
            response.partitions.add(
                topic_id=topic_id, partition=partition, error_code=answer.code, error_message=answer.message,
                offset=-1, timestamp_us=-1, leader_epoch=answer.current_leader_epoch, epoch_before=-1,
            )  # fmt: skip
        else:
            response.partitions.add(
                topic_id=topic_id, partition=partition, offset=answer.offset,
                timestamp_us=answer.timestamp_us, leader_epoch=answer.leader_epoch,
                epoch_before=answer.epoch_before,
            )  # fmt: skip
    return response


def plain_records_in(request: broker_pb2.ProduceRecordsRequest) -> list[PlainRecord]:
    """The records of ProduceRecords."""
    return [
        PlainRecord(
            record.key if record.HasField("key") else None,
            record.value if record.HasField("value") else None,
            record.timestamp_us,
            tuple((header.key, header.value) for header in record.headers),
        )
        for record in request.records
    ]


def plain_records_out(found: PlainRecordsRead) -> broker_pb2.FetchRecordsResponse:
    """The answer to FetchRecords."""
    response = broker_pb2.FetchRecordsResponse(
        high_watermark=found.high_watermark, next_offset=found.next_offset
    )
    for offset, record in found.records:
        response.records.add(
            key=record.key,
            value=record.value,
            timestamp_us=record.timestamp_us,
            offset=offset,
            headers=[broker_pb2.RecordHeader(key=key, value=value) for key, value in record.headers],
        )
    return response


# --- between brokers -------------------------------------------------------------------------------


def replica_fetch_in(request: replica_pb2.ReplicaFetchRequest) -> ReplicaFetchCall:
    """ReplicaFetch, as the leader reads it."""
    return ReplicaFetchCall(
        Follower(request.cluster_id, request.replica_id, request.broker_epoch, request.incarnation),
        SessionRequest(
            request.session_id,
            request.round,
            tuple(
                (
                    (each.topic_id, each.partition),
                    Position(each.leader_epoch, each.fetch_offset, each.log_start_offset),
                )
                for each in request.moved
            ),
            tuple((each.topic_id, each.partition) for each in request.forgotten),
        ),
        request.max_wait_ms,
        request.max_bytes,
    )


def replica_fetch_out(call: ReplicaFetchCall) -> bytes:
    """ReplicaFetch, as the follower writes it."""
    request = replica_pb2.ReplicaFetchRequest(
        cluster_id=call.follower.cluster_id,
        replica_id=call.follower.replica_id,
        broker_epoch=call.follower.broker_epoch,
        incarnation=call.follower.incarnation,
        session_id=call.session.session_id,
        round=call.session.round,
        max_wait_ms=call.max_wait_ms,
        max_bytes=call.max_bytes,
    )
    for (topic_id, partition), position in call.session.moved:
        request.moved.add(
            topic_id=topic_id,
            partition=partition,
            leader_epoch=position.leader_epoch,
            fetch_offset=position.fetch_offset,
            log_start_offset=position.log_start_offset,
        )
    for topic_id, partition in call.session.forgotten:
        request.forgotten.add(topic_id=topic_id, partition=partition)
    return request.SerializeToString()


def epoch_questions_in(
    request: replica_pb2.EndOffsetForLeaderEpochRequest,
) -> tuple[Follower, tuple[EpochQuestion, ...]]:
    """EndOffsetForLeaderEpoch, as the leader reads it."""
    follower = Follower(request.cluster_id, request.replica_id, request.broker_epoch)
    return follower, tuple(
        EpochQuestion((each.topic_id, each.partition), each.current_leader_epoch, each.epoch)
        for each in request.partitions
    )


def epoch_questions_out(follower: Follower, questions: Sequence[EpochQuestion]) -> bytes:
    """EndOffsetForLeaderEpoch, as the follower writes it."""
    request = replica_pb2.EndOffsetForLeaderEpochRequest(
        cluster_id=follower.cluster_id, replica_id=follower.replica_id, broker_epoch=follower.broker_epoch
    )
    for each in questions:
        request.partitions.add(
            topic_id=each.key[0],
            partition=each.key[1],
            current_leader_epoch=each.current_leader_epoch,
            epoch=each.epoch,
        )
    return request.SerializeToString()


def epoch_answers_out(answers: Sequence[EpochAnswer]) -> replica_pb2.EndOffsetForLeaderEpochResponse:
    """The answer to EndOffsetForLeaderEpoch, as the leader writes it."""
    response = replica_pb2.EndOffsetForLeaderEpochResponse()
    for each in answers:
        response.partitions.add(
            topic_id=each.key[0],
            partition=each.key[1],
            error_code=each.code,
            epoch=each.end.epoch,
            end_offset=each.end.end_offset,
        )
    return response


def epoch_answers_in(message: bytes) -> list[EpochAnswer]:
    """The answer to EndOffsetForLeaderEpoch, as the follower reads it. Raises MalformedMessage."""
    try:
        response = replica_pb2.EndOffsetForLeaderEpochResponse.FromString(message)
    except DecodeError as error:
        raise MalformedMessage(f"not an EndOffsetForLeaderEpochResponse: {error}") from None
    return [
        EpochAnswer((each.topic_id, each.partition), each.error_code, EpochEnd(each.epoch, each.end_offset))
        for each in response.partitions
    ]
