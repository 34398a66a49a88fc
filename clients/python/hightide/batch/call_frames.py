"""The messages of an open call stream (call_stream_service.proto), as both of its sides write and read them.

They are written piece by piece, so that a large request or answer is copied once. A small one is read by
protobuf, a large one by hand, so that it is copied once as well. What is in it is the business of others.
"""

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from hightide.batch.errors import MalformedMessage
from hightide.batch.protobuf_wire import BYTES, VARINT, bytes_field, fields, int64, int_field, length_prefix
from hightide.v1.call_stream_service_pb2 import OpenCallStreamRequest, OpenCallStreamResponse

OPEN_CALL_STREAM: Final = "/hightide.v1.CallStreamService/OpenCallStream"
BRIEF_BYTES_MAX: Final = 64 * 1024
"""Up to this size the call, and not its bytes, is what a message costs."""


@dataclass(frozen=True, slots=True)
class AnswerFrame:
    """The end of one call: its answer, or the google.rpc.Status of its failure as bytes."""

    call_id: int
    status: bytes
    answer: bytes


def serialise_call(call_id: int, method: str, timeout_ms: int, request: bytes) -> bytes:
    """The message of one call. Without a method the client gives up the call with this number."""
    head = int_field(1, call_id) + bytes_field(2, method.encode()) + int_field(3, timeout_ms)
    return b"".join((head, length_prefix(4, len(request)), request))


def parse_call(message: bytes) -> OpenCallStreamRequest:
    """Read the message of one call. Raises MalformedMessage."""
    try:
        return OpenCallStreamRequest.FromString(message)
    except DecodeError as error:
        raise MalformedMessage(f"no call: {error}") from None


def serialise_answer(frame: AnswerFrame) -> bytes:
    """The message of one answer."""
    head = int_field(1, frame.call_id) + bytes_field(2, frame.status)
    return b"".join((head, length_prefix(3, len(frame.answer)), frame.answer))


def parse_answer(message: bytes) -> AnswerFrame:
    """Read the message of one answer. Raises MalformedMessage."""
    if len(message) <= BRIEF_BYTES_MAX:
        try:
            parsed = OpenCallStreamResponse.FromString(message)
        except DecodeError as error:
            raise MalformedMessage(f"no answer to a call: {error}") from None
        return AnswerFrame(parsed.call_id, parsed.status, parsed.answer)
    call_id, status, answer = 0, b"", b""
    for number, kind, first, second in fields(message, 0, len(message)):
        if kind == VARINT and number == 1:
            call_id = int64(first)
        elif kind == BYTES and number == 2:
            status = message[first:second]
        elif kind == BYTES and number == 3:
            answer = message[first:second]
    return AnswerFrame(call_id, status, answer)
