"""Requests of clients and their answers, as the broker's own dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hightide.batch.header import Buffer
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd


@dataclass(frozen=True, slots=True)
class PartitionRefused:
    """The refusal for one partition. The leader and its epoch are -1 if the error is not about leadership.
    `agreed`, the end of the common log, is only set with DIVERGING_LOG."""

    code: ErrorCode.ValueType
    message: str
    current_leader: int = -1
    current_leader_epoch: int = -1
    agreed: EpochEnd | None = None

    def as_service_error(self) -> ServiceError:
        """The error of a call with only one partition."""
        metadata = {}
        if self.current_leader_epoch >= 0:
            metadata = {
                "leader": str(self.current_leader),
                "leader_epoch": str(self.current_leader_epoch),
            }
        return ServiceError(self.code, self.message, metadata)


@dataclass(frozen=True, slots=True)
class PartitionAppended:
    """The outcome for one partition whose batches are in the log, at least on this broker."""

    base_offset: int
    end_offset: int
    log_start_offset: int


Outcome = PartitionAppended | PartitionRefused


@dataclass(frozen=True, slots=True)
class PartitionDeletion:
    """A request for the new log start offset of one partition; -1 means the high watermark."""

    key: PartitionKey
    before_offset: int


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """The offset at which to read one partition. `last_fetched_epoch` is the epoch of the record before it
    that the client has read, NO_EPOCH if the client names none."""

    key: PartitionKey
    leader_epoch: int
    offset: int
    max_bytes: int
    last_fetched_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class FetchCall:
    """One Fetch. With `from_follower` this broker's own replicas are read, whether it leads or follows."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: tuple[FetchFrom, ...]
    from_follower: bool = False


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """The result of reading one partition: batches in pieces, or a refusal."""

    key: PartitionKey
    high_watermark: int
    log_start_offset: int
    batches: Sequence[Buffer]
    size_bytes: int
    refused: PartitionRefused | None = None


@dataclass(frozen=True, slots=True)
class OffsetQuestion:
    """One look-up of ListOffsets; `spec` is a number of the contract's OffsetSpec, known or not."""

    key: PartitionKey
    leader_epoch: int
    spec: int
    timestamp_us: int


@dataclass(frozen=True, slots=True)
class OffsetFound:
    """The offset found, -1 if no committed record is as late as asked; the timestamp, -1 if not known; the
    leader's epoch; and the epoch of the last record before the offset."""

    offset: int
    timestamp_us: int
    leader_epoch: int
    epoch_before: int


@dataclass(frozen=True, slots=True)
class ProducersQuestion:
    """One partition of DescribeProducers."""

    key: PartitionKey
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """One record outside of a batch. A timestamp of 0 lets the broker take its own clock."""

    key: bytes | None
    value: bytes | None
    timestamp_us: int
    headers: tuple[tuple[str, bytes], ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of its key, value and headers."""
        headers = sum(len(key) + len(value) for key, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class PlainRecordsRead:
    """The result of FetchRecords: records with their offsets, and the offset for the next request."""

    records: tuple[tuple[int, PlainRecord], ...]
    high_watermark: int
    next_offset: int
    skipped_batch_count: int = 0
    skipped_record_count: int = 0
