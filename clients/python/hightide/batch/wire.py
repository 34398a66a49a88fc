"""The bulk messages of the contract, spliced by hand: the same bytes on the wire as protobuf's, without its
copies.

Rules of this file: what it writes is what `SerializeToString` writes, what it reads is what
`ParseFromString` accepts; tests/unit/batch holds it to the generated classes in both directions. Unknown
fields are skipped. Whatever bytes come in, only `MalformedMessage` comes out. Changing a field of one of
these messages in protos/ means changing it here.

Theory of operation. A MiB in a protobuf `bytes` field is copied on the way in and on the way out, at 350 to
1,000 us of CPU inside gRPC. Reading here gives memoryviews over the received message, so they keep all of
it alive; writing gathers the small fields and the batches and joins them once. Small messages go through
the generated classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from hightide.batch.errors import MalformedMessage
from hightide.batch.header import Buffer
from hightide.batch.protobuf_wire import (
    BYTES,
    VARINT,
    bytes_field,
    fields,
    int32,
    int64,
    int_field,
    length_prefix,
    text,
)

__all__ = [
    "Buffers",
    "FetchPartitionResult",
    "FetchResponse",
    "MalformedMessage",
    "ProducePartition",
    "ProduceRequest",
    "ReplicaFetchPartitionResult",
    "ReplicaFetchResponse",
    "parse_fetch_response",
    "parse_produce_request",
    "parse_replica_fetch_response",
    "serialise_fetch_response",
    "serialise_produce_request",
    "serialise_replica_fetch_response",
]

# Bytes to send are any number of pieces, joined once. Received bytes are one memoryview.
Buffers: TypeAlias = Sequence[Buffer]
BatchesT = TypeVar("BatchesT", memoryview, Buffers)
PARTITIONS_MAX: Final = 100_000
_NOTHING: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class ProducePartition(Generic[BatchesT]):
    """hightide.v1.ProducePartition."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    batches: BatchesT


@dataclass(frozen=True, slots=True)
class ProduceRequest(Generic[BatchesT]):
    """hightide.v1.ProduceRequest. `acks` is the number of the enum Acks, known or not."""

    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition[BatchesT], ...]


@dataclass(frozen=True, slots=True)
class FetchPartitionResult(Generic[BatchesT]):
    """hightide.v1.FetchPartitionResult. `error_code` is the number of the enum ErrorCode, known or not."""

    topic_id: bytes
    partition: int
    error_code: int
    error_message: str
    high_watermark: int
    log_start_offset: int
    current_leader: int
    current_leader_epoch: int
    batches: BatchesT
    diverging_end_offset: int = 0
    diverging_epoch: int = 0


@dataclass(frozen=True, slots=True)
class FetchResponse(Generic[BatchesT]):
    """hightide.v1.FetchResponse."""

    partitions: tuple[FetchPartitionResult[BatchesT], ...]
    throttle_time_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaFetchPartitionResult(Generic[BatchesT]):
    """hightide.v1.ReplicaFetchPartitionResult. `error_code` is the number of the enum ErrorCode, known or
    not."""

    topic_id: bytes
    partition: int
    error_code: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    batches: BatchesT


@dataclass(frozen=True, slots=True)
class ReplicaFetchResponse(Generic[BatchesT]):
    """hightide.v1.ReplicaFetchResponse."""

    session_id: int
    partitions: tuple[ReplicaFetchPartitionResult[BatchesT], ...]


def parse_produce_request(message: bytes) -> ProduceRequest[memoryview]:
    """Read a ProduceRequest; called by the broker once a Produce. Raises MalformedMessage."""
    acks = timeout_ms = 0
    partitions: list[ProducePartition[memoryview]] = []
    for number, kind, first, second in fields(message, 0, len(message)):
        if number == 1 and kind == VARINT:
            acks = int32(first)
        elif number == 2 and kind == VARINT:
            timeout_ms = int32(first)
        elif number == 3 and kind == BYTES:
            _check_room(len(partitions))
            partitions.append(_parse_produce_partition(message, first, second))
    return ProduceRequest(acks, timeout_ms, tuple(partitions))


def _parse_produce_partition(message: bytes, at: int, end: int) -> ProducePartition[memoryview]:
    topic_id = b""
    numbers = [0] * 4
    batches = _NOTHING
    for number, kind, first, second in fields(message, at, end, depth=1):
        if kind == VARINT and 2 <= number <= 3:
            numbers[number] = first
        elif kind == BYTES and number == 1:
            topic_id = message[first:second]
        elif kind == BYTES and number == 4:
            batches = memoryview(message)[first:second]
    return ProducePartition(topic_id, int32(numbers[2]), int32(numbers[3]), batches)


def serialise_produce_request(request: ProduceRequest[Buffers]) -> bytes:
    """Write a ProduceRequest; called by the SDK once a Produce."""
    pieces: list[Buffer] = [int_field(1, request.acks) + int_field(2, request.timeout_ms)]
    for partition in request.partitions:
        small = (
            bytes_field(1, partition.topic_id)
            + int_field(2, partition.partition)
            + int_field(3, partition.leader_epoch)
        )
        _add_partition(pieces, 3, small, 4, partition.batches)
    return b"".join(pieces)


def parse_fetch_response(message: bytes) -> FetchResponse[memoryview]:
    """Read a FetchResponse; called by the SDK once a Fetch. Raises MalformedMessage."""
    partitions: list[FetchPartitionResult[memoryview]] = []
    throttle_time_ms = 0
    for number, kind, first, second in fields(message, 0, len(message)):
        if number == 1 and kind == BYTES:
            _check_room(len(partitions))
            partitions.append(_parse_fetch_partition(message, first, second))
        elif number == 2 and kind == VARINT:
            throttle_time_ms = int32(first)
    return FetchResponse(tuple(partitions), throttle_time_ms)


def _parse_fetch_partition(message: bytes, at: int, end: int) -> FetchPartitionResult[memoryview]:
    topic_id = b""
    error_message = ""
    numbers = [0] * 12
    batches = _NOTHING
    for number, kind, first, second in fields(message, at, end, depth=1):
        if kind == VARINT and 2 <= number <= 11:
            if number not in (4, 9):
                numbers[number] = first
        elif kind == BYTES and number == 1:
            topic_id = message[first:second]
        elif kind == BYTES and number == 4:
            error_message = text(message, first, second)
        elif kind == BYTES and number == 9:
            batches = memoryview(message)[first:second]
    return FetchPartitionResult(
        topic_id=topic_id,
        partition=int32(numbers[2]),
        error_code=int32(numbers[3]),
        error_message=error_message,
        high_watermark=int64(numbers[5]),
        log_start_offset=int64(numbers[6]),
        current_leader=int32(numbers[7]),
        current_leader_epoch=int32(numbers[8]),
        batches=batches,
        diverging_end_offset=int64(numbers[10]),
        diverging_epoch=int32(numbers[11]),
    )


def serialise_fetch_response(response: FetchResponse[Buffers]) -> bytes:
    """Write a FetchResponse; called by the broker once a Fetch."""
    pieces: list[Buffer] = []
    for result in response.partitions:
        small = b"".join(
            (
                bytes_field(1, result.topic_id),
                int_field(2, result.partition),
                int_field(3, result.error_code),
                bytes_field(4, result.error_message.encode()),
                int_field(5, result.high_watermark),
                int_field(6, result.log_start_offset),
                int_field(7, result.current_leader),
                int_field(8, result.current_leader_epoch),
            )
        )
        behind = int_field(10, result.diverging_end_offset) + int_field(11, result.diverging_epoch)
        _add_partition(pieces, 1, small, 9, result.batches, behind)
    pieces.append(int_field(2, response.throttle_time_ms))
    return b"".join(pieces)


def parse_replica_fetch_response(message: bytes) -> ReplicaFetchResponse[memoryview]:
    """Read a ReplicaFetchResponse; called by the follower once a ReplicaFetch. Raises MalformedMessage."""
    session_id = 0
    partitions: list[ReplicaFetchPartitionResult[memoryview]] = []
    for number, kind, first, second in fields(message, 0, len(message)):
        if number == 1 and kind == VARINT:
            session_id = int64(first)
        elif number == 2 and kind == BYTES:
            _check_room(len(partitions))
            partitions.append(_parse_replica_fetch_partition(message, first, second))
    return ReplicaFetchResponse(session_id, tuple(partitions))


def _parse_replica_fetch_partition(
    message: bytes, at: int, end: int
) -> ReplicaFetchPartitionResult[memoryview]:
    topic_id = b""
    numbers = [0] * 7
    batches = _NOTHING
    for number, kind, first, second in fields(message, at, end, depth=1):
        if kind == VARINT and 2 <= number <= 6:
            numbers[number] = first
        elif kind == BYTES and number == 1:
            topic_id = message[first:second]
        elif kind == BYTES and number == 7:
            batches = memoryview(message)[first:second]
    return ReplicaFetchPartitionResult(
        topic_id=topic_id,
        partition=int32(numbers[2]),
        error_code=int32(numbers[3]),
        leader_epoch=int32(numbers[4]),
        high_watermark=int64(numbers[5]),
        log_start_offset=int64(numbers[6]),
        batches=batches,
    )


def serialise_replica_fetch_response(response: ReplicaFetchResponse[Buffers]) -> bytes:
    """Write a ReplicaFetchResponse; called by the leader once a ReplicaFetch."""
    pieces: list[Buffer] = [int_field(1, response.session_id)]
    for result in response.partitions:
        small = b"".join(
            (
                bytes_field(1, result.topic_id),
                int_field(2, result.partition),
                int_field(3, result.error_code),
                int_field(4, result.leader_epoch),
                int_field(5, result.high_watermark),
                int_field(6, result.log_start_offset),
            )
        )
        _add_partition(pieces, 2, small, 7, result.batches)
    return b"".join(pieces)


def _add_partition(
    pieces: list[Buffer],
    number: int,
    small: bytes,
    batches_number: int,
    batches: Buffers,
    behind: bytes = b"",
) -> None:
    """Add one partition's message: its small fields, then its batches, then the fields of higher numbers."""
    batches_size = sum(map(len, batches))
    prefix = length_prefix(batches_number, batches_size) if batches_size else b""
    size = len(small) + len(prefix) + batches_size + len(behind)
    pieces.append(length_prefix(number, size) + small + prefix)
    pieces.extend(batches)
    if behind:
        pieces.append(behind)


def _check_room(count: int) -> None:
    """Check the number of parts. A message's size is bounded already; this bounds the objects that a small
    message can produce."""
    if count >= PARTITIONS_MAX:
        raise MalformedMessage(f"the message has more than {PARTITIONS_MAX} partitions")
