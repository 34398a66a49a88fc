"""The records that wait: in the open batches of their partitions, within the producer's memory.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`. The shell holds one lock around
every method. For a record whose batch has room, `hightide.producer` does the work of `append` itself, in
`send`.

Theory of operation. Memory is granted to batches in steps that double, so that many small batches do not hold
much and a large one asks seldom. When none is left the producer is `pressed`: no batch lingers until a
quarter is free again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from hightide.batch.header import next_sequence
from hightide.cluster.metadata import ClusterMetadata
from hightide.errors import FencedProducerEpochError, HightideError, RecordTooLargeError
from hightide.producing.delivery import Delivery
from hightide.producing.partition_queue import PartitionQueue, TopicQueues
from hightide.producing.pending_batch import (
    BATCH_OVERHEAD_BYTES,
    BURST_BYTES,
    RECORD_OVERHEAD_BYTES,
    BatchOwner,
    PendingBatch,
)
from hightide.producing.producer_settings import ProducerSettings

FIRST_GRANT_BYTES: Final = 4096
#: After so many bytes, records without a key go to another partition (KIP-794).
STICKY_BYTES: Final = 16 << 10
#: The default of a topic's max.message.bytes.
TOPIC_BATCH_BYTES_MAX: Final = 4 << 20


class ArrowTimestamps:
    """A timestamp column, read as the list of integers that other batches have."""

    __slots__ = ("_column",)

    def __init__(self, column: Any) -> None:
        self._column = column

    def __getitem__(self, index: int) -> int:
        return int(self._column[index].value)


class Accumulator:
    """The queues of all topics, and the memory that they share.

    `active` are the queues with something to send. Records without a key begin at the partition `first_turn`
    (modulo their number), which the shell draws, so that many producers of few records do not all fill
    partition 0.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        cluster: ClusterMetadata,
        owner: BatchOwner,
        delivery: Callable[[PendingBatch, int], Any] = Delivery,
        first_turn: int = 0,
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.owner = owner
        self.topics: dict[str, TopicQueues] = {}
        self.active: dict[PartitionQueue, None] = {}
        self.free_bytes = settings.buffer_memory_bytes
        self.pressed = False
        self.wants_poll = False
        self.fatal: FencedProducerEpochError | None = None
        self.callbacks: list[Callable[[], object]] = []
        self.acknowledged_records = self.acknowledged_bytes = self.failed_records = 0
        self.batch_count = self.retry_count = 0
        self._delivery = delivery
        self._first_turn = first_turn

    def queues_of(self, topic: str) -> TopicQueues | None:
        """The topic's queues; None while its metadata is not known. Called for the first record of each
        topic."""
        known = self.topics.get(topic)
        if known is not None:
            return known
        described = self.cluster.topics.get(topic)
        if described is None or not described.partitions:
            return None
        self.topics[topic] = TopicQueues(
            topic,
            described.topic_id,
            len(described.partitions),
            self._batch_limit(topic),
            self._first_turn,
            self.settings.partitioning,
        )
        return self.topics[topic]

    def _batch_limit(self, topic: str) -> int:
        return min(self.settings.batch_bytes_max, self._accepted_bytes(topic, self.settings.batch_bytes_max))

    def _accepted_bytes(self, topic: str, otherwise: int) -> int:
        """The topic's max.message.bytes, if it is set."""
        described = self.cluster.topics.get(topic)
        given = described.configs.get("max.message.bytes", "") if described is not None else ""
        return int(given) if given.isdigit() else otherwise

    def rows_limit(self, topic: TopicQueues) -> int:
        """The size that a batch of rows of a table may have: a quarter over that of a batch that fills up, as
        far as the topic and the buffer allow. So a table whose values fill a batch is one batch, and not two
        halves, which cost the brokers an eighth more CPU. Called from any thread."""
        limit = topic.batch_limit_bytes
        accepted_bytes = self._accepted_bytes(topic.topic, TOPIC_BATCH_BYTES_MAX)
        return max(limit, min(limit * 5 // 4, accepted_bytes, self.settings.buffer_memory_bytes))

    def next_sticky(self, topic: TopicQueues) -> PartitionQueue:
        """The queue for records without a key from now on: the next one with a leader, if there is any."""
        for _ in range(topic.partition_count):
            topic.turn = (topic.turn + 1) % topic.partition_count
            queue = topic.queues[topic.turn]
            if self.cluster.leader_of(topic.topic, queue.partition) is not None:
                break
        topic.sticky, topic.sticky_bytes = topic.queues[topic.turn], 0
        return topic.sticky

    def _sticky_of_new_batch(self, topic: TopicQueues) -> PartitionQueue:
        """The queue in which a record without a key begins a batch. While an earlier batch of the partition
        is in flight, the records wait for it together: one call for all costs less than one each. Otherwise,
        and after STICKY_BYTES (KIP-794), the next partition has its turn."""
        if topic.sticky.in_flight and topic.sticky_bytes < STICKY_BYTES:
            return topic.sticky
        return self.next_sticky(topic)

    def append(
        self,
        topic: TopicQueues,
        queue: PartitionQueue | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_us: int,
        headers: Sequence[tuple[str, bytes]] | None,
        now_ms: float,
    ) -> Any:
        """Take a record; without a queue, into the sticky one. Returns its delivery, or None if the buffer is
        full: wait until batches end, and ask again. Raises RecordTooLargeError, FencedProducerEpochError."""
        if self.fatal is not None:
            raise self.fatal
        size_bytes = RECORD_OVERHEAD_BYTES + (len(value) if value else 0) + (len(key) if key else 0)
        for name, data in headers or ():
            size_bytes += RECORD_OVERHEAD_BYTES + 4 * len(name) + len(data)
        if queue is None:
            queue = topic.sticky
            if queue.open is None:
                queue = self._sticky_of_new_batch(topic)
            elif queue.open.size_bytes + size_bytes > topic.batch_limit_bytes:
                self.close_open(queue)
                self.wants_poll = True
                queue = self.next_sticky(topic)
        if not self.reserve(queue, size_bytes, now_ms):
            return None
        batch = queue.open
        assert batch is not None, "room was reserved in it"
        index = batch.record_count
        try:
            batch.keys.append(key)
            batch.values.append(value)
            batch.timestamps.append(timestamp_us)
            batch.record_count = index + 1
            if headers or batch.headers is not None:
                batch.append_headers(headers)
        except BaseException:
            batch.cut(index)
            if not index:
                self._drop_open(queue)
            raise
        batch.size_bytes += size_bytes
        return self._delivery(batch, index)

    def reserve(self, queue: PartitionQueue, size_bytes: int, now_ms: float) -> bool:
        """Make sure that the queue's open batch has room for a record of this size. Returns False if the
        buffer is full: wait until batches end, and ask again. Raises RecordTooLargeError."""
        topic = queue.home
        if size_bytes + BATCH_OVERHEAD_BYTES > topic.batch_limit_bytes:
            raise RecordTooLargeError(
                f"a record of {size_bytes} bytes is over the limit of {topic.batch_limit_bytes} bytes",
                topic=queue.topic,
                partition=queue.partition,
            )
        batch = queue.open
        if batch is not None:
            needed = batch.size_bytes + size_bytes
            if needed <= topic.batch_limit_bytes:
                preferred_bytes = min(topic.batch_limit_bytes, max(needed, 2 * batch.granted_bytes))
                if batch.granted_bytes <= BURST_BYTES < preferred_bytes:
                    self.wants_poll = True
                return self._grant(batch, preferred_bytes) or self._grant(batch, needed)
            self.close_open(queue)
            self.wants_poll = True
        fresh = self._new_batch(queue, now_ms)
        if not self._grant(fresh, max(fresh.size_bytes + size_bytes, FIRST_GRANT_BYTES)):
            return False
        queue.open = fresh
        self.active[queue] = None
        self.wants_poll = True
        return True

    def _new_batch(self, queue: PartitionQueue, now_ms: float) -> PendingBatch:
        return PendingBatch(
            self.owner,
            queue.topic,
            queue.partition,
            ordinal=queue.next_ordinal,
            created_ms=now_ms,
            deadline_ms=now_ms + self.settings.delivery_timeout_ms,
        )

    def _grant(self, batch: PendingBatch, granted_bytes: int) -> bool:
        more = granted_bytes - batch.granted_bytes
        if more > self.free_bytes:
            # Once is enough: a caller that waits for room asks again whenever a call ends.
            self.wants_poll = self.wants_poll or not self.pressed
            self.pressed = True
            return False
        self.free_bytes -= more
        batch.granted_bytes = granted_bytes
        return True

    def _drop_open(self, queue: PartitionQueue) -> None:
        """Forget the queue's open batch, which has no records, and release its memory."""
        batch = queue.open
        assert batch is not None, "there is a batch to drop"
        assert not batch.record_count, "no record is dropped"
        queue.open = None
        self.free_bytes += batch.granted_bytes
        if queue.is_empty:
            self.active.pop(queue, None)

    def close_open(self, queue: PartitionQueue) -> None:
        """Append no more records to the queue's open batch, and release the memory that it did not use."""
        batch = queue.open
        assert batch is not None, "there is a batch to close"
        queue.close_open()
        self.free_bytes += batch.granted_bytes - batch.size_bytes
        batch.granted_bytes = batch.size_bytes

    def append_arrow(
        self, queue: PartitionQueue, rows: Any, size_bytes: int, now_ms: float
    ) -> PendingBatch | None:
        """Take rows as a batch of their own. Returns None if the buffer is full: wait, and ask again."""
        if self.fatal is not None:
            raise self.fatal
        limit = self.rows_limit(queue.home)
        if rows.num_rows == 1 and size_bytes > limit:
            raise RecordTooLargeError(
                f"a row of {size_bytes} bytes is over the limit of {limit} bytes a batch",
                topic=queue.topic,
                partition=queue.partition,
            )
        if queue.open is not None:
            self.close_open(queue)
        batch = self._new_batch(queue, now_ms)
        if not self._grant(batch, size_bytes):
            return None
        batch.arrow = rows
        batch.record_count = rows.num_rows
        batch.size_bytes = size_bytes
        batch.timestamps = ArrowTimestamps(rows.column(2))
        queue.open = batch
        queue.close_open()
        self.active[queue] = None
        self.wants_poll = True
        return batch

    def end(self, batch: PendingBatch, base_offset: int, error: HightideError | None) -> None:
        """End a batch as acknowledged or failed: its memory is released, and its callbacks are made."""
        self.free_bytes += batch.granted_bytes
        batch.granted_bytes = 0
        if self.pressed and self.free_bytes * 4 >= self.settings.buffer_memory_bytes:
            self.pressed = False
        self.batch_count += 1
        self.retry_count += max(0, batch.attempts - 1)
        if error is None:
            self.acknowledged_records += batch.record_count
            self.acknowledged_bytes += batch.size_bytes
        else:
            self.failed_records += batch.record_count
        self.callbacks.extend(batch.finish(base_offset, error))

    def split(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        """Halve a batch that is over the topic's limit. The halves share its sequences, and its memory."""
        rows = batch.columns()
        middle = rows.num_rows // 2
        parts = (
            self._part(queue, batch, rows.slice(0, middle), 0),
            self._part(queue, batch, rows.slice(middle), middle),
        )
        parts[0].granted_bytes, batch.granted_bytes = batch.granted_bytes, 0
        batch.split_into(parts)
        for part in parts:
            queue.requeue(part)
        self.active[queue] = None
        queue.home.batch_limit_bytes = min(queue.home.batch_limit_bytes, max(4096, batch.size_bytes // 2))

    def _part(self, queue: PartitionQueue, batch: PendingBatch, rows: Any, at: int) -> PendingBatch:
        part = PendingBatch(
            self.owner,
            queue.topic,
            queue.partition,
            ordinal=batch.ordinal + at,
            created_ms=batch.created_ms,
            deadline_ms=batch.deadline_ms,
        )
        part.arrow = rows
        part.record_count = rows.num_rows
        part.timestamps = ArrowTimestamps(rows.column(2))
        part.size_bytes = BATCH_OVERHEAD_BYTES + int(rows.nbytes)
        part.attempts = batch.attempts
        part.in_doubt = batch.in_doubt
        part.is_urgent = batch.is_urgent
        if batch.base_sequence >= 0:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = next_sequence(batch.base_sequence, at)
        return part

    def unsent(self, queue: PartitionQueue) -> list[PendingBatch]:
        """Take out all batches of the queue that are not in flight."""
        if queue.open is not None:
            self.close_open(queue)
        batches = list(queue.closed)
        queue.closed.clear()
        self.active.pop(queue, None)
        return batches

    def unfinished(self) -> list[PendingBatch]:
        """Stop all lingering. Returns every batch that is not done. Called by flush and close."""
        for queue in self.active:
            if queue.open is not None:
                self.close_open(queue)
        return [batch for queue in self.queues() for batch in (*queue.in_flight, *queue.closed)]

    def queues(self) -> Iterator[PartitionQueue]:
        """Every queue of every topic."""
        return (queue for topic in self.topics.values() for queue in topic.queues)

    @property
    def undelivered_count(self) -> int:
        """The number of records that are neither acknowledged nor failed."""
        waiting = (
            batch
            for queue in self.queues()
            for batch in (*queue.in_flight, *queue.closed, *((queue.open,) if queue.open else ()))
        )
        return sum(batch.record_count for batch in waiting)
