"""The queue of one partition in a producer: what may be sent next, and in which order after failures.

Rules of this file (KIP-98, KIP-360): a batch gets its sequence when it is first drained and keeps it through
all retries; batches are in flight in the order of their sequences; after a failure no new batch is sent until
all batches in flight came back, then one batch at a time until those that failed are appended. When a batch
of a queue ends without being appended, its sequences would leave a gap: the queue then takes a new producer
id and numbers from 0 again. A batch that may have been appended under the old id fails, because sending it
under the new one might duplicate it.

A producer with a key keeps one identity for ever. Its queues stop instead of being numbered anew: waiting and
later batches fail like the batch that failed, until `go_on_at` sets the next sequence.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from hightide.batch.header import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE, next_sequence
from hightide.errors import HightideError, UnknownPartitionError
from hightide.producing.partitioner import BY_CRC32C, KeyPartitioning
from hightide.producing.pending_batch import PendingBatch


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The identity that a broker gave to an idempotent producer."""

    producer_id: int
    producer_epoch: int


ANONYMOUS: Final = ProducerIdentity(NO_PRODUCER, NO_EPOCH)


class TopicQueues:
    """The queues of one topic. `key_hash` is the hash by which keys are divided, or None if a function of the
    user divides them. `sticky` takes the records without a key; `sticky_bytes` of it were sent since.
    `fewer_since_ms` is since when brokers name fewer partitions. `queues` are also those of partitions that
    are gone: one that comes back goes on with its sequences."""

    __slots__ = (
        "batch_limit_bytes",
        "fewer_since_ms",
        "key_hash",
        "partition_count",
        "partitioning",
        "queues",
        "sticky",
        "sticky_bytes",
        "topic",
        "turn",
        "unknown_since_ms",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        partition_count: int,
        batch_limit_bytes: int,
        first_turn: int = 0,
        partitioning: KeyPartitioning = BY_CRC32C,
    ) -> None:
        assert partition_count > 0, "a topic has at least one partition"
        self.partitioning = partitioning
        self.key_hash = partitioning.hash
        self.topic = topic
        self.queues = [PartitionQueue(self, topic_id, partition) for partition in range(partition_count)]
        self.partition_count = partition_count
        self.batch_limit_bytes = batch_limit_bytes
        self.turn = (first_turn - 1) % partition_count  # The first batch takes the next one.
        self.sticky = self.queues[self.turn]
        self.sticky_bytes = 0
        self.unknown_since_ms: float | None = None
        self.fewer_since_ms: float | None = None

    def queue_for(self, key: bytes | None, partition: int | None) -> "PartitionQueue | None":
        """The queue of a record; None if the producer may choose. Raises UnknownPartitionError, and what the
        user's partitioner raises."""
        if partition is None:
            return None if key is None else self.queues[self.partition_of(key)]
        if not 0 <= partition < self.partition_count:
            raise UnknownPartitionError(
                f"topic {self.topic} has the partitions 0 to {self.partition_count - 1}, not {partition}"
            )
        return self.queues[partition]

    def partition_of(self, key: bytes) -> int:
        """The partition of a record with this key. Raises what the user's partitioner raises."""
        return self.partitioning.partition_of(self.topic, key, self.partition_count)

    def resize(self, partition_count: int) -> None:
        """Take records for so many partitions from now on, because the topic has more or fewer."""
        assert partition_count > 0, "a topic has at least one partition"
        topic_id = self.queues[0].topic_id
        self.queues += [
            PartitionQueue(self, topic_id, number) for number in range(len(self.queues), partition_count)
        ]
        self.partition_count = partition_count
        self.fewer_since_ms = None


class PartitionQueue:
    """The queue of one partition. Guarded by the producer's lock. `tried_epoch` is the leader epoch under
    which a batch was last sent."""

    __slots__ = (
        "blocked_until_ms",
        "closed",
        "home",
        "identity",
        "in_flight",
        "is_resetting",
        "next_ordinal",
        "next_sequence",
        "open",
        "partition",
        "spent_id",
        "stopped_by",
        "topic",
        "topic_id",
        "tried_epoch",
    )

    def __init__(self, home: TopicQueues, topic_id: bytes, partition: int) -> None:
        self.home = home
        self.topic = home.topic
        self.tried_epoch = -1
        self.topic_id = topic_id
        self.partition = partition
        self.open: PendingBatch | None = None
        self.closed: deque[PendingBatch] = deque()
        self.in_flight: list[PendingBatch] = []
        self.identity: ProducerIdentity | None = None
        self.spent_id = NO_PRODUCER
        self.next_sequence = 0
        self.next_ordinal = 0
        self.is_resetting = False
        self.stopped_by: HightideError | None = None
        self.blocked_until_ms = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether no batch waits to be sent; some may be in flight."""
        return self.open is None and not self.closed

    def first(self) -> PendingBatch | None:
        """The batch to be sent next."""
        return self.closed[0] if self.closed else self.open

    def may_send(self, now_ms: float, linger_ms: float, in_flight_max: int) -> bool:
        """Whether the first batch may be sent now. While earlier batches are in flight, a batch that is not
        full keeps filling. So batches grow by themselves under load, and no batch waits longer than a round
        trip."""
        first = self.first()
        if first is None or now_ms < self.blocked_until_ms or len(self.in_flight) >= in_flight_max:
            return False
        if first.attempts > 0 or self.is_resetting:
            return not self.in_flight
        if self.in_flight and self.in_flight[0].attempts > 0:
            return False
        if self.closed:
            return True
        return not self.in_flight and (first.is_urgent or now_ms - first.created_ms >= linger_ms)

    def take(self, identity: ProducerIdentity) -> PendingBatch:
        """Take the first batch, which is in flight from now on, under its sequence. Only after `may_send`."""
        if not self.closed:
            self.close_open()
        batch = self.closed.popleft()
        assert not self.is_resetting, "what needs another producer id is reset first"
        if self.identity is None:
            assert identity == ANONYMOUS or identity.producer_id != self.spent_id, (
                "sequences begin at 0 once an id"
            )
            self.identity = identity
            self.next_sequence = 0
        if self.identity.producer_id != NO_PRODUCER and batch.base_sequence == NO_SEQUENCE:
            batch.producer_id = self.identity.producer_id
            batch.producer_epoch = self.identity.producer_epoch
            batch.base_sequence = self.next_sequence
            self.next_sequence = next_sequence(self.next_sequence, batch.record_count)
        batch.was_sent_first = not self.in_flight
        assert not self.in_flight or self.in_flight[-1].ordinal < batch.ordinal, "batches go in order"
        self.in_flight.append(batch)
        return batch

    def close_open(self) -> None:
        """Append no more records to the open batch."""
        assert self.open is not None, "there is a batch to close"
        assert self.open.record_count > 0, "no batch is empty"
        self.next_ordinal = self.open.ordinal + self.open.record_count
        self.closed.append(self.open)
        self.open = None

    def came_back(self, batch: PendingBatch) -> None:
        """Note that the batch is no longer in flight."""
        self.in_flight.remove(batch)

    def requeue(self, batch: PendingBatch) -> None:
        """Put the batch back in its place, to be sent again."""
        at = 0
        while at < len(self.closed) and self.closed[at].ordinal < batch.ordinal:
            at += 1
        self.closed.insert(at, batch)

    def go_on_at(self, identity: ProducerIdentity, sequence: int) -> None:
        """Set the sequence of the next batch. Only for a producer with a key, and while no batch is
        unfinished."""
        assert self.is_empty, "nothing waits under a sequence of before"
        assert not self.in_flight, "nothing is in flight under a sequence of before"
        self.identity, self.next_sequence, self.stopped_by = identity, sequence, None

    def ready_to_reset(self) -> bool:
        """Whether a queue that needs a new producer id has no batch in flight under the old one."""
        return self.is_resetting and not self.in_flight

    def reset(self) -> list[PendingBatch]:
        """Drop the producer id and the sequences under it. Returns the batches that must fail, since they may
        have been appended to this topic under the old id; they are out of the queue."""
        assert self.ready_to_reset(), "nothing may be in flight under the old id"
        lost = [batch for batch in self.closed if self.topic_id in batch.in_doubt]
        self.closed = deque(batch for batch in self.closed if self.topic_id not in batch.in_doubt)
        for batch in self.closed:
            batch.producer_id, batch.producer_epoch = NO_PRODUCER, NO_EPOCH
            batch.base_sequence = NO_SEQUENCE
        if self.identity is not None:
            self.spent_id = self.identity.producer_id
        self.identity = None
        self.is_resetting = False
        return lost
