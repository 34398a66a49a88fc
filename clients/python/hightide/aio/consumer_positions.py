"""The positions of an asyncio consumer: its partitions, where it reads in each, and what its group has
committed. `hightide.aio.consumer` takes the records."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from hightide.aio.driver import Driver
from hightide.aio.group_consumer import GroupConsumer
from hightide.aio.loop_condition import LoopCondition
from hightide.aio.running import run
from hightide.argument_checks import checked_offset
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.offset_at import EARLIEST, LATEST, OffsetAt, offset_at_time
from hightide.cluster.operations import Operation
from hightide.consumer_group.hand import Hand
from hightide.consumer_group.operations import GroupOperations
from hightide.consumer_group.pending_commits import CommitCallback
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.consuming.corrupt_batches import SkippedBatches
from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.errors import ClosedError, HightideError, InternalError, InvalidArgumentError
from hightide.records import AnyRecord, Record, TopicPartition
from hightide.transport.driver import now_ms
from hightide.transport.transport import AioTransport
from hightide.v1.coordinator_service_pb2 import OffsetCommit

T = TypeVar("T")

# While a call waits, it looks for errors this often.
CHECK_S = 0.25


class ConsumerPositions:
    """The part of `Consumer` that takes no records. `Consumer` sets the attributes."""

    _settings: ConsumerSettings
    _bootstrap: tuple[str, ...]
    _changed: LoopCondition
    _seen: LeadersSeen
    _core: ConsumerCore
    _in_delivery: RecordsInDelivery
    _transport: AioTransport
    _driver: Driver
    _member: GroupConsumer | None
    _closed: bool

    async def assignment(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions, sorted. With `topics`, they are known after the first use; in a group,
        they are those that this consumer has at the moment."""
        await self._wait_for_assignment()
        with self._changed:
            if self._member is not None:
                return self._member.core.ownership.assignment
            return tuple(sorted(self._core.positions))

    def _drive(self) -> None:
        self._check_open()
        self._driver.start()
        if self._core.wants_poll or self._core.wake_at_ms is None:
            self._driver.poke()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this consumer is closed")
        if self._driver.failure is not None:
            raise InternalError(f"the fetching task failed: {self._driver.failure!r}")

    async def _wait_for_assignment(self) -> None:
        with self._changed:
            self._drive()
            while not self._core.is_assigned:
                self._check_open()
                self._core.raise_errors(now_ms())
                await self._changed.wait(CHECK_S)

    async def _reset(self, partitions: Iterable[TopicPartition], look_up: OffsetAt) -> None:
        wanted = list(partitions)
        with self._changed:
            self._check_open()
            self._in_delivery.give_up()
            for partition in wanted:
                self._core.reset(partition, look_up)
                if self._member is not None:
                    self._member.core.sought(partition, None)
            self._drive()
        if self._member is not None:
            await self._go_on_at({partition: await self.position(partition) for partition in wanted})

    async def _go_on_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Let the group go on where the user sought: with auto commit, that position is committed at once."""
        assert self._member is not None, "in a group"
        with self._changed:
            for partition, offset in offsets.items():
                self._member.core.sought(partition, offset)
            self._member.core.ownership.interrupt()
        if self._member.core.settings.auto_commit:
            await self.commit(offsets)

    async def _run(self, make: Operation[T]) -> T:
        self._check_open()
        return await run(make, self._transport)

    def _operations(self) -> GroupOperations:
        return GroupOperations(self._bootstrap, self._settings.unavailable_timeout_ms, now_ms, self._seen)

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from this offset. In a group with auto_commit, the offset is committed before it returns,
        or later if that raises; otherwise the next commit() commits it, even if it goes back. Raises
        NotAssignedError, InvalidArgumentError for what is no offset."""
        checked_offset(partition, offset)
        await self._wait_for_assignment()
        with self._changed:
            self._in_delivery.give_up()
            self._core.seek(partition, offset)
            self._drive()
        if self._member is not None:
            await self._go_on_at({partition: offset})

    async def seek_to_timestamp(self, partition: TopicPartition | None, timestamp: datetime | int) -> None:
        """Read on from the first record at or after a time (aware datetime, or microseconds
        since 1970; what is rather milliseconds is refused), or
        from the end if there is none. None means all assigned partitions."""
        look_up = offset_at_time(timestamp)
        await self._reset(await self.assignment() if partition is None else [partition], look_up)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offset that exists; without arguments, in all assigned partitions. If it
        raises, that offset is looked up later all the same, and committed as of seek()."""
        await self._reset(partitions or await self.assignment(), EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the high watermark; without arguments, in all assigned partitions."""
        await self._reset(partitions or await self.assignment(), LATEST)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be returned. It is looked up if it is not known yet."""
        await self._wait_for_assignment()
        with self._changed:
            self._drive()
            while True:
                self._check_open()
                self._in_delivery.settle()
                known = self._core.position_of(partition).position
                if known is not None:
                    return known
                self._core.raise_errors(now_ms())
                await self._changed.wait(CHECK_S)

    def lag(self) -> Mapping[TopicPartition, int]:
        """How many records each assigned partition is behind its high watermark, as last heard."""
        with self._changed:
            self._in_delivery.settle()
            return {
                partition: max(0, state.high_watermark - (state.position or 0))
                for partition, state in self._core.positions.items()
                if state.high_watermark >= 0
            }

    def skipped_batches(self) -> Mapping[TopicPartition, SkippedBatches]:
        """The batches that were left out of each partition so far, with on_corrupt_batch="skip"."""
        return self._in_delivery.corrupt.skipped

    @property
    def throttled_ms(self) -> float:
        """For how long brokers have made this consumer wait so far, since its quota was used up: the sum for
        all brokers."""
        with self._changed:
            return self._core.throttles.total_ms

    def deserialize_by(self, deserialize: Callable[[Record], Any]) -> None:
        """Return what this function makes of each record. Called by `DeserializingConsumer`, which says what
        the function may raise."""
        self._in_delivery.poison.deserialize = deserialize

    def skipped_records(self) -> Mapping[TopicPartition, int]:
        """The number of records that were left out of each partition so far because they could not be
        deserialized, with on_corrupt_batch="skip"."""
        return self._in_delivery.poison.skipped

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that exists, from the leaders."""
        return await self._listed(dict.fromkeys(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark, from the leaders."""
        return await self._listed(dict.fromkeys(partitions, LATEST))

    async def _listed(self, wanted: Mapping[TopicPartition, OffsetAt]) -> dict[TopicPartition, int]:
        found = await self._run(self._operations().list_offsets(wanted))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time, as of seek_to_timestamp(); None if no committed record is that
        late."""
        wanted = {partition: offset_at_time(timestamp) for partition, timestamp in times.items()}
        return await self._run(self._operations().list_offsets(wanted))

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of a topic. Raises UnknownTopicError, BrokersUnavailableError."""
        return await self._run(self._operations().partitions_for(topic))

    async def pause(self, *partitions: TopicPartition) -> None:
        """Fetch and return nothing of these partitions until they are resumed; without arguments, of all that
        are assigned. They stay assigned to this consumer. Raises NotAssignedError."""
        chosen = partitions or await self.assignment()
        with self._changed:
            self._in_delivery.give_up()
            if self._member is not None:
                self._member.core.ownership.interrupt()
            for partition in chosen:
                self._core.pause(partition)

    async def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions; without arguments, all of them. Raises NotAssignedError."""
        with self._changed:
            for partition in partitions or self._core.paused():
                self._core.resume(partition)
            self._drive()

    def paused(self) -> tuple[TopicPartition, ...]:
        """The partitions that are paused, sorted."""
        with self._changed:
            return self._core.paused()

    async def commit(
        self, offsets: Mapping[TopicPartition, int] | AnyRecord | None = None, *, metadata: str = ""
    ) -> dict[TopicPartition, int]:
        """Commit the position of this consumer; or these offsets (of the next record to read); or the offset
        after this record, whatever else was returned. With up to 4,096 characters of `metadata`. Returns the
        offsets that were written, which are then durable. Raises FencedGenerationError for partitions that
        belong to another consumer by now, CommitGoesBackError, UnknownMemberError, NotAssignedError,
        CoordinatorUnavailableError."""
        member = self._as_member("commit()")
        with self._changed:
            self._check_open()
            commits = member.core.commits(offsets, metadata)
            seek_count = member.core.commit_now(commits)
        return await self._write(member, commits, seek_count)

    async def _commit_hand(self, hand: Hand, metadata: str) -> dict[TopicPartition, int]:
        """Commit what one of the streams has returned."""
        member = self._as_member("commit()")
        with self._changed:
            self._check_open()
            commits = member.core.commits_of(hand, metadata)
            seek_count = member.core.commit_now(commits)
        return await self._write(member, commits, seek_count)

    async def _write(
        self, member: GroupConsumer, commits: list[OffsetCommit], seek_count: int
    ) -> dict[TopicPartition, int]:
        with self._changed:
            while member.core.has_to_wait(commits) and self._driver.is_running:
                await self._changed.wait(CHECK_S)
            sequence = next(member.core.commit_sequences)
        group, member_id = member.core.settings.group, member.core.membership.member_id
        failed: dict[TopicPartition, HightideError] = {}
        done: list[OffsetCommit] = []
        try:
            if commits:
                failed = await self._run(
                    self._operations().commit_offsets(group, member_id, commits, sequence)
                )
            done = [each for each in commits if TopicPartition(each.topic, each.partition) not in failed]
        finally:
            with self._changed:
                member.core.committed(commits, done, seek_count)
                if member.core.pending_commits.is_busy or len(done) < len(commits):
                    self._driver.poke()
        for error in failed.values():
            raise error
        return {TopicPartition(each.topic, each.partition): each.offset for each in done}

    async def commit_async(
        self,
        offsets: Mapping[TopicPartition, int] | AnyRecord | None = None,
        *,
        metadata: str = "",
        on_commit: CommitCallback | None = None,
    ) -> None:
        """Commit as commit() does, and do not wait for it. Commits are sent in the order of these calls, and
        again while the coordinator cannot be reached, for up to unavailable_timeout_ms. What would undo a
        seek or a commit() that was committed meanwhile is left out. `on_commit` is called with the offsets
        that were written and the first error or None, inside of a later poll(), iteration or close(). Without
        it, that call raises the error. close() waits 2.5 s for what is under way. Raises NotAssignedError,
        InvalidArgumentError, and CoordinatorUnavailableError if 1,000 commits wait."""
        member = self._as_member("commit_async()")
        with self._changed:
            self._check_open()
            member.core.commit_later(member.core.commits(offsets, metadata), on_commit, now_ms())
            self._drive()
            self._driver.poke()

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int | None]:
        """The offsets that the group has committed for these partitions, or for those that are assigned;
        None: none. Raises CoordinatorUnavailableError."""
        member = self._as_member("committed()")
        wanted = await self.assignment() if partitions is None else tuple(partitions)
        found = await self._run(self._operations().offsets_of(member.core.settings.group, wanted))
        return {each: found[each].offset if each in found else None for each in wanted}

    def _as_member(self, what: str) -> GroupConsumer:
        if self._member is None:
            raise InvalidArgumentError(f"{what} is for consumers in a group; give group=")
        return self._member

    @property
    def streams(self) -> Mapping[int, tuple[TopicPartition, ...]]:
        """The partitions that the group has assigned to each stream of this consumer: `topics={"flights": 4}`
        makes four streams. `record_streams()` reads each of them by itself."""
        member = self._as_member("streams")
        with self._changed:
            return member.core.ownership.streams()

    @property
    def generations(self) -> Mapping[TopicPartition, int]:
        """The group's generation in which each partition was assigned to this consumer: the fence of its
        commits."""
        member = self._as_member("generations")
        with self._changed:
            return member.core.ownership.generations

    @property
    def consumer_id(self) -> str:
        """This consumer's name in its group. It is empty before the consumer is registered, unless the user
        chose the name."""
        return self._as_member("consumer_id").core.membership.consumer_id
