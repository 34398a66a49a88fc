"""Where a consumer stands in one partition: what it fetches next, and what it has handed out."""

from collections.abc import Iterable
from dataclasses import dataclass

from hightide.batch.header import BatchHeader
from hightide.cluster.offset_at import OffsetAt
from hightide.consuming.epochs_read import EpochsRead
from hightide.consuming.loss_patience import LossPatience
from hightide.errors import HightideError
from hightide.records import TopicDescription, TopicPartition


@dataclass(slots=True)
class FetchedBatch:
    """One fetched batch, without the `skip` records at its start that are not wanted. Only of use while
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
    """One partition's state. `fetch_offset` is None while it has to be looked up as `look_up` says;
    `position` is the offset of the next record to hand out, `taken_offset` the offset after the last one that
    left the queue for being handed out. Seeking starts a new generation: what is under way for the old one is
    dropped when it comes. `parted_from` is the offset up to which was read, while it is found out where the
    log parts from that; `fell_from` the one that was out of range, while it is looked up where to go on.
    `loss` knows for how long it has been called out of range."""

    __slots__ = (
        "absent_since_ms",
        "attempts",
        "blocked_until_ms",
        "buffered_bytes",
        "epochs",
        "error",
        "failing_since_ms",
        "fell_from",
        "fetch_offset",
        "generation",
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
        self.loss = LossPatience()
        self.generation = 0
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
        """Whether nothing is to be fetched or handed out: the user paused it, or its group takes it away."""
        return self.is_paused or self.is_stopping

    def is_in(self, described: TopicDescription) -> bool:
        """Whether this is the topic, and the partition one of those, that a broker has described."""
        is_this_topic = not self.topic_id or described.topic_id == self.topic_id
        return is_this_topic and self.partition.partition < len(described.partitions)

    def seek(self, offset: int, leader_epoch: int | None = None) -> None:
        """Fetch and hand out from this offset on. `leader_epoch` is the one of the last record below it,
        where that is known: the leader then says whether its log still holds that record."""
        assert offset >= 0, "offsets begin at 0"
        self.epochs.clear()
        if leader_epoch is not None and leader_epoch >= 0 and offset > 0:
            self.epochs.note(leader_epoch, offset - 1)
        self._go_to(offset)

    def reset(self, look_up: OffsetAt) -> None:
        """Look up where to go on."""
        self.epochs.clear()
        self._go_to(None)
        self.look_up = look_up

    def found(self, offset: int) -> None:
        """The look-up was answered."""
        self.worked()
        self.fetch_offset = self.position = self.taken_offset = offset

    def part(self, end_offset: int, epoch: int, log_start_offset: int) -> bool:
        """The leader's log does not hold all that was fetched: fetch again from where they may still agree,
        which is not beyond `end_offset`. Returns whether records that were handed out are lost, which
        `parted_from` then tells; otherwise it is only what waits in the queue, and nobody has seen it."""
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
        self.parted_from = self.fell_from = None
        self.worked()

    def take_over(self, batches: Iterable[tuple[BatchHeader, memoryview]]) -> list[FetchedBatch]:
        """What is wanted of fetched batches. The first one may begin below the offset that was asked for."""
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
        """An answer without an error came."""
        self.failing_since_ms = None
        self.last_error = None
        self.attempts = 0
        self.loss.clear()

    def failed(self, error: HightideError, now_ms: float) -> None:
        """An attempt failed, and will be made again."""
        self.last_error = error
        self.attempts += 1
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
