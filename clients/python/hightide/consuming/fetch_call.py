"""One Fetch RPC: the next batches of some partitions that one broker leads, or has replicas of."""

from dataclasses import dataclass

from hightide.batch import header, wire
from hightide.batch.errors import BatchError, CorruptBatch
from hightide.batch.header import BatchHeader
from hightide.calls.call import Call, Method
from hightide.errors import CorruptBatchError, HightideError, UnexpectedAnswerError, from_code
from hightide.records import TopicPartition
from hightide.v1 import errors_pb2
from hightide.v1.broker_service_pb2 import FetchPartition, FetchRequest


@dataclass(frozen=True, slots=True)
class FetchEntry:
    """The part of the request for one partition. An answer for an older generation than the partition's is
    dropped. `last_fetched_epoch` is the leader epoch of the last record below `fetch_offset`, or None if it
    is not known (KIP-320)."""

    partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    fetch_offset: int
    generation: int
    last_fetched_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The result of one partition: batches, or an error. For a DivergingLogError, `diverging_end_offset` and
    `diverging_epoch` say where the log begins to differ from what was read."""

    high_watermark: int
    log_start_offset: int
    current_leader: int
    current_leader_epoch: int
    batches: tuple[tuple[BatchHeader, memoryview], ...]
    error: HightideError | None
    diverging_end_offset: int = 0
    diverging_epoch: int = -1


class FetchCall(Call[tuple[FetchedPartition, ...]]):
    """The call. Decoding splits the answer into batches, and checks their CRCs, without copying a byte."""

    __slots__ = (
        "_check_crcs",
        "_from_follower",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "entries",
        "is_cancelled",
    )

    def __init__(
        self,
        address: str,
        timeout_ms: int,
        entries: tuple[FetchEntry, ...],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        check_crcs: bool,
        from_follower: bool = False,
    ) -> None:
        super().__init__(address, Method.FETCH, timeout_ms)
        self.entries = entries
        self.is_cancelled = False
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._check_crcs = check_crcs
        self._from_follower = from_follower

    def encode(self) -> bytes:
        """The request."""
        partitions = [
            FetchPartition(
                topic_id=entry.topic_id,
                partition=entry.partition.partition,
                leader_epoch=entry.leader_epoch,
                fetch_offset=entry.fetch_offset,
                max_bytes=self._max_bytes,
                last_fetched_epoch=entry.last_fetched_epoch,
            )
            for entry in self.entries
        ]
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            partitions=partitions,
            from_follower=self._from_follower,
        ).SerializeToString()

    def decode(self, answer: bytes) -> tuple[FetchedPartition, ...]:
        """One result for each entry, in order."""
        try:
            response = wire.parse_fetch_response(answer)
        except wire.MalformedMessage as error:
            raise UnexpectedAnswerError(
                f"the answer to Fetch cannot be read: {error}", address=self.address
            ) from error
        self.throttle_time_ms = response.throttle_time_ms
        asked = [(entry.topic_id, entry.partition.partition) for entry in self.entries]
        if [(bytes(result.topic_id), result.partition) for result in response.partitions] != asked:
            raise UnexpectedAnswerError("the answer to Fetch is about other partitions", address=self.address)
        return tuple(
            self._fetched(entry, result)
            for entry, result in zip(self.entries, response.partitions, strict=True)
        )

    def _fetched(
        self, entry: FetchEntry, result: "wire.FetchPartitionResult[memoryview]"
    ) -> FetchedPartition:
        error: HightideError | None = None
        batches: tuple[tuple[BatchHeader, memoryview], ...] = ()
        topic, partition = entry.partition.topic, entry.partition.partition
        if result.error_code != errors_pb2.ERROR_CODE_UNSPECIFIED:
            diverging = result.error_code == errors_pb2.ERROR_CODE_DIVERGING_LOG
            metadata = {"diverging_end_offset": str(result.diverging_end_offset)} if diverging else None
            error = from_code(
                result.error_code,
                result.error_message,
                topic=topic,
                partition=partition,
                address=self.address,
                metadata=metadata,
            )
        else:
            batches, wrong = self._split(result.batches, entry.fetch_offset)
            if wrong is not None and not batches:
                error = CorruptBatchError(
                    f"the batch at or after offset {entry.fetch_offset} cannot be read: {wrong}",
                    topic=topic,
                    partition=partition,
                    address=self.address,
                )
        return FetchedPartition(
            result.high_watermark,
            result.log_start_offset,
            result.current_leader,
            result.current_leader_epoch,
            batches,
            error,
            result.diverging_end_offset,
            result.diverging_epoch,
        )

    def _split(
        self, batches: memoryview, fetch_offset: int
    ) -> tuple[tuple[tuple[BatchHeader, memoryview], ...], BatchError | None]:
        """The batches up to the first damaged one, and the error of that one. It is fetched again when those
        before it were taken."""
        found: list[tuple[BatchHeader, memoryview]] = []
        try:
            for at, batch_header in header.iterate(batches):
                _check_place(batch_header, found[-1][0] if found else None, fetch_offset)
                if self._check_crcs:
                    header.verify_crc(batches, at, batch_header)
                found.append((batch_header, batches[at : at + batch_header.size_bytes]))
        except BatchError as wrong:
            return tuple(found), wrong
        if found and found[-1][0].next_offset <= fetch_offset:
            return (), CorruptBatch(f"nothing came from there on, but the offsets {_offsets(found[-1][0])}")
        return tuple(found), None


def _check_place(batch: BatchHeader, before: BatchHeader | None, fetch_offset: int) -> None:
    """Check offset and leader epoch, which the leader stamps outside of the CRC: if they do not follow from
    the request, or from the batch before, a disk has changed them. Raises CorruptBatch."""
    if before is None:
        if batch.base_offset > fetch_offset:
            raise CorruptBatch(f"offset {fetch_offset} was fetched, the offsets {_offsets(batch)} came")
    elif batch.base_offset != before.next_offset:
        raise CorruptBatch(f"offset {before.next_offset} is next, offset {batch.base_offset} came")
    elif batch.leader_epoch < before.leader_epoch:
        raise CorruptBatch(f"leader epoch {batch.leader_epoch} comes after {before.leader_epoch}")


def _offsets(batch: BatchHeader) -> str:
    return f"{batch.base_offset} to {batch.next_offset - 1}"
