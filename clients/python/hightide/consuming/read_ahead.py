"""The partitions that a consumer reads, and the batches that were fetched ahead of its user.

Rules of this file: no clock, no I/O, no threads.

Theory of operation. Each partition has a `FetchPosition`. Fetched batches wait in `chunks`, those of all
partitions in one queue, until the user takes them. If the turn of a batch comes while its partition is held,
it waits aside, and goes first when the partition is released. Where several users share a consumer, a batch
of another user waits in that one's queue, so that no user looks through the batches of a slow one. Seeking
begins another generation of the position: chunks of an older one are dropped when their turn comes.
"""

from collections import deque
from collections.abc import Iterable

from hightide.cluster.offset_at import OffsetAt
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.consuming.fetch_position import FetchedBatch, FetchPosition
from hightide.errors import NotAssignedError
from hightide.records import TopicPartition
from hightide.statistics import ConsumerStatistics


class ReadAhead:
    """The positions and the queue. `wants_poll` is set when there may be more to fetch than before."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.positions: dict[TopicPartition, FetchPosition] = {}
        self.chunks: deque[FetchedBatch] = deque()
        self.wants_poll = False
        self._fetched_records = self._fetched_bytes = 0
        self._held: dict[TopicPartition, list[FetchedBatch]] = {}
        self.hand_count = 1
        self._sorted_out: dict[int, deque[FetchedBatch]] = {}

    # -- the user's position ---------------------------------------------------------------------------------

    def position_of(self, partition: TopicPartition) -> FetchPosition:
        """The state of an assigned partition. Raises NotAssignedError."""
        position = self.positions.get(partition)
        if position is None:
            raise NotAssignedError(
                f"{partition} is not assigned to this consumer",
                topic=partition.topic,
                partition=partition.partition,
            )
        return position

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        """Go on at an offset. With the leader epoch of the last record below it, as committed with the
        offset, a log that has lost that record is noticed (KIP-320); None or -1 if it is not known."""
        self.position_of(partition).seek(offset, leader_epoch)
        self.wants_poll = True

    def reset(self, partition: TopicPartition, look_up: OffsetAt) -> None:
        """Go on at the result of a look-up."""
        self.position_of(partition).reset(look_up)
        self.wants_poll = True

    def leader_epoch_before(self, partition: TopicPartition, offset: int) -> int:
        """The leader epoch of the last record below an offset up to which records were read, to be committed
        with that offset; -1 if it is not known."""
        epoch = self.position_of(partition).epochs.before(offset)
        return -1 if epoch is None else epoch

    # -- partitions that are held ----------------------------------------------------------------------------

    def pause(self, partition: TopicPartition) -> None:
        """Neither fetch nor return records until the partition is resumed; the position stays. Raises
        NotAssignedError."""
        self.position_of(partition).is_paused = True

    def resume(self, partition: TopicPartition) -> None:
        """Go on after a pause. Raises NotAssignedError."""
        self.position_of(partition).is_paused = False
        self.released(partition)

    def paused(self) -> tuple[TopicPartition, ...]:
        """The partitions that the user has paused, sorted."""
        return tuple(sorted(each for each, position in self.positions.items() if position.is_paused))

    def released(self, partition: TopicPartition) -> None:
        """Put the waiting batches of a partition that may no longer be held first."""
        position = self.positions.get(partition)
        if position is not None and not position.is_held:
            self._unsort()
            self.chunks.extendleft(reversed(self._held.pop(partition, [])))
            self.wants_poll = True

    # -- returning batches -----------------------------------------------------------------------------------

    def queue(self, chunks: Iterable[FetchedBatch]) -> None:
        """Let fetched batches wait for the user."""
        for chunk in chunks:
            self.chunks.append(chunk)
            self._fetched_records += chunk.header.record_count - chunk.skip
            self._fetched_bytes += len(chunk.batch)

    def next_chunk(self, hand: int | None = None) -> FetchedBatch | None:
        """The next batch to return, or None; with `hand`, of the partitions of that user. It counts as
        returned only after `handed_out`."""
        own = self._sorted_out.get(hand) if hand is not None else None
        while own or self.chunks:
            chunk = own.popleft() if own else self.chunks.popleft()
            position = self.positions.get(chunk.partition)
            if position is None or position.generation != chunk.generation:
                continue
            if hand is not None and position.hand != hand:
                self._sorted_out.setdefault(position.hand, deque()).append(chunk)
                continue
            if position.is_held:
                self._held.setdefault(chunk.partition, []).append(chunk)
                continue
            was_full = self.is_full(position)
            position.buffered_bytes -= len(chunk.batch)
            position.taken_offset = chunk.next_offset
            if was_full or not position.is_under_way:
                self.wants_poll = True
            return chunk
        return None

    def give_to(self, partition: TopicPartition, hand: int) -> None:
        """Let another user take the batches of a partition from now on. The one before has none of them."""
        self._unsort()
        self.position_of(partition).hand = hand

    def _unsort(self) -> None:
        """Put the batches of all users into one queue again, those that came earlier first."""
        for waiting in self._sorted_out.values():
            self.chunks.extendleft(reversed(waiting))
        self._sorted_out.clear()

    def put_back(self, chunk: FetchedBatch) -> None:
        """Put the rest of a chunk that was not returned first in the queue."""
        position = self.positions.get(chunk.partition)
        if position is not None and position.generation == chunk.generation:
            position.buffered_bytes += len(chunk.batch)
            position.taken_offset = chunk.header.base_offset + chunk.skip
            self._unsort()
            self.chunks.appendleft(chunk)

    def handed_out(self, chunk: FetchedBatch, next_offset: int) -> None:
        """Note that records below this offset were returned."""
        position = self.positions.get(chunk.partition)
        if position is not None and position.generation == chunk.generation:
            position.position = next_offset

    def is_current(self, chunk: FetchedBatch) -> bool:
        """Whether the partition's position has not been moved since the chunk was fetched."""
        position = self.positions.get(chunk.partition)
        return position is not None and position.generation == chunk.generation

    # -- dropping batches ------------------------------------------------------------------------------------

    def let_go(self, partition: TopicPartition) -> FetchPosition | None:
        """Stop reading a partition and drop what was fetched of it. Returns its state."""
        self._held.pop(partition, None)
        return self.positions.pop(partition, None)

    def drop(self, partition: TopicPartition) -> None:
        """Drop the waiting batches of a partition; the position stays."""
        self._unsort()
        self.chunks = deque(chunk for chunk in self.chunks if chunk.partition != partition)
        self._held.pop(partition, None)

    # -- figures ---------------------------------------------------------------------------------------------

    def read_so_far(self, throttled_ms: float) -> ConsumerStatistics:
        """What was fetched, and the state of each partition."""
        return ConsumerStatistics(
            fetched_records=self._fetched_records,
            fetched_bytes=self._fetched_bytes,
            buffered_bytes=sum(each.buffered_bytes for each in self.positions.values()),
            throttled_ms=throttled_ms,
            partitions={each: position.statistics() for each, position in sorted(self.positions.items())},
        )

    # -- room ------------------------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """The size of the batches that wait to be returned. Those of held partitions do not count, so that
        the others keep their room."""
        return sum(self._buffered_by_hand().values())

    def _buffered_by_hand(self) -> dict[int, int]:
        waiting: dict[int, int] = {}
        for each in self.positions.values():
            if not each.is_held:
                waiting[each.hand] = waiting.get(each.hand, 0) + each.buffered_bytes
        return waiting

    def full_hands(self) -> set[int]:
        """The users for whom enough waits: each has the same share of the room, so that a slow one does not
        stop the others."""
        share = self.settings.prefetch_bytes // self.hand_count
        return {hand for hand, size_bytes in self._buffered_by_hand().items() if size_bytes >= share}

    def is_full(self, position: FetchPosition) -> bool:
        """Whether enough of a partition waits, so that no more of it should be fetched."""
        share = self.settings.prefetch_bytes // max(1, len(self.positions))
        return position.buffered_bytes >= max(share, self.settings.fetch_max_bytes)
