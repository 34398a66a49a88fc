"""Conversions between protobuf messages and the broker's dataclasses, for clients and for other brokers.

Only this module and its siblings `convert_*` know both. They check the shape of messages from outside, so
that all other code can rely on it, and raise ServiceError (INVALID_REQUEST).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from google.protobuf.message import DecodeError
from hightide.batch.errors import MalformedMessage
from hightide.batch.header import Buffer
from hightide.batch.wire import FetchPartitionResult, FetchResponse, ProducePartition
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import metadata_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.throttle import Throttle
from hightide_runtime.serving.listeners import address_told

from hightide_broker.cluster.metadata import (
    BLANK,
    EndpointView,
)
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract.data_calls import (
    FetchCall,
    FetchFrom,
    OffsetFound,
    OffsetQuestion,
    Outcome,
    PartitionRead,
    PartitionRefused,
    PlainRecord,
    PlainRecordsRead,
)
from hightide_broker.contract.replica_calls import (
    DigestQuestion,
    EpochAnswer,
    EpochQuestion,
    Follower,
    ReplicaFetchCall,
)
from hightide_broker.contract.topic_answers import TopicAnswers
from hightide_broker.core.fetch_session import FollowerPosition, SessionRequest
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.core.refusals import Refusal
from hightide_broker.limits import REQUEST_PARTITIONS_MAX

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
"""The codes of the contract for all refusals of the core. A test checks that none is missing."""

_REFUSALS: Final = {code: refusal for refusal, code in _CODES.items()}


def error_code_of(refusal: Refusal) -> ErrorCode.ValueType:
    """The contract's code for a refusal of the core."""
    return _CODES[refusal]


def refusal_of(code: int) -> Refusal:
    """The refusal for a leader's error code, for the core of a follower. For an unknown code it is
    NOT_LEADER, after which the follower asks again."""
    return _REFUSALS.get(ErrorCode.ValueType(code), Refusal.NOT_LEADER)


# --- answers to clients -----------------------------------------------------------------------------


def _endpoint_out(endpoint: EndpointView) -> metadata_pb2.Endpoint:
    """A process with its address for the client that asks."""
    address = address_told(endpoint)
    return metadata_pb2.Endpoint(id=endpoint.id, host=address.host, port=address.port)


def metadata_names_in(request: broker_pb2.GetMetadataRequest) -> Sequence[str]:
    """The topics of a GetMetadata request. Raises ServiceError if it names too many, since an answer must
    not be larger than the cluster."""
    return _topic_names(request.topics)


def _topic_names(names: Sequence[str]) -> Sequence[str]:
    if len(names) > REQUEST_PARTITIONS_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"the request names {len(names)} topics; take at most {REQUEST_PARTITIONS_MAX}, or all",
        )
    return names


def metadata_out(
    answers: TopicAnswers,
    names: Iterable[str],
    everything: bool,
    sees: Callable[[str], bool] | None = None,
) -> broker_pb2.GetMetadataResponse:
    """The response of GetMetadata: the requested topics in their order, those that are unknown, or that the
    client may not know of, with an error code. `sees`: what it may know of; None: all. Raises ServiceError if
    this broker has no metadata yet, since clients take a topic that stays unknown for deleted."""
    cache = answers.cache
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
        topics = cache.topics()
        response.topics.extend(answers.of(topic) for topic in topics if sees is None or sees(topic.topic))
        return response
    for name in names:
        known = cache.topic(name)
        if known is not None and (sees is None or sees(name)):
            response.topics.append(answers.of(known))
        elif cache.is_blank:
            raise ServiceError(ErrorCode.ERROR_CODE_OVERLOADED, f"this broker {BLANK}; ask another one")
        else:
            response.topics.add(topic=name, error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
    return response


def described_topics_in(request: broker_pb2.DescribeReplicasRequest) -> Sequence[str]:
    """The topics of a DescribeReplicas request; none means all. Raises ServiceError if it names too
    many."""
    return _topic_names(request.topics)


# --- the data path ---------------------------------------------------------------------------------


def produce_out(
    asked: Sequence[ProducePartition[memoryview]], outcomes: Sequence[Outcome], throttle_time_ms: int = 0
) -> broker_pb2.ProduceResponse:
    """The response of Produce, in the order of the request."""
    response = broker_pb2.ProduceResponse(throttle_time_ms=throttle_time_ms)
    for each, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, PartitionRefused):
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


def produce_unacknowledged_out(
    asked: Sequence[ProducePartition[memoryview]], throttle_time_ms: int = 0
) -> broker_pb2.ProduceResponse:
    """The response of Produce with ACKS_NONE, without offsets and errors."""
    response = broker_pb2.ProduceResponse(throttle_time_ms=throttle_time_ms)
    for each in asked:
        response.partitions.add(
            topic_id=each.topic_id, partition=each.partition, base_offset=-1, current_leader=-1,
            current_leader_epoch=-1,
        )  # fmt: skip
    return response


def fetch_in(request: broker_pb2.FetchRequest) -> FetchCall:
    """The call of a Fetch request."""
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


def fetch_out(read: Sequence[PartitionRead], throttle_time_ms: int = 0) -> FetchResponse[Sequence[Buffer]]:
    """The response of Fetch, in the order of the request."""
    return FetchResponse(tuple(_read_out(each) for each in read), throttle_time_ms)


def throttle_out(throttle: Throttle | None) -> int:
    """What an answer tells its caller about the quota: how many milliseconds to wait."""
    return 0 if throttle is None else throttle.told_ms


def not_read(key: PartitionKey, refusal: PartitionRefused) -> PartitionRead:
    """The result of a partition that the client may not read."""
    return PartitionRead(key, -1, -1, (), 0, refusal)


def _read_out(read: PartitionRead) -> FetchPartitionResult[Sequence[Buffer]]:
    refused = read.refused
    if refused is None:
        return FetchPartitionResult(
            read.key[0], read.key[1], 0, "", read.high_watermark, read.log_start_offset, -1, -1, read.batches
        )
    epoch, end_offset = refused.agreed or (0, 0)
    return FetchPartitionResult(
        read.key[0], read.key[1], refused.code, refused.message, read.high_watermark, read.log_start_offset,
        refused.current_leader, refused.current_leader_epoch, read.batches, end_offset, epoch,
    )  # fmt: skip


def list_offsets_in(request: broker_pb2.ListOffsetsRequest) -> tuple[OffsetQuestion, ...]:
    """The questions of a ListOffsets request."""
    return tuple(
        OffsetQuestion((each.topic_id, each.partition), each.leader_epoch, each.spec, each.timestamp_us)
        for each in request.partitions
    )


def list_offsets_out(
    asked: Sequence[OffsetQuestion], answers: Sequence[OffsetFound | PartitionRefused]
) -> broker_pb2.ListOffsetsResponse:
    """The response of ListOffsets, in the order of the request."""
    response = broker_pb2.ListOffsetsResponse()
    for question, answer in zip(asked, answers, strict=True):
        topic_id, partition = question.key
        if isinstance(answer, PartitionRefused):
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
    """The records of a ProduceRecords request."""
    return [
        PlainRecord(
            record.key if record.HasField("key") else None,
            record.value if record.HasField("value") else None,
            record.timestamp_us,
            tuple((header.key, header.value) for header in record.headers),
        )
        for record in request.records
    ]


def skips_corrupt_batches(request: broker_pb2.FetchRecordsRequest) -> bool:
    """Whether a FetchRecords request skips batches that no reader can open. Raises ServiceError for a choice
    that this version does not know."""
    match request.on_corrupt_batch:
        case broker_pb2.ON_CORRUPT_BATCH_UNSPECIFIED | broker_pb2.ON_CORRUPT_BATCH_FAIL:
            return False
        case broker_pb2.ON_CORRUPT_BATCH_SKIP:
            return True
        case unknown:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"on_corrupt_batch {unknown} is not known; it is FAIL (1) or SKIP (2), or left out",
            )


def plain_records_out(found: PlainRecordsRead, throttle_time_ms: int = 0) -> broker_pb2.FetchRecordsResponse:
    """The response of FetchRecords."""
    response = broker_pb2.FetchRecordsResponse(
        high_watermark=found.high_watermark,
        next_offset=found.next_offset,
        skipped_batch_count=found.skipped_batch_count,
        skipped_record_count=found.skipped_record_count,
        throttle_time_ms=throttle_time_ms,
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
    """The call of a ReplicaFetch request, at the leader."""
    return ReplicaFetchCall(
        Follower(request.cluster_id, request.replica_id, request.broker_epoch, request.incarnation),
        SessionRequest(
            request.session_id,
            request.round,
            tuple(
                (
                    (each.topic_id, each.partition),
                    FollowerPosition(
                        each.leader_epoch, each.fetch_offset, each.log_start_offset, each.partition_epoch
                    ),
                )
                for each in request.moved
            ),
            tuple((each.topic_id, each.partition) for each in request.forgotten),
        ),
        request.max_wait_ms,
        request.max_bytes,
    )


def replica_fetch_out(call: ReplicaFetchCall) -> bytes:
    """The ReplicaFetch request of a call, at the follower, serialized."""
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
            partition_epoch=position.partition_epoch,
        )
    for topic_id, partition in call.session.forgotten:
        request.forgotten.add(topic_id=topic_id, partition=partition)
    return request.SerializeToString()


def epoch_questions_in(
    request: replica_pb2.EndOffsetForLeaderEpochRequest,
) -> tuple[Follower, tuple[EpochQuestion, ...]]:
    """The follower and the questions of an EndOffsetForLeaderEpoch request, at the leader."""
    follower = Follower(request.cluster_id, request.replica_id, request.broker_epoch)
    return follower, tuple(
        EpochQuestion((each.topic_id, each.partition), each.current_leader_epoch, each.epoch)
        for each in request.partitions
    )


def epoch_questions_out(follower: Follower, questions: Sequence[EpochQuestion]) -> bytes:
    """The EndOffsetForLeaderEpoch request with these questions, at the follower, serialized."""
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


def digest_question_in(request: replica_pb2.DigestBatchesRequest) -> DigestQuestion:
    """The question of a DigestBatches request, at the leader."""
    return DigestQuestion(
        Follower(request.cluster_id, request.replica_id, request.broker_epoch),
        (request.topic_id, request.partition),
        request.leader_epoch,
        request.base_offset,
        request.end_offset,
    )


def digest_question_out(question: DigestQuestion) -> replica_pb2.DigestBatchesRequest:
    """The DigestBatches request of a question, at the follower."""
    return replica_pb2.DigestBatchesRequest(
        cluster_id=question.follower.cluster_id,
        replica_id=question.follower.replica_id,
        broker_epoch=question.follower.broker_epoch,
        topic_id=question.key[0],
        partition=question.key[1],
        leader_epoch=question.leader_epoch,
        base_offset=question.base_offset,
        end_offset=question.end_offset,
    )


def epoch_answers_out(answers: Sequence[EpochAnswer]) -> replica_pb2.EndOffsetForLeaderEpochResponse:
    """The response of EndOffsetForLeaderEpoch, at the leader."""
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
    """The answers of an EndOffsetForLeaderEpoch response, at the follower. Raises MalformedMessage."""
    try:
        response = replica_pb2.EndOffsetForLeaderEpochResponse.FromString(message)
    except DecodeError as error:
        raise MalformedMessage(f"not an EndOffsetForLeaderEpochResponse: {error}") from None
    return [
        EpochAnswer((each.topic_id, each.partition), each.error_code, EpochEnd(each.epoch, each.end_offset))
        for each in response.partitions
    ]
