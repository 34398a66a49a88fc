"""The position of a consumer in one partition: what it fetches next, and what it has returned."""

from collections.abc import Iterable
from dataclasses import dataclass

from hightide.batch.header import BatchHeader
from hightide.cluster.offset_at import OffsetAt
from hightide.consuming.epochs_read import EpochsRead
from hightide.consuming.loss_patience import LossPatience
from hightide.errors import HightideError
from hightide.records import TopicDescription, TopicPartition
from hightide.statistics import PartitionStatistics
from hightide.v1.broker_service_pb2 import OFFSET_SPEC_TIMESTAMP


@dataclass(slots=True)
class FetchedBatch:
    """One fetched batch. The first `skip` records of it are not wanted. It may be used only while
    `generation` is its partition's."""

    partition: TopicPartition
    header: BatchHeader
    batch: memoryview
    skip: int
    generation: int

    @property
    def next_offset(self) -> int:
        """The offset after the chunk's last record."""
        return self.header.next_offset


class FetchPosition:
    """The state of one partition. `fetch_offset` is None while it has to be looked up as `look_up` says.
    `position` is the offset of the next record to return. `taken_offset` is the offset after the last record
    that left the queue to be returned. Seeking starts a new generation: answers for the old one are dropped.
    `parted_from` is the offset up to which records were read, while the client finds out where the log begins
    to differ from them. `fell_from` is the offset that was out of range, while the client looks up where to
    go on. `end_offset` is the end of the log, while a time is looked up. `loss` knows for how long it has
    been reported out of range. `hand` is the user who may take its batches, where a consumer has several
    (`hightide.consumer_group.hand`)."""

    __slots__ = (
        "absent_since_ms",
        "attempts",
        "blocked_until_ms",
        "buffered_bytes",
        "end_offset",
        "epochs",
        "error",
        "failing_since_ms",
        "fell_from",
        "fetch_offset",
        "generation",
        "hand",
        "high_watermark",
        "is_paused",
        "is_stopping",
        "is_under_way",
        "last_error",
        "log_start_offset",
        "look_up",
        "loss",
        "parted_from",
        "partition",
        "position",
        "taken_offset",
        "topic_id",
        "tried_epoch",
    )

    def __init__(self, partition: TopicPartition, look_up: OffsetAt) -> None:
        self.partition = partition
        self.topic_id = b""
        self.fetch_offset: int | None = None
        self.position: int | None = None
        self.taken_offset: int | None = None
        self.look_up = look_up
        self.epochs = EpochsRead()
        self.parted_from: int | None = None
        self.fell_from: int | None = None
        self.end_offset: int | None = None
        self.loss = LossPatience()
        self.generation = 0
        self.hand = 0
        self.is_under_way = False
        self.is_paused = False
        self.is_stopping = False
        self.buffered_bytes = 0
        self.blocked_until_ms = 0.0
        self.tried_epoch = -1
        self.high_watermark = -1
        self.log_start_offset = -1
        self.failing_since_ms: float | None = None
        self.absent_since_ms: float | None = None
        self.attempts = 0
        self.last_error: HightideError | None = None
        self.error: HightideError | None = None

    @property
    def is_held(self) -> bool:
        """Whether no records may be fetched or returned: the user paused the partition, or its group takes it
        away."""
        return self.is_paused or self.is_stopping

    @property
    def is_end_asked_first(self) -> bool:
        """Whether the end of the log is looked up next, before the time that is wanted: so a record that
        comes in between is found by its time, or is after the end."""
        return self.look_up.spec == OFFSET_SPEC_TIMESTAMP and self.end_offset is None

    def statistics(self) -> PartitionStatistics:
        """The state, for on_statistics."""
        high_watermark, lag = self.high_watermark if self.high_watermark >= 0 else None, None
        if high_watermark is not None and self.position is not None:
            lag = max(0, high_watermark - self.position)
        return PartitionStatistics(
            position=self.position,
            high_watermark=high_watermark,
            lag=lag,
            buffered_bytes=self.buffered_bytes,
            is_paused=self.is_paused,
        )

    def is_in(self, described: TopicDescription) -> bool:
        """Whether this partition is one of the topic that a broker has described."""
        is_this_topic = not self.topic_id or described.topic_id == self.topic_id
        return is_this_topic and self.partition.partition < len(described.partitions)

    def seek(self, offset: int, leader_epoch: int | None = None) -> None:
        """Fetch and hand out from this offset on. `leader_epoch` is that of the last record below it, if it
        is known: the leader then checks whether its log still holds that record."""
        assert offset >= 0, "offsets begin at 0"
        self.epochs.clear()
        if leader_epoch is not None and leader_epoch >= 0 and offset > 0:
            self.epochs.note(leader_epoch, offset - 1)
        self._go_to(offset)

    def reset(self, look_up: OffsetAt) -> None:
        """Look up the offset at which to go on."""
        self.epochs.clear()
        self._go_to(None)
        self.look_up = look_up

    def found(self, offset: int) -> None:
        """Take over the result of the look-up."""
        self.worked()
        self.fetch_offset = self.position = self.taken_offset = offset

    def part(self, end_offset: int, epoch: int, log_start_offset: int) -> bool:
        """Fetch again from where the logs may still agree, which is not beyond `end_offset`: the leader's log
        does not hold all that was fetched. Returns whether records that were returned are lost; `parted_from`
        then has their offset. Otherwise only records in the queue are lost, which nobody has seen."""
        assert self.taken_offset is not None, "it was fetched"
        taken = self.taken_offset
        agreed = self.epochs.part_at(end_offset, epoch)
        if taken <= agreed:
            self.epochs.cut(taken)
            self.fetch_offset = taken
            self.buffered_bytes = 0
            return False
        parted_from = max(taken, self.parted_from or 0)
        self._go_to(max(agreed, log_start_offset))
        self.parted_from = parted_from
        return True

    def _go_to(self, offset: int | None) -> None:
        self._begin_generation()
        self.fetch_offset = self.position = self.taken_offset = offset

    def _begin_generation(self) -> None:
        self.generation += 1
        self.is_under_way = False
        self.buffered_bytes = 0
        self.blocked_until_ms = 0.0
        self.error = None
        self.parted_from = self.fell_from = self.end_offset = None
        self.worked()

    def take_over(self, batches: Iterable[tuple[BatchHeader, memoryview]]) -> list[FetchedBatch]:
        """The wanted part of fetched batches. The first batch may begin below the wanted offset."""
        assert self.fetch_offset is not None, "nothing was asked for"
        chunks = []
        for header, batch in batches:
            if header.next_offset <= self.fetch_offset:
                continue
            skip = max(0, self.fetch_offset - header.base_offset)
            self.epochs.note(header.leader_epoch, self.fetch_offset)
            chunks.append(FetchedBatch(self.partition, header, batch, skip, self.generation))
            self.fetch_offset = header.next_offset
            self.buffered_bytes += len(batch)
        return chunks

    def worked(self) -> None:
        """Note an answer without an error."""
        self.failing_since_ms = None
        self.last_error = None
        self.attempts = 0
        self.loss.clear()

    def failed(self, error: HightideError, now_ms: float) -> None:
        """Note a failed attempt, which will be repeated."""
        self.last_error = error
        self.attempts += 1
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
