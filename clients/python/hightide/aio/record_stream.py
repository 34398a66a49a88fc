"""The streams of an asyncio consumer: an iterator for each ("topic count" of the consumer coordinator)."""

from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar, cast

from hightide.aio.driver import Driver
from hightide.aio.group_consumer import GroupConsumer
from hightide.aio.loop_condition import LoopCondition
from hightide.consumer_group.hand import Hand
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.one_user import OneUser
from hightide.errors import CorruptBatchError, InternalError
from hightide.records import TopicPartition
from hightide.transport.driver import now_ms

RecordT_co = TypeVar("RecordT_co", covariant=True)

# While a stream waits for records, it looks for errors this often.
_CHECK_S = 0.25


class HandCommit(Protocol):
    """The commit of what one user of a consumer has got."""

    async def __call__(self, hand: Hand, metadata: str) -> dict[TopicPartition, int]:
        """Returns and raises as Consumer.commit()."""


class RecordStream(Generic[RecordT_co]):
    """The records of one stream of a consumer in a group, for one task at a time: a loop of its own. Made
    by `Consumer.record_streams()`. Its partitions change when the group rebalances. One that goes to another
    stream of the same consumer goes when the record in hand is done."""

    def __init__(
        self, member: GroupConsumer, driver: Driver, changed: LoopCondition, hand: Hand, commit: HandCommit
    ) -> None:
        self._member = member
        self._driver = driver
        self._changed = changed
        self._hand = hand
        self._commit = commit
        self._alone = OneUser(changed.home.enter)

    @property
    def number(self) -> int:
        """The number of this stream in its consumer, from 0."""
        return self._hand.number

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that this stream reads at the moment, sorted."""
        with self._changed:
            return self._member.core.ownership.assignment_of(self._hand)

    async def __aiter__(self) -> AsyncIterator[RecordT_co]:
        """Yield every record of this stream, until the consumer is closed. With auto_commit, coming back for
        the next record says that this one is done. Whoever leaves the loop leaves its last record unsettled,
        until the next loop or commit(). Raises the errors of the consumer's poll(), also of partitions of
        other streams, and ConcurrentUseError."""
        self._hand.loop_count += 1
        try:
            while await self._begin_next():
                for record in self._hand.in_delivery.iterate():
                    yield cast(RecordT_co, record)
        finally:
            # Without the lock: the garbage collector may end the loop.
            self._hand.loop_count -= 1

    async def commit(self, *, metadata: str = "") -> dict[TopicPartition, int]:
        """Commit all records that this stream has returned, and nothing of other streams. Returns and raises
        as Consumer.commit()."""
        with self._alone:
            return await self._commit(self._hand, metadata)

    async def _begin_next(self) -> bool:
        """Wait until there is a record to return next, or a batch was left out; False: the consumer was
        closed."""
        with self._alone:
            await self._member.come_back(self._driver, self._hand)
            if self._hand.in_delivery.has_records:
                return True
            chunk = await self._next_chunk()
            if chunk is not None:
                self._begin(chunk)
            return chunk is not None

    async def _next_chunk(self) -> FetchedBatch | None:
        while True:
            with self._changed:
                if self._member.is_ending:
                    self._changed.notify_all()
                    return None
                has_news = self._member.core.has_news(self._hand)
                if not has_news:
                    chunk = self._take()
                    if chunk is not None:
                        return chunk
                    await self._changed.wait(_CHECK_S)
            if has_news:
                await self._member.come_back(self._driver, self._hand)

    def _take(self) -> FetchedBatch | None:
        """The next batch, if there is one. Called with the lock. Raises as Consumer.poll()."""
        if self._driver.failure is not None:
            raise InternalError(f"the fetching task failed: {self._driver.failure!r}")
        now, consumer = now_ms(), self._member.core.consumer
        chunk = self._member.take(now, self._hand)
        if consumer.wants_poll or consumer.wake_at_ms is None:
            self._driver.poke()
        if chunk is None:
            consumer.raise_errors(now)
            self._member.core.raise_errors(now)
        return chunk

    def _begin(self, chunk: FetchedBatch) -> None:
        """Return this chunk's records next. One that cannot be read stays first in the queue."""
        try:
            self._hand.in_delivery.begin(chunk)
        except CorruptBatchError:
            with self._changed:
                self._member.core.consumer.put_back(chunk)
            raise

    def __repr__(self) -> str:
        group = self._member.core.settings.group
        return f"<{type(self).__name__} {self._hand.number} of a consumer of group {group}>"
