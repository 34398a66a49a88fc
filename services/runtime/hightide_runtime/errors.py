"""The catalogue of errors that services answer with: which code, which gRPC status, which sentence.

A servicer raises `ServiceError`; the innermost interceptor (`interceptors.errors`) turns it into a
gRPC status with a `google.rpc.ErrorInfo`. Results that speak for one partition carry the code in
their body instead (docs/protocol.md, "Errors").
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from hightide.v1.errors_pb2 import ErrorCode

DOMAIN = "hightide"
#: All metadata of an answer together must stay below 8 KiB, or clients see nothing but a protocol error.
_MAX_MESSAGE_CHARACTERS = 1000
_MAX_VALUE_CHARACTERS = 200
INTERNAL_ERROR_MESSAGE = "the server failed in a way that has no code of its own; its log has the details"

_S = grpc.StatusCode

CATALOGUE: Mapping[int, grpc.StatusCode] = MappingProxyType(
    {
        # UNSPECIFIED means "no error"; whoever raises it has a bug, so that it is told as one.
        ErrorCode.ERROR_CODE_UNSPECIFIED: _S.INTERNAL,
        ErrorCode.ERROR_CODE_INTERNAL: _S.INTERNAL,
        ErrorCode.ERROR_CODE_INVALID_REQUEST: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_LIMIT_EXCEEDED: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_OVERLOADED: _S.RESOURCE_EXHAUSTED,
        ErrorCode.ERROR_CODE_SHUTTING_DOWN: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_TIMED_OUT: _S.DEADLINE_EXCEEDED,
        ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_NOT_AUTHORIZED: _S.PERMISSION_DENIED,
        ErrorCode.ERROR_CODE_NOT_AUTHENTICATED: _S.UNAUTHENTICATED,
        ErrorCode.ERROR_CODE_QUOTA_EXCEEDED: _S.RESOURCE_EXHAUSTED,
        ErrorCode.ERROR_CODE_UNKNOWN_TOPIC: _S.NOT_FOUND,
        ErrorCode.ERROR_CODE_UNKNOWN_PARTITION: _S.NOT_FOUND,
        ErrorCode.ERROR_CODE_TOPIC_ALREADY_EXISTS: _S.ALREADY_EXISTS,
        ErrorCode.ERROR_CODE_INVALID_TOPIC_NAME: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_INVALID_PARTITION_COUNT: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_INVALID_REPLICATION_FACTOR: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_INVALID_ASSIGNMENT: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_INVALID_CONFIG: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_TOPIC_BEING_DELETED: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_NO_REASSIGNMENT: _S.NOT_FOUND,
        ErrorCode.ERROR_CODE_REASSIGNMENT_IN_PROGRESS: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_ELECTION_NOT_NEEDED: _S.FAILED_PRECONDITION,
        # Leadership errors are no reason to repeat the same call: the caller refreshes its metadata.
        ErrorCode.ERROR_CODE_NOT_LEADER: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_PARTITION_OFFLINE: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_STALE_CONTROLLER_EPOCH: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_NOT_CONTROLLER: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_UNKNOWN_BROKER: _S.NOT_FOUND,
        ErrorCode.ERROR_CODE_UNKNOWN_FETCH_SESSION: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_FETCH_SESSION_OUT_OF_TURN: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_NO_CONTROLLER: _S.UNIMPLEMENTED,
        ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE: _S.OUT_OF_RANGE,
        ErrorCode.ERROR_CODE_OFFSET_NOT_AVAILABLE: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_DIVERGING_LOG: _S.OUT_OF_RANGE,
        ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_CORRUPT_BATCH: _S.DATA_LOSS,
        ErrorCode.ERROR_CODE_INVALID_BATCH: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_UNSUPPORTED_MAGIC: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_BATCH_TOO_LARGE: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE: _S.ALREADY_EXISTS,
        ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH: _S.ABORTED,
        ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT: _S.ABORTED,
        ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS: _S.RESOURCE_EXHAUSTED,
        ErrorCode.ERROR_CODE_STORAGE_FAILED: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_DISK_FULL: _S.RESOURCE_EXHAUSTED,
        ErrorCode.ERROR_CODE_NOT_COORDINATOR: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_COORDINATOR_LOADING: _S.UNAVAILABLE,
        ErrorCode.ERROR_CODE_UNKNOWN_GROUP: _S.NOT_FOUND,
        ErrorCode.ERROR_CODE_INVALID_GROUP_NAME: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_CONSUMER_ID_TAKEN: _S.ALREADY_EXISTS,
        ErrorCode.ERROR_CODE_INVALID_SESSION_TIMEOUT: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_UNKNOWN_ASSIGNOR: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_INVALID_PATTERN: _S.INVALID_ARGUMENT,
        ErrorCode.ERROR_CODE_UNKNOWN_MEMBER: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_FENCED_GENERATION: _S.ABORTED,
        ErrorCode.ERROR_CODE_FENCED_INSTANCE: _S.ABORTED,
        ErrorCode.ERROR_CODE_GROUP_NOT_EMPTY: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_COMMIT_GOES_BACK: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_ANSWER_OUT_OF_TURN: _S.FAILED_PRECONDITION,
        ErrorCode.ERROR_CODE_SESSION_TIMED_OUT: _S.ABORTED,
        ErrorCode.ERROR_CODE_STALE_COORDINATOR_EPOCH: _S.FAILED_PRECONDITION,
    }
)


def reason_of(code: int) -> str:
    """The code's name without its prefix, as it stands in ErrorInfo.reason: `NOT_LEADER`."""
    return ErrorCode.Name(ErrorCode.ValueType(code)).removeprefix("ERROR_CODE_")


class ServiceError(Exception):
    """An expected failure of a whole RPC. Servicers and shells raise it; the error interceptor sends it.

    `message` is public: one sentence that names topic, partition, address and the next step, never a
    secret. `metadata` repeats the facts for programs (values are strings).
    """

    def __init__(self, code: int, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.metadata: Mapping[str, str] = dict(metadata or {})

    def __str__(self) -> str:
        return f"{reason_of(self.code)}: {self.message}"

    @property
    def status(self) -> grpc.StatusCode:
        """The gRPC status that the catalogue gives to this code."""
        return CATALOGUE[self.code]

    def to_rich_status(self) -> status_pb2.Status:
        """The error as google.rpc.Status with one ErrorInfo (AIP-193). The error interceptor sends it."""
        metadata = {name: value[:_MAX_VALUE_CHARACTERS] for name, value in self.metadata.items()}
        info = error_details_pb2.ErrorInfo(reason=reason_of(self.code), domain=DOMAIN, metadata=metadata)
        detail = any_pb2.Any()
        detail.Pack(info)
        number: int = self.status.value[0]
        message = self.message
        if len(message) > _MAX_MESSAGE_CHARACTERS:
            message = message[:_MAX_MESSAGE_CHARACTERS] + "…"
        return status_pb2.Status(code=number, message=message, details=[detail])


def reason_of_failure(error: grpc.aio.AioRpcError) -> str:
    """The reason that a service gave (`STALE_BROKER_EPOCH`); empty if the failure is gRPC's own, or what came
    with it cannot be read. Whoever calls another service asks for it."""
    try:
        status = rpc_status.from_call(error)
        for detail in status.details if status is not None else ():
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info) and info.domain == DOMAIN:
                return str(info.reason)
    except (ValueError, DecodeError):
        return ""
    return ""


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", error: ServiceError) -> NoReturn:
    """End an RPC with this error. Only interceptors call it; it raises grpc.aio.AbortError, whose cause tells
    those further out why."""
    try:
        await context.abort_with_status(rpc_status.to_status(error.to_rich_status()))
    except grpc.aio.AbortError as aborted:
        raise aborted from error
    raise AssertionError("abort_with_status raises")


class StartupError(Exception):
    """A service cannot start. Mains print the message as one line and exit with 1: no traceback."""
