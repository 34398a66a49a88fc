"""The decisions of reading one range of a partition: which broker to ask, what to take, and which loss to
report if records are no longer there. Sans-IO, in the way of `hightide.cluster.operations`.

A broker's answer may be out of date: the broker was stopped for a while, or has not heard of a new topic yet.
So a loss is reported only when it is certain (`hightide.consuming.loss_patience`); meanwhile one broker after
the other is asked for metadata. Errors that may pass are tolerated until the whole budget went by without
progress.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hightide.calls.call import MessageCall, Method
from hightide.cluster.metadata import METADATA_TIMEOUT_MS, RETRY, ClusterMetadata
from hightide.cluster.operations import Operation, Operations, Pause
from hightide.consuming.corrupt_batches import OnCorruptBatch, check_policy
from hightide.consuming.fetch_call import FetchCall, FetchedPartition, FetchEntry
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.loss_patience import LossPatience
from hightide.errors import (
    DivergingLogError,
    HightideError,
    InconsistentTopicIdError,
    InvalidArgumentError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PartitionOfflineError,
    QuotaExceededError,
    RangeDeletedError,
    RangeLostError,
    TopicRecreatedError,
    UnknownBrokerError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import DescribeReplicasRequest, DescribeReplicasResponse

FETCH_WAIT_MS: Final = 500
# A stopped leader answers nothing, and another one is there soon; the time doubles until then.
FIRST_TIMEOUT_MS: Final = 5_000

_LOSSES: Final = (
    InconsistentTopicIdError,
    RangeLostError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)


@dataclass(frozen=True, slots=True)
class RangeReadSettings:
    """The settings that `RangeReader` documents. Raises InvalidArgumentError."""

    fetch_max_bytes: int = 4 << 20
    prefetch_bytes: int = 16 << 20
    request_timeout_ms: int = 30_000
    unavailable_timeout_ms: int = 60_000
    check_crcs: bool = True
    on_corrupt_batch: OnCorruptBatch = "fail"

    def __post_init__(self) -> None:
        check_policy(self.on_corrupt_batch)
        for name, most in (
            ("fetch_max_bytes", 32 << 20),
            ("prefetch_bytes", 1 << 40),
            ("request_timeout_ms", 1 << 31),
            ("unavailable_timeout_ms", 1 << 31),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)}; it may be 1 to {most}")


@dataclass(frozen=True, slots=True)
class WantedRange:
    """The offsets [start, end) of a partition of the topic with this id, in the leader's log or in the
    replica on one broker. Raises InvalidArgumentError."""

    partition: TopicPartition
    topic_id: bytes
    start: int
    end: int
    replica: int | None = None

    def __post_init__(self) -> None:
        if len(self.topic_id) != 16 or self.partition.partition < 0 or not 0 <= self.start <= self.end:
            raise InvalidArgumentError(f"{self} cannot be read; it needs a topic id and 0 <= start <= end")


class RangeCore(Operations):
    """The state of reading one range. `cluster` is shared by all reads of one client, and guarded by the
    driver. `offset` is fetched next."""

    def __init__(
        self,
        wanted: WantedRange,
        settings: RangeReadSettings,
        cluster: ClusterMetadata,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(cluster.bootstrap, settings.unavailable_timeout_ms, clock, cluster.seen)
        self.cluster = cluster
        self.wanted = wanted
        self.offset = wanted.start
        self._settings = settings
        self._epoch_before: int | None = None
        self._attempts = 0
        self._loss = LossPatience()
        self._told_by: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether all of the range was fetched."""
        return self.offset >= self.wanted.end

    def fetch(self) -> Operation[list[FetchedBatch]]:
        """The next batches of the range, at least one. Raises RangeDeletedError, RangeLostError,
        TopicRecreatedError, UnknownTopicError, UnknownPartitionError, CorruptBatchError, and the last error
        when there was no progress for the whole budget."""
        assert not self.is_done, "there is something left to fetch"
        self._begin_budget()
        self._attempts = 0
        self._loss.clear()
        if self.wanted.partition.topic not in self.cluster.topics:
            yield from self.metadata([self.wanted.partition.topic])
        while True:
            outcome = yield from self._attempt()
            if not isinstance(outcome, HightideError):
                return outcome
            if isinstance(outcome, QuotaExceededError) and outcome.throttle_time_ms:
                # To be throttled is no failure, and takes as long as it takes.
                yield Pause(outcome.throttle_time_ms)
                self._begin_budget()
                continue
            if self._attempts == 0:
                # Batches that were fetched ahead may have waited for their reader for long.
                self._begin_budget()
            self._attempts += 1
            self._bear(outcome)
            yield Pause(RETRY.pause_ms(self._attempts))
            yield from self.metadata([self.wanted.partition.topic])

    def _begin_budget(self) -> None:
        self._end_ms = self._clock() + self._budget_ms

    def _bear(self, error: HightideError) -> None:
        """Raise an error that is certain by now, or has lasted for too long."""
        now_ms = self._clock()
        if not isinstance(error, _LOSSES):
            self._loss.clear()
        elif self._loss.is_certain(error, self.cluster, now_ms, told_by=self._told_by):
            raise error
        if self._is_over():
            raise error

    def _attempt(self) -> Operation[list[FetchedBatch] | HightideError]:
        """Fetch once. Returns batches of the range, or the reason why there are none. Raises permanent
        errors."""
        self._told_by = None
        whom = self._whom()
        if isinstance(whom, HightideError):
            return whom
        address, leader_epoch = whom
        self._told_by = address
        call = self._call(address, leader_epoch)
        try:
            (fetched,) = yield call
        except HightideError as error:
            if not error.retriable:
                raise
            return error
        if fetched.error is None:
            chunks = self._take(fetched)
            if not chunks and call.throttle_time_ms:
                return QuotaExceededError(
                    f"{address} gives no records for {call.throttle_time_ms} ms, since the quota is used up",
                    metadata={"throttle_time_ms": str(call.throttle_time_ms)},
                )
            return chunks or (yield from self._nothing_yet(address, fetched))
        return (yield from self._refused(address, fetched, fetched.error))

    def _whom(self) -> tuple[str, int] | HightideError:
        """The address to ask, and the leader epoch of the question; or the reason why no broker can be
        asked."""
        topic, partition = self.wanted.partition.topic, self.wanted.partition.partition
        described = self.cluster.topics.get(topic)
        if described is None or topic in self.cluster.missing:
            return UnknownTopicError(f"topic {topic} does not exist, or was deleted", topic=topic)
        if described.topic_id != self.wanted.topic_id:
            return TopicRecreatedError(
                f"topic {topic} was deleted and created again: its id was {self.wanted.topic_id.hex()}, and "
                f"is {described.topic_id.hex()}",
                topic=topic,
            )
        if partition >= len(described.partitions):
            return UnknownPartitionError(
                f"topic {topic} has the partitions 0 to {len(described.partitions) - 1}, not {partition}"
            )
        if self.wanted.replica is not None:
            address = self.cluster.brokers.get(self.wanted.replica)
            if address is None:
                return self._error(UnknownBrokerError, f"broker {self.wanted.replica} is not alive")
            return address, -1
        leader = self.cluster.leader_of(topic, partition)
        if leader is None:
            return self._error(PartitionOfflineError, "the partition has no leader that can be reached")
        return leader.address, leader.leader_epoch

    def _call(self, address: str, leader_epoch: int) -> FetchCall:
        from_follower = self.wanted.replica is not None
        entry = FetchEntry(
            self.wanted.partition,
            self.wanted.topic_id,
            leader_epoch,
            self.offset,
            0,
            None if from_follower else self._epoch_before,
        )
        timeout_ms = FETCH_WAIT_MS + (FIRST_TIMEOUT_MS << min(self._attempts, 16))
        return FetchCall(
            address,
            min(self._settings.request_timeout_ms, timeout_ms),
            (entry,),
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._settings.fetch_max_bytes,
            check_crcs=self._settings.check_crcs,
            from_follower=from_follower,
        )

    def _take(self, fetched: FetchedPartition) -> list[FetchedBatch]:
        """The part in the range. The first batch may begin before it, the last one end after it."""
        chunks = []
        for header, batch in fetched.batches:
            if header.next_offset <= self.offset:
                continue
            if self.is_done:
                break
            assert header.base_offset <= self.offset, "the answer was checked when it was decoded"
            chunks.append(
                FetchedBatch(self.wanted.partition, header, batch, self.offset - header.base_offset, 0)
            )
            self.offset = min(header.next_offset, self.wanted.end)
            self._epoch_before = header.leader_epoch
        return chunks

    def _refused(
        self, address: str, fetched: FetchedPartition, error: HightideError
    ) -> Operation[list[FetchedBatch] | HightideError]:
        topic, partition = self.wanted.partition.topic, self.wanted.partition.partition
        if isinstance(error, OffsetOutOfRangeError):
            if self.offset < fetched.log_start_offset:
                raise self._error(
                    RangeDeletedError,
                    f"offset {self.offset} is deleted; the log begins at offset {fetched.log_start_offset}",
                    log_start_offset=fetched.log_start_offset,
                )
            return (yield from self._nothing_yet(address, fetched))
        if isinstance(error, DivergingLogError):
            raise self._error(
                RangeLostError,
                f"the records that were read before offset {self.offset} are not in the log any more",
                end_offset=fetched.diverging_end_offset,
            ) from error
        if fetched.current_leader_epoch > 0 or fetched.current_leader > 0:
            self.cluster.note_leader(topic, partition, fetched.current_leader, fetched.current_leader_epoch)
        if not error.retriable and not isinstance(error, _LOSSES):
            raise error
        return error

    def _nothing_yet(
        self, address: str, fetched: FetchedPartition
    ) -> Operation[list[FetchedBatch] | HightideError]:
        """Handle a broker that has not committed the offset, which was committed when the range was chosen. A
        new leader will soon find that out, and a follower will hear of it, unless the log ends before the
        offset."""
        later = self._error(
            OffsetNotAvailableError,
            f"offset {self.offset} is to be read, and the high watermark at {address} is "
            f"{fetched.high_watermark}",
        )
        if self.wanted.replica is not None:
            return later
        request = DescribeReplicasRequest(topics=[self.wanted.partition.topic])
        timeout_ms = self._left_ms(5 * METADATA_TIMEOUT_MS)
        call = MessageCall(address, Method.DESCRIBE_REPLICAS, timeout_ms, request, DescribeReplicasResponse)
        try:
            answer: DescribeReplicasResponse = yield call
        except HightideError as error:
            if not error.retriable:
                raise
            return error
        for each in answer.replicas:
            is_it = (each.topic_id, each.partition) == (
                self.wanted.topic_id,
                self.wanted.partition.partition,
            )
            if is_it and each.is_leader and each.log_end_offset < self.wanted.end:
                return self._error(
                    RangeLostError,
                    f"the log ends at offset {each.log_end_offset}, offset {self.wanted.end} had been "
                    "committed",
                    end_offset=each.log_end_offset,
                )
        return later

    def _error(self, cls: type[HightideError], message: str, **fields: int) -> HightideError:
        return cls(
            message,
            topic=self.wanted.partition.topic,
            partition=self.wanted.partition.partition,
            metadata={name: str(value) for name, value in fields.items()},
        )
