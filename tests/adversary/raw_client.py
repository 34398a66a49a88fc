"""A client that sends whatever it is told to, byte for byte, and takes any answer apart."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide.v1.errors_pb2 import ErrorCode

_LARGE_BYTES = 256 * 1024 * 1024
ANSWER_S = 45.0
"""So long a call may take, unless it says otherwise: longer than a produce waits for replicas."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one call ended. `reason` and `domain` are those of its ErrorInfo, empty where it carried none."""

    status: grpc.StatusCode
    message: str
    reason: str
    domain: str
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the call as a whole succeeded."""
        return self.status is grpc.StatusCode.OK

    @property
    def is_typed_error(self) -> bool:
        """Whether it failed as the catalogue says: with a reason, a sentence, and not by a mistake of the
        server."""
        return (
            not self.ok
            and self.domain == "hightide"
            and self.reason in {name_of(code) for code in ErrorCode.values()}
            and self.reason != "INTERNAL"
            and len(self.message) > len("an error")
        )


def name_of(code: int) -> str:
    """A code as ErrorInfo spells it: NOT_LEADER; "OK" for none."""
    if code == ErrorCode.ERROR_CODE_UNSPECIFIED:
        return "OK"
    return ErrorCode.Name(ErrorCode.ValueType(code)).removeprefix("ERROR_CODE_")


class RawClient:
    """One connection to one process."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_send_message_length", _LARGE_BYTES),
                ("grpc.max_receive_message_length", _LARGE_BYTES),
                ("grpc.enable_retries", 0),
                ("grpc.max_reconnect_backoff_ms", 200),
            ],
        )

    def send(self, method: str, request: bytes | Message, timeout_s: float | None = ANSWER_S) -> Answer:
        """Call a unary method by its full name (/hightide.v1.BrokerService/Produce) and give what came of
        it."""
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            method, request_serializer=None, response_deserializer=None
        )
        try:
            body = call(payload, timeout=timeout_s, wait_for_ready=True)
        except grpc.RpcError as error:
            return _failure(error)
        return Answer(grpc.StatusCode.OK, "", "", "", body)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _failure(error: Any) -> Answer:
    """Sync gRPC raises one object that is both the error and the call; the stubs do not know that."""
    reason = domain = ""
    rich = rpc_status.from_call(error)
    for detail in rich.details if rich is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            reason, domain = info.reason, info.domain
    return Answer(error.code(), error.details() or "", reason, domain, b"")
