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

# What is to be sent: any number of pieces, joined once. What came in is one memoryview.
Buffers: TypeAlias = Sequence[Buffer]
BatchesT = TypeVar("BatchesT", memoryview, Buffers)
PARTITIONS_MAX: Final = 100_000


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


@dataclass(frozen=True, slots=True)
class FetchResponse(Generic[BatchesT]):
    """hightide.v1.FetchResponse."""

    partitions: tuple[FetchPartitionResult[BatchesT], ...]


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
    raise NotImplementedError


def serialise_produce_request(request: ProduceRequest[Buffers]) -> bytes:
    """Write a ProduceRequest; called by the SDK once a Produce."""
    raise NotImplementedError


def parse_fetch_response(message: bytes) -> FetchResponse[memoryview]:
    """Read a FetchResponse; called by the SDK once a Fetch. Raises MalformedMessage."""
    raise NotImplementedError


def serialise_fetch_response(response: FetchResponse[Buffers]) -> bytes:
    """Write a FetchResponse; called by the broker once a Fetch."""
    raise NotImplementedError


def parse_replica_fetch_response(message: bytes) -> ReplicaFetchResponse[memoryview]:
    """Read a ReplicaFetchResponse; called by the follower once a ReplicaFetch. Raises MalformedMessage."""
    raise NotImplementedError


def serialise_replica_fetch_response(response: ReplicaFetchResponse[Buffers]) -> bytes:
    """Write a ReplicaFetchResponse; called by the leader once a ReplicaFetch."""
    raise NotImplementedError
