# Generated from aio/consumer.py by `make blocking`: change that one, not this.
"""The blocking consumer: the shell of `ConsumerCore`, and in a group of `GroupCore`, for threads."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hightide import tracing
from hightide.calls.addresses import bootstrap_addresses
from hightide.calls.call_reports import ClientCallbacks
from hightide.calls.credentials import Token, chosen_credentials
from hightide.calls.tls_files import FilePath
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.metadata import ClusterMetadata
from hightide.consumer_group.callbacks import AssignmentCallback, GroupCallbacks
from hightide.consumer_group.settings import Assignor, GroupSettings, group_settings_of, topic_streams
from hightide.consumer_positions import CHECK_S, ConsumerPositions
from hightide.consuming.columnar_records import joined
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.consumer_settings import ConsumerSettings, OffsetReset
from hightide.consuming.corrupt_batches import OnCorruptBatch
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.fetched_records import FEW_RECORDS, RecordsInDelivery, gather
from hightide.consuming.one_user import OneUser
from hightide.errors import CorruptBatchError, HightideError, InvalidArgumentError
from hightide.group_consumer import GroupConsumer
from hightide.record_stream import RecordStream
from hightide.records import Record, TopicPartition
from hightide.statistics import ConsumerStatistics, ErrorCallback
from hightide.transport.driver import Driver, now_ms
from hightide.transport.notices import log_notice
from hightide.transport.thread_condition import ThreadCondition
from hightide.transport.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer(ConsumerPositions):
    """Reads committed records of the partitions that are assigned to it; for use by one thread at a time.

    Records of one partition come in offset order. Nothing connects before the first use.

    With `group`, the group's coordinator divides the partitions among the consumers of the group: those of
    `topics`, or of all topics that match the RE2 expression `pattern` and none of those in `exclude`;
    subscribe() changes them. `topics` may be a mapping, which gives the number of streams, and so of shares,
    for each topic; record_streams() gives an iterator for each. With `auto_commit`, records that were
    returned are committed when the user asks for more. The callbacks are called with partitions, inside of
    poll(), an iteration or close(): `on_assign` before the first of their records, `on_revoke` before they
    are given back, and `on_lost` if another consumer has got them meanwhile (without it, on_revoke is
    called). `instance_id` keeps the partitions of a process that is restarted within its session timeout.

    `on_error` is called with each CallFailure, of those that are alike once a second at most, and
    `on_statistics` with ConsumerStatistics every `statistics_interval_ms`.
    Both are called on the client's thread that fetches. They are plain functions, must be quick,
    and may not wait for this consumer. One that raises is logged.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        topics: Mapping[str, int] | Sequence[str] | str | None = None,
        group: str | None = None,
        pattern: str | None = None,
        pattern_streams: int = 1,
        exclude: Sequence[str] | str = (),
        consumer_id: str | None = None,
        instance_id: str | None = None,
        auto_commit: bool = True,
        commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 10_000,
        assignor: Assignor | None = None,
        on_assign: AssignmentCallback | None = None,
        on_revoke: AssignmentCallback | None = None,
        on_lost: AssignmentCallback | None = None,
        offset_reset: OffsetReset = "earliest",
        fetch_max_bytes: int = 4 << 20,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        prefetch_bytes: int = 32 << 20,
        check_crcs: bool = True,
        on_corrupt_batch: OnCorruptBatch = "fail",
        request_timeout_ms: int = 30_000,
        unavailable_timeout_ms: int = 60_000,
        client_id: str | None = None,
        tls_ca: FilePath | None = None,
        tls_certificate: FilePath | None = None,
        tls_key: FilePath | None = None,
        token: Token | None = None,
        token_file: FilePath | None = None,
        on_error: ErrorCallback | None = None,
        on_statistics: Callable[[ConsumerStatistics], object] | None = None,
        statistics_interval_ms: int = 60_000,
    ) -> None:
        self._settings = settings = ConsumerSettings(
            offset_reset=offset_reset,
            fetch_max_bytes=fetch_max_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_min_bytes=fetch_min_bytes,
            prefetch_bytes=prefetch_bytes,
            check_crcs=check_crcs,
            on_corrupt_batch=on_corrupt_batch,
            request_timeout_ms=request_timeout_ms,
            unavailable_timeout_ms=unavailable_timeout_ms,
        )
        self._client_callbacks = ClientCallbacks(on_error, on_statistics, statistics_interval_ms)
        self._bootstrap = bootstrap_addresses(bootstrap)
        group_settings = group_settings_of(
            group=group,
            topics=topics,
            pattern=pattern,
            exclude=exclude,
            pattern_streams=pattern_streams,
            consumer_id=consumer_id,
            instance_id=instance_id,
            auto_commit=auto_commit,
            commit_interval_ms=commit_interval_ms,
            session_timeout_ms=session_timeout_ms,
            assignor=assignor,
            offset_reset=offset_reset,
            unavailable_timeout_ms=unavailable_timeout_ms,
        )
        callbacks = GroupCallbacks(on_assign, on_revoke, on_lost)
        credentials = chosen_credentials(tls_ca, tls_certificate, tls_key, token, token_file)
        self._transport = Transport(client_id, credentials, shares_connections=True)
        self._compose(settings, group_settings, callbacks, topics, client_id)

    def _compose(
        self,
        settings: ConsumerSettings,
        group_settings: GroupSettings | None,
        callbacks: GroupCallbacks,
        topics: Mapping[str, int] | Sequence[str] | str | None,
        client_id: str | None,
    ) -> None:
        self._changed, self._seen = ThreadCondition(), LeadersSeen()
        names = () if group_settings is not None else topic_streams(topics)
        self._core = ConsumerCore(settings, ClusterMetadata(self._bootstrap, self._seen), names, Random())
        self._in_delivery = RecordsInDelivery(self._core, log_notice)
        self._member: GroupConsumer | None = None
        if group_settings is not None:
            self._member = GroupConsumer(
                group_settings, callbacks, self._core, self._in_delivery, self._changed
            )
        driven = self._core if self._member is None else self._member.core
        reporter = tracing.Reporter("poll", client_id)
        reports = self._client_callbacks.reports(driven.statistics)
        name = "hightide-consumer"
        self._driver = Driver(driven, self._transport, self._changed, name, reporter, reports=reports)
        self._alone, self._is_closing, self._closed = OneUser(self._changed.home.enter), False, False
        self._streams: tuple[RecordStream[Record], ...] = ()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on, and no others. Partitions that stay keep their position; new
        ones start where offset_reset says (for "error": at the earliest offset)."""
        if self._member is not None:
            raise InvalidArgumentError("in a group, the coordinator assigns; leave out group= to assign")
        with self._changed:
            self._check_open()
            self._in_delivery.give_up()
            self._core.assign(partitions)
            self._drive()

    def subscribe(
        self,
        topics: Mapping[str, int] | Sequence[str] | str | None = None,
        *,
        pattern: str | None = None,
        exclude: Sequence[str] | str = (),
        pattern_streams: int = 1,
        on_assign: AssignmentCallback | None = None,
        on_revoke: AssignmentCallback | None = None,
        on_lost: AssignmentCallback | None = None,
    ) -> None:
        """Read these topics from now on, or those of a pattern, and no others; as the arguments of the same
        names when the consumer is made. Callbacks replace earlier ones. Topics that stay go on where they
        are. In a group the coordinator moves the partitions meanwhile: records of a topic that `topics` does
        not name any more are not returned, and with a `pattern` some may be. Without a group, all partitions
        of `topics` are read. Raises InvalidArgumentError, ConcurrentUseError; in a group, poll() raises the
        coordinator's refusal."""
        with self._alone:
            if self._member is None:
                self._subscribe_alone(topics, pattern, exclude)
                return
            settings = self._member.core.settings.subscribed_to(topics, pattern, exclude, pattern_streams)
            with self._changed:
                self._check_open()
                self._member.subscribe(settings, GroupCallbacks(on_assign, on_revoke, on_lost))
                self._drive()
                self._driver.poke()

    def _subscribe_alone(
        self,
        topics: Mapping[str, int] | Sequence[str] | str | None,
        pattern: str | None,
        exclude: Sequence[str] | str,
    ) -> None:
        names = topic_streams(topics)
        if pattern or exclude or not names:
            raise InvalidArgumentError("without group=, subscribe() takes names of topics, no pattern")
        with self._changed:
            self._check_open()
            self._in_delivery.give_up()
            self._core.subscribe(names)
            self._drive()

    def unsubscribe(self) -> None:
        """Read nothing until subscribe() or assign() is called. In a group: call on_revoke for all
        partitions, commit the records that were returned (with auto_commit), and leave; returns when that is
        durable, or at the latest after 7.5 s. Raises ConcurrentUseError, and what the callbacks raise."""
        with self._alone:
            self._check_open()
            if self._streams:
                raise InvalidArgumentError(
                    "this consumer is divided into streams; close it, and make another"
                )
            if self._member is not None:
                self._member.leave(self._driver, is_settled=True)
                return
            with self._changed:
                self._in_delivery.give_up()
                self._core.assign(())

    def record_streams(self) -> tuple[RecordStream[Record], ...]:
        """Divide this consumer into its streams, and return an iterator for each: as many as `topics` asks
        for at most for one topic, or `pattern_streams`. Stream n reads share n of every topic. Each may be
        read by a thread of its own, and from then on all records come from them: poll() and the like raise
        InvalidArgumentError. A stream is told of its own partitions: the callbacks are called inside of its
        loop. Close the consumer outside of the loops: it ends them when their records are done, or after a
        third of the session timeout. Calling it again returns the same streams. Raises InvalidArgumentError
        outside of a group or without a subscription, ConcurrentUseError."""
        member = self._as_member("record_streams()")
        with self._alone, self._changed:
            self._drive()
            if self._streams:
                return self._streams
            if not member.core.settings.is_subscribed:
                raise InvalidArgumentError("this consumer subscribes to nothing; call subscribe() first")
            member.core.came_back(now_ms())
            member.core.ownership.divide(member.core.settings.stream_count)
            self._streams = tuple(
                RecordStream(member, self._driver, self._changed, hand, self._commit_hand)
                for hand in member.core.ownership.hands
            )
            return self._streams

    def __iter__(self) -> Iterator[Record]:
        """Yield every record, for ever; at the end, wait for new ones. Errors as of poll()."""
        while True:
            with self._alone:
                self._come_back()
                self._begin_next()
            yield from self._in_delivery.iterate()

    def read_to_end(self) -> Iterator[Record]:
        """Yield every record up to the end offsets at the start of the iteration, then stop. Not for groups,
        whose partitions change meanwhile."""
        if self._member is not None:
            raise InvalidArgumentError("read_to_end() is not for consumers in a group; poll() and see lag()")
        self._wait_for_assignment()
        ends = self.end_offsets(self.assignment)
        waiting = {partition for partition, end in ends.items() if self.position(partition) < end}
        overshot: set[TopicPartition] = set()
        try:
            while waiting:
                with self._alone:
                    is_begun = self._begin_next(CHECK_S)
                if not is_begun:
                    # No record comes of a partition of which all up to the end were deleted meanwhile.
                    waiting = {each for each in waiting if self.position(each) < ends[each]}
                    continue
                partition = self._in_delivery.partition
                assert partition is not None, "records are of a partition"
                for record in self._in_delivery.iterate():
                    if record.offset < ends[partition]:
                        yield record
                    else:
                        overshot.add(partition)
                if self._in_delivery.next_offset >= ends[partition]:
                    waiting.discard(partition)
        finally:
            # Records after the end were fetched but not returned; the next poll() begins there.
            for partition in overshot:
                self.seek(partition, ends[partition])

    def _begin_next(self, timeout_s: float | None = None) -> bool:
        """Wait until there is a record to return next, or a batch was left out. Returns whether it came in
        time."""
        if self._in_delivery.has_records:
            return True
        chunk = self._next_chunk(timeout_s)
        if chunk is not None:
            self._begin(chunk)
        return chunk is not None

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> Sequence[Record]:
        """Return the next records, which are none if none came in time. Iterating makes the records, of the
        columns of the batches; list() keeps them. Raises BrokersUnavailableError,
        UnknownTopicError (in a group only for a topic that it never saw), OffsetOutOfRangeError
        (offset_reset="error"), CorruptBatchError, ClosedError; in a group also CoordinatorUnavailableError,
        NoCommittedOffsetError, and the coordinator's typed refusal; ConcurrentUseError."""
        with self._alone:
            return self._poll(timeout_s, max_records)

    def _poll(self, timeout_s: float, max_records: int) -> Sequence[Record]:
        self._come_back()
        taken: list[Sequence[Record]] = []
        wanted = max_records
        end_ms = now_ms() + timeout_s * 1000
        while wanted > 0:
            if not self._in_delivery.has_records:
                left_s = max(0.0, (end_ms - now_ms()) / 1000)
                chunk = self._next_chunk(left_s, is_more=bool(taken))
                if chunk is None:
                    break
                try:
                    self._begin(chunk)
                except CorruptBatchError:
                    if taken:
                        break
                    raise
            try:
                records = self._in_delivery.take(wanted, is_few=max_records <= FEW_RECORDS)
            except HightideError:
                if taken:
                    break
                raise
            if records:
                taken.append(records)
                wanted -= len(records)
        return joined(taken)

    def getone(self) -> Record:
        """Return the next record; wait for it as long as it takes. Errors as of poll()."""
        with self._alone:
            self._come_back()
            while True:
                self._begin_next()
                if self._in_delivery.has_records and (taken := self._in_delivery.take(1, is_few=True)):
                    return taken[0]

    def poll_arrow(self, timeout_s: float = 1.0) -> "pa.RecordBatch":
        """Return the next rows of one partition, with the columns topic, partition, offset, timestamp, key,
        value and, if records have them, headers. If none came in time, there are no rows. Errors as of
        poll()."""
        with self._alone:
            self._come_back()
            with self._changed:
                self._in_delivery.give_up()
            end_ms = now_ms() + timeout_s * 1000
            while True:
                batch, chunk_count = self._next_arrow(max(0.0, (end_ms - now_ms()) / 1000))
                if batch.num_rows or not chunk_count:
                    return batch

    def _next_arrow(self, timeout_s: float) -> "tuple[pa.RecordBatch, int]":
        """The rows of the next chunks, and the number of those chunks; all rows may have been left out."""
        chunk = self._next_chunk(timeout_s)
        chunks: list[FetchedBatch] = []
        if chunk is not None:
            with self._changed:
                self._core.put_back(chunk)
                chunks = gather(self._core)
                if chunks and self._member is not None:
                    # The partition of the first chunk may be paused by now, so that these are another
                    # partition's.
                    self._member.core.ownership.took(chunks[0].partition)
                if self._core.wants_poll:
                    self._driver.poke()
        try:
            batch, rest = self._in_delivery.as_arrow(chunks)
        except CorruptBatchError:
            with self._changed:
                for each in reversed(chunks):
                    self._core.put_back(each)
            raise
        handed_out = chunks[: len(chunks) - len(rest)]
        with self._changed:
            for each in reversed(rest):
                self._core.put_back(each)
            for each in handed_out:
                self._core.handed_out(each, each.next_offset)
        return batch, len(handed_out)

    def _come_back(self) -> None:
        if self._member is not None:
            self._check_open()
            if self._streams:
                raise InvalidArgumentError("this consumer is divided into streams; read its record_streams()")
            self._member.come_back(self._driver)

    def _next_chunk(self, timeout_s: float | None, *, is_more: bool = False) -> FetchedBatch | None:
        """Wait for the next batch. `is_more` means that the user already has some records, so that callbacks
        have to wait. Raises as poll() documents."""
        deadline_ms = None if timeout_s is None else now_ms() + timeout_s * 1000
        while True:
            with self._changed:
                self._drive()
                self._in_delivery.settle()
                has_news = self._member is not None and self._member.core.has_news()
                if is_more:
                    # Errors have to wait too, or the records would be lost.
                    return None if has_news else self._take()
                if not has_news:
                    chunk, is_over = self._wait_for_chunk(deadline_ms)
                    if chunk is not None or is_over:
                        return chunk
            self._come_back()

    def _wait_for_chunk(self, deadline_ms: float | None) -> tuple[FetchedBatch | None, bool]:
        """The next batch, and whether the time is up. Neither is set if the user must be told something
        first. Called with the lock."""
        while True:
            self._check_open()
            chunk = self._take()
            if chunk is not None:
                return chunk, False
            now = now_ms()
            self._raise_errors(now)
            if deadline_ms is not None and now >= deadline_ms:
                return None, True
            left_s = CHECK_S if deadline_ms is None else (deadline_ms - now) / 1000
            self._changed.wait(min(left_s, CHECK_S))
            if self._member is not None and self._member.core.has_news():
                return None, False

    def _take(self) -> FetchedBatch | None:
        chunk = self._core.next_chunk() if self._member is None else self._member.take(now_ms())
        if self._core.wants_poll:
            self._driver.poke()
        return chunk

    def _begin(self, chunk: FetchedBatch) -> None:
        """Return this chunk's records next. A chunk that cannot be read stays first in the queue, so that it
        is not passed over before the user has sought beyond it."""
        try:
            self._in_delivery.begin(chunk)
        except CorruptBatchError:
            with self._changed:
                self._core.put_back(chunk)
            raise

    def _raise_errors(self, now: float) -> None:
        self._core.raise_errors(now)
        if self._member is not None:
            self._member.core.raise_errors(now)
        elif self._core.is_assigned and not self._core.positions:
            raise InvalidArgumentError("nothing is assigned; give topics=, or call subscribe() or assign()")

    def close(self) -> None:
        """Stop fetching and close the connections that no other consumer shares. In a group, first commit the
        records that were returned (with auto_commit), and leave at once. Closing twice does nothing."""
        self._close(is_settled=True)

    def _close(self, *, is_settled: bool) -> None:
        if self._changed.home.is_elsewhere:
            return
        with self._changed:
            if self._closed or self._is_closing:
                return
            self._is_closing = True
        try:
            if self._member is not None:
                self._member.end_streams(self._driver)
                self._member.leave(self._driver, is_settled=is_settled)
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._driver.stop()
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A record whose processing raised is not settled: it is read again.
        self._close(is_settled=kind is None)

    def __repr__(self) -> str:
        # It takes no lock: the garbage collector shows what was not closed.
        state = "closed" if self._closed else "open" if self._driver.is_started else "not used yet"
        group = "" if self._member is None else f"group {self._member.core.settings.group}, "
        where = ", ".join(self._bootstrap)
        return f"<{type(self).__name__} of {where}: {group}partitions: {len(self._core.positions)}, {state}>"

    def __del__(self) -> None:
        # A consumer that was refused its settings, or was never used, has left nothing behind.
        if getattr(self, "_closed", True) or not self._driver.is_started or self._changed.home.is_elsewhere:
            return
        self._driver.let_go()
        warnings.warn(f"unclosed {self!r}: call its close()", ResourceWarning, stacklevel=2, source=self)
