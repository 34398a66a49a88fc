"""The decisions of a producer: which batches go now, to whom, and what becomes of those that come back.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`. The shell holds one lock around
every method. Shells: `hightide.producer` (threads) and `hightide.aio.producer`.

Theory of operation. Each partition has a `Lane`: an open batch that records are appended to, a queue of
closed ones, and those in flight. `poll` drains lanes into Produce calls, one batch of each partition a call
and all partitions of one leader together. `completed` takes each call's outcome: batches are acknowledged,
fail, or go back into their lane, in order. News about leaders come from what brokers answer and from the
`MetadataSeeker`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from hightide.calls import Call, MessageCall, Method
from hightide.cluster import RETRY_PAUSE_MS, Cluster, Leader, MetadataSeeker, retry_pause_ms
from hightide.delivery import Delivery
from hightide.errors import (
    AddressUnreachableError,
    DeliveryTimeoutError,
    FencedProducerEpochError,
    HightideError,
    RecordTooLargeError,
    RequestTimeoutError,
    UndeliveredError,
    UnknownTopicError,
    from_code,
)
from hightide.lane import ANONYMOUS, Identity, Lane, TopicLanes
from hightide.pending_batch import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, Owner, PendingBatch
from hightide.produce_call import ProduceCall, ProduceEntry
from hightide.producer_settings import ProducerSettings
from hightide.v1 import errors_pb2
from hightide.v1.broker_service_pb2 import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResult,
    ProduceResponse,
)
from hightide.verdicts import REFUSALS, Verdict, verdict_on

log = logging.getLogger("hightide.producer")

# Below what servers take in one message (16 MiB), and not so much that one partition's batch delays
# another's.
REQUEST_BYTES_MAX: Final = 8 << 20
FIRST_GRANT_BYTES: Final = 4096
# A call that is unanswered for so long makes the producer ask others whether the leader is still the leader.
SLOW_CALL_MS: Final = 500
# A topic that brokers do not know is given up after this; its metadata may still be on its way to them.
UNKNOWN_TOPIC_PATIENCE_MS: Final = 5_000
_IDENTITY_TIMEOUT_MS: Final = 5_000


class ProducerCore:
    """The core. One a producer."""

    def __init__(
        self,
        settings: ProducerSettings,
        cluster: Cluster,
        owner: Owner,
        delivery: Callable[[PendingBatch, int], Any] = Delivery,
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.seeker = MetadataSeeker(cluster)
        self.owner = owner
        self._delivery = delivery
        self.topics: dict[str, TopicLanes] = {}
        self.free_bytes = settings.buffer_memory_bytes
        self.pressed = False
        self.wants_poll = False
        self.wake_at_ms: float | None = None
        self.fatal: FencedProducerEpochError | None = None
        self.cancelled: list[Call[Any]] = []
        self.callbacks: list[Callable[[], object]] = []
        self._active: dict[Lane, None] = {}
        self._calls: dict[ProduceCall, None] = {}
        self._identity: Identity | None = None if settings.is_idempotent else ANONYMOUS
        self._identity_call: MessageCall[InitProducerIdResponse] | None = None
        self._identity_turn = 0
        self._identity_not_before_ms = 0.0
        self._identity_error: HightideError | None = None

    # -- taking records --------------------------------------------------------------------------------------

    def lanes_of(self, topic: str) -> TopicLanes | None:
        """The topic's lanes; None while its metadata is not there. Called for the first record of each
        topic."""
        known = self.topics.get(topic)
        if known is not None:
            return known
        described = self.cluster.topics.get(topic)
        if described is None or not described.partitions:
            return None
        self.topics[topic] = TopicLanes(
            topic, described.topic_id, len(described.partitions), self._batch_limit(topic)
        )
        self.seeker.topics.add(topic)
        return self.topics[topic]

    def _batch_limit(self, topic: str) -> int:
        limit = self.settings.batch_bytes_max
        given = self.cluster.topics[topic].configs.get("max.message.bytes", "")
        return min(limit, int(given)) if given.isdigit() else limit

    def next_sticky(self, topic: TopicLanes) -> Lane:
        """The lane for records without a key from now on: the next one that has a leader, if any has."""
        for _ in range(topic.partition_count):
            topic.turn = (topic.turn + 1) % topic.partition_count
            lane = topic.lanes[topic.turn]
            if self.cluster.leader_of(topic.topic, lane.partition) is not None:
                break
        topic.sticky = topic.lanes[topic.turn]
        return topic.sticky

    def append(
        self,
        topic: TopicLanes,
        lane: Lane | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_us: int,
        headers: Sequence[tuple[str, bytes]] | None,
        now_ms: float,
    ) -> Any:
        """Take a record; without a lane, into the sticky one. Returns its delivery. None where the buffer is
        full: wait until batches end, and ask again. Raises RecordTooLargeError, FencedProducerEpochError."""
        if self.fatal is not None:
            raise self.fatal
        size_bytes = RECORD_OVERHEAD_BYTES + (len(value) if value else 0) + (len(key) if key else 0)
        for name, data in headers or ():
            size_bytes += RECORD_OVERHEAD_BYTES + 4 * len(name) + len(data)
        if lane is None:
            lane = topic.sticky
            if lane.open is not None and lane.open.size_bytes + size_bytes > topic.batch_limit_bytes:
                self._close_open(lane)
                self.wants_poll = True
                lane = self.next_sticky(topic)
        if not self.reserve(lane, size_bytes, now_ms):
            return None
        batch = lane.open
        assert batch is not None, "room was reserved in it"
        index = batch.record_count
        batch.record_count = index + 1
        batch.size_bytes += size_bytes
        batch.keys.append(key)
        batch.values.append(value)
        batch.timestamps.append(timestamp_us)
        if headers or batch.headers is not None:
            batch.append_headers(headers)
        return self._delivery(batch, index)

    def reserve(self, lane: Lane, size_bytes: int, now_ms: float) -> bool:
        """Make sure that the lane's open batch has room for a record of this size. False where the buffer is
        full: wait until batches end, and ask again. Raises RecordTooLargeError."""
        topic = lane.home
        if size_bytes + BATCH_OVERHEAD_BYTES > topic.batch_limit_bytes:
            raise RecordTooLargeError(
                f"a record of {size_bytes} bytes is over the limit of {topic.batch_limit_bytes} bytes",
                topic=lane.topic,
                partition=lane.partition,
            )
        batch = lane.open
        if batch is not None:
            needed = batch.size_bytes + size_bytes
            if needed <= topic.batch_limit_bytes:
                wished = min(topic.batch_limit_bytes, max(needed, 2 * batch.granted_bytes))
                return self._grant(batch, wished) or self._grant(batch, needed)
            self._close_open(lane)
            self.wants_poll = True
        fresh = self._new_batch(lane, now_ms)
        if not self._grant(fresh, max(fresh.size_bytes + size_bytes, FIRST_GRANT_BYTES)):
            return False
        lane.open = fresh
        self._active[lane] = None
        self.wants_poll = True
        return True

    def _new_batch(self, lane: Lane, now_ms: float) -> PendingBatch:
        return PendingBatch(
            self.owner,
            lane.topic,
            lane.partition,
            ordinal=lane.next_ordinal,
            created_ms=now_ms,
            deadline_ms=now_ms + self.settings.delivery_timeout_ms,
        )

    def _grant(self, batch: PendingBatch, granted_bytes: int) -> bool:
        more = granted_bytes - batch.granted_bytes
        if more > self.free_bytes:
            # Once is enough: who waits for room asks again whenever a call ends.
            self.wants_poll = self.wants_poll or not self.pressed
            self.pressed = True
            return False
        self.free_bytes -= more
        batch.granted_bytes = granted_bytes
        return True

    def _close_open(self, lane: Lane) -> None:
        batch = lane.open
        assert batch is not None, "there is a batch to close"
        lane.close_open()
        self.free_bytes += batch.granted_bytes - batch.size_bytes
        batch.granted_bytes = batch.size_bytes

    def append_arrow(self, lane: Lane, rows: Any, size_bytes: int, now_ms: float) -> PendingBatch | None:
        """Take rows as a batch of their own. None where the buffer is full: wait, and ask again."""
        if self.fatal is not None:
            raise self.fatal
        limit = lane.home.batch_limit_bytes
        if rows.num_rows == 1 and size_bytes > limit:
            raise RecordTooLargeError(
                f"a row of {size_bytes} bytes is over the limit of {limit} bytes a batch",
                topic=lane.topic,
                partition=lane.partition,
            )
        if lane.open is not None:
            self._close_open(lane)
        batch = self._new_batch(lane, now_ms)
        if not self._grant(batch, size_bytes):
            return None
        batch.arrow = rows
        batch.record_count = rows.num_rows
        batch.size_bytes = size_bytes
        batch.timestamps = ArrowTimestamps(rows.column(2))
        lane.open = batch
        lane.close_open()
        self._active[lane] = None
        self.wants_poll = True
        return batch

    # -- sending ---------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> list[Call[Any]]:
        """The calls to make now. Sets `wake_at_ms`: when to ask again if nothing else happens."""
        self.wake_at_ms = None
        self.wants_poll = False
        self._expire(now_ms)
        calls: list[Call[Any]] = list(self._drain(now_ms))
        self._watch_slow_calls(now_ms)
        identify = self._identify(now_ms)
        if identify is not None:
            calls.append(identify)
        metadata = self.seeker.poll(now_ms)
        if metadata is not None:
            calls.append(metadata)
        if self.seeker.wake_at_ms is not None:
            self._wake_by(self.seeker.wake_at_ms)
        for call in calls:
            call.started_ms = now_ms
        return calls

    def _wake_by(self, at_ms: float) -> None:
        if self.wake_at_ms is None or at_ms < self.wake_at_ms:
            self.wake_at_ms = at_ms

    def _expire(self, now_ms: float) -> None:
        """Fail what waits for longer than delivery_timeout_ms. What is in flight comes back by its own
        deadline."""
        for lane in list(self._active):
            first = lane.first()
            while first is not None and first.deadline_ms <= now_ms:
                if lane.queue:
                    lane.queue.popleft()
                else:
                    self._close_open(lane)
                    lane.queue.popleft()
                self._fail(lane, first, self._delivery_timeout(first))
                first = lane.first()
            if first is not None:
                self._wake_by(first.deadline_ms)

    def _delivery_timeout(self, batch: PendingBatch) -> DeliveryTimeoutError:
        last = batch.last_error or self._identity_error
        if last is None and self.seeker.failures:
            last = self.seeker.unavailable(self.settings.delivery_timeout_ms)
        why = f"the last error was: {last}" if last is not None else "no leader was found for the partition"
        return DeliveryTimeoutError(
            f"not acknowledged within {self.settings.delivery_timeout_ms} ms, "
            f"in {batch.attempts} attempts; {why}",
            topic=batch.topic,
            partition=batch.partition,
            maybe_appended=batch.maybe_appended,
            address=None if last is None else last.address,
        )

    def _drain(self, now_ms: float) -> Iterator[ProduceCall]:
        linger_ms = 0.0 if self.pressed else self.settings.linger_ms
        by_leader: dict[str, list[tuple[Lane, Leader]]] = {}
        soon: list[tuple[Lane, Leader]] = []
        for lane in list(self._active):
            if lane.ready_to_reset():
                for lost in lane.reset():
                    self._fail(lane, lost, self._delivery_timeout(lost))
            if lane.is_empty:
                del self._active[lane]
                continue
            due = lane.may_send(now_ms, linger_ms, self.settings.in_flight_max)
            if not due and not lane.may_send(now_ms, linger_ms / 2, self.settings.in_flight_max):
                self._wake_for(lane, now_ms, linger_ms)
                continue
            leader = self._leader_for(lane, now_ms)
            if leader is not None and due:
                by_leader.setdefault(leader.address, []).append((lane, leader))
            elif leader is not None:
                soon.append((lane, leader))
        for lane, leader in soon:
            # A call goes to this leader anyway, and a call costs more than what it carries.
            if leader.address in by_leader:
                by_leader[leader.address].append((lane, leader))
            else:
                self._wake_for(lane, now_ms, linger_ms)
        for address, lanes in by_leader.items():
            yield from self._calls_to(address, lanes, now_ms)

    def _wake_for(self, lane: Lane, now_ms: float, linger_ms: float) -> None:
        first = lane.first()
        assert first is not None, "an empty lane is not active"
        if now_ms < lane.blocked_until_ms:
            self._wake_by(lane.blocked_until_ms)
        elif not lane.in_flight:
            self._wake_by(first.created_ms + linger_ms)

    def _leader_for(self, lane: Lane, now_ms: float) -> Leader | None:
        """Whom to send the lane's batches to; None where that, or the producer id, is not known yet."""
        leader = self.cluster.leader_of(lane.topic, lane.partition)
        if leader is None:
            # It is unblocked by the first metadata that names a leader.
            self._block(lane, 8, now_ms)
            self.seeker.want_again(now_ms=now_ms)
            return None
        if lane.identity is None and self._identity is None:
            return None
        return leader

    def _block(self, lane: Lane, attempts: int, now_ms: float) -> None:
        lane.blocked_until_ms = now_ms + retry_pause_ms(attempts)
        self._wake_by(lane.blocked_until_ms)

    def _calls_to(
        self, address: str, lanes: list[tuple[Lane, Leader]], now_ms: float
    ) -> Iterator[ProduceCall]:
        while lanes:
            entries: list[ProduceEntry] = []
            size_bytes = 0
            again: list[tuple[Lane, Leader]] = []
            for lane, leader in lanes:
                first = lane.first()
                assert first is not None, "only lanes with something to send are drained"
                if entries and size_bytes + first.size_bytes > REQUEST_BYTES_MAX:
                    again.append((lane, leader))
                    continue
                if not lane.queue:
                    self._close_open(lane)
                size_bytes += first.size_bytes
                entries.append(self._take(lane, leader))
                if lane.queue and lane.may_send(now_ms, 0, self.settings.in_flight_max):
                    again.append((lane, leader))
            deadline_ms = min(entry.batch.deadline_ms for entry in entries)
            timeout_ms = max(1, min(self.settings.request_timeout_ms, int(deadline_ms - now_ms)))
            call = ProduceCall(address, timeout_ms, self.settings, tuple(entries))
            self._calls[call] = None
            yield call
            lanes = again

    def _take(self, lane: Lane, leader: Leader) -> ProduceEntry:
        batch = lane.take(lane.identity or self._identity or ANONYMOUS)
        lane.tried_epoch = leader.leader_epoch
        if lane.is_empty:
            self._active.pop(lane, None)
            if lane.home.sticky is lane:
                self.next_sticky(lane.home)
        return ProduceEntry(lane, batch, lane.topic_id, leader.leader_epoch)

    def _watch_slow_calls(self, now_ms: float) -> None:
        """A leader that is paused or cut off does not say that it is none any more: ask the others."""
        for call in self._calls:
            if call.next_check_ms == 0.0:
                call.next_check_ms = now_ms + SLOW_CALL_MS
            elif call.next_check_ms <= now_ms:
                call.next_check_ms = now_ms + SLOW_CALL_MS
                self.seeker.suspect(call.address)
                self.seeker.want()
            self._wake_by(call.next_check_ms)

    def _identify(self, now_ms: float) -> MessageCall[InitProducerIdResponse] | None:
        if self._identity is not None or self._identity_call is not None:
            return None
        if not any(lane.identity is None for lane in self._active):
            return None
        if now_ms < self._identity_not_before_ms:
            self._wake_by(self._identity_not_before_ms)
            return None
        candidates = self.seeker.candidates()
        address = candidates[self._identity_turn % len(candidates)]
        self._identity_turn += 1
        self._identity_call = MessageCall(
            address,
            Method.INIT_PRODUCER_ID,
            _IDENTITY_TIMEOUT_MS,
            InitProducerIdRequest(),
            InitProducerIdResponse,
        )
        return self._identity_call

    # -- what came back --------------------------------------------------------------------------------------

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        """A call ended: `outcome` is its decoded answer or a HightideError."""
        if isinstance(call, ProduceCall):
            self._calls.pop(call, None)
            self._produced(call, outcome, now_ms)
        elif call is self._identity_call:
            self._identified(outcome, now_ms)
        elif isinstance(outcome, HightideError):
            self.seeker.failed(call, outcome, now_ms)
        else:
            self.seeker.answered(call, outcome, now_ms)
            self._metadata_changed(now_ms)

    def _identified(self, outcome: InitProducerIdResponse | HightideError, now_ms: float) -> None:
        self._identity_call = None
        if isinstance(outcome, HightideError):
            self._identity_error = outcome
            self._identity_not_before_ms = now_ms + RETRY_PAUSE_MS
        else:
            self._identity_error = None
            self._identity = Identity(outcome.producer_id, outcome.producer_epoch)

    def _produced(self, call: ProduceCall, outcome: ProduceResponse | HightideError, now_ms: float) -> None:
        if isinstance(outcome, HightideError):
            if isinstance(outcome, AddressUnreachableError | RequestTimeoutError):
                self.seeker.suspect(call.address)
            for entry in call.entries:
                if not entry.batch.is_done:
                    self._came_back_with(entry, outcome, now_ms)
            return
        for entry, result in zip(call.entries, outcome.partitions, strict=True):
            if entry.batch.is_done:
                continue
            if result.error_code == errors_pb2.ERROR_CODE_UNSPECIFIED:
                entry.lane.came_back(entry.batch)
                entry.lane.home.unknown_since_ms = None
                self._end(entry.batch, result.base_offset, None)
            else:
                self._refused(call, entry, result, now_ms)

    def _refused(
        self, call: ProduceCall, entry: ProduceEntry, result: ProducePartitionResult, now_ms: float
    ) -> None:
        lane = entry.lane
        error = from_code(
            result.error_code,
            result.error_message,
            topic=lane.topic,
            partition=lane.partition,
            address=call.address,
        )
        named = result.current_leader_epoch > 0 or result.current_leader > 0
        is_news = named and self.cluster.note_leader(
            lane.topic, lane.partition, result.current_leader, result.current_leader_epoch
        )
        self._came_back_with(entry, error, now_ms)
        if is_news and self.cluster.leader_of(lane.topic, lane.partition) is not None:
            lane.blocked_until_ms = now_ms

    def _came_back_with(self, entry: ProduceEntry, error: HightideError, now_ms: float) -> None:
        lane, batch = entry.lane, entry.batch
        lane.came_back(batch)
        batch.last_error = error
        batch.attempts += 1
        if not isinstance(error, REFUSALS):
            batch.maybe_appended = True
        verdict = verdict_on(
            error,
            was_first=batch.was_sent_first,
            is_idempotent=self.settings.is_idempotent,
            record_count=batch.record_count,
        )
        if verdict in (Verdict.RETRY, Verdict.RENUMBER) and batch.deadline_ms <= now_ms:
            self._fail(lane, batch, self._delivery_timeout(batch))
            return
        match verdict:
            case Verdict.APPENDED:
                self._end(batch, -1, None)
            case Verdict.RETRY:
                self._retry(lane, batch, error, now_ms)
            case Verdict.RENUMBER:
                log.warning(
                    "%s-%d: %s; going on under a new producer id", lane.topic, lane.partition, error.message
                )
                # The broker that leads has nothing from this batch on, so sending it again cannot duplicate
                # it.
                batch.maybe_appended = False
                self._start_reset(lane)
                self._retry(lane, batch, error, now_ms)
            case Verdict.SPLIT:
                self._split(lane, batch)
            case Verdict.FAIL:
                self._fail(lane, batch, error)
            case Verdict.FENCE:
                assert isinstance(error, FencedProducerEpochError)
                self.fatal = error
                self.abandon(error)
                self._end(batch, -1, error)

    def _retry(self, lane: Lane, batch: PendingBatch, error: HightideError, now_ms: float) -> None:
        lane.requeue(batch)
        self._active[lane] = None
        if isinstance(error, UnknownTopicError) and self._is_gone(lane, error, now_ms):
            return
        if error.refresh_metadata:
            self.seeker.want()
        # One that was overtaken on the wire goes again as soon as those before it are through.
        if error.retriable or error.refresh_metadata:
            self._block(lane, batch.attempts, now_ms)

    def _is_gone(self, lane: Lane, error: HightideError, now_ms: float) -> bool:
        """Whether the topic has been unknown for so long that it must have been deleted; its batches then
        fail."""
        topic = lane.home
        if topic.unknown_since_ms is None:
            topic.unknown_since_ms = now_ms
        if now_ms - topic.unknown_since_ms < UNKNOWN_TOPIC_PATIENCE_MS:
            return False
        for each in topic.lanes:
            for batch in self._unsent(each):
                self._end(batch, -1, error)
        self.topics.pop(lane.topic, None)
        self.cluster.topics.pop(lane.topic, None)
        self.seeker.forget(lane.topic)
        return True

    def _unsent(self, lane: Lane) -> list[PendingBatch]:
        if lane.open is not None:
            self._close_open(lane)
        batches = list(lane.queue)
        lane.queue.clear()
        self._active.pop(lane, None)
        return batches

    def _start_reset(self, lane: Lane) -> None:
        if not self.settings.is_idempotent or lane.is_resetting:
            return
        lane.is_resetting = True
        if self._identity == lane.identity:
            self._identity = None

    def _split(self, lane: Lane, batch: PendingBatch) -> None:
        """Halve a batch that is over the topic's limit. The halves share its sequences between them."""
        rows = batch.columns()
        count = rows.num_rows
        parts: list[PendingBatch] = []
        at = 0
        for rows_half in (rows.slice(0, count // 2), rows.slice(count // 2)):
            part = PendingBatch(
                self.owner,
                lane.topic,
                lane.partition,
                ordinal=batch.ordinal + at,
                created_ms=batch.created_ms,
                deadline_ms=batch.deadline_ms,
            )
            part.arrow = rows_half
            part.record_count = rows_half.num_rows
            part.timestamps = ArrowTimestamps(rows_half.column(2))
            part.size_bytes = BATCH_OVERHEAD_BYTES + int(rows_half.nbytes)
            part.granted_bytes = 0 if parts else batch.granted_bytes
            part.attempts = batch.attempts
            part.is_urgent = batch.is_urgent
            if batch.base_sequence >= 0:
                part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
                part.base_sequence = (batch.base_sequence + at) % (1 << 31)
            at += part.record_count
            lane.requeue(part)
            parts.append(part)
        batch.granted_bytes = 0
        batch.split_into((parts[0], parts[1]))
        self._active[lane] = None
        topic = lane.home
        topic.batch_limit_bytes = min(topic.batch_limit_bytes, max(4096, batch.size_bytes // 2))

    def _fail(self, lane: Lane, batch: PendingBatch, error: HightideError) -> None:
        if batch.base_sequence >= 0:
            # The broker will not take what comes after this batch under the same id: a sequence is missing.
            self._start_reset(lane)
        self._end(batch, -1, error)

    def _end(self, batch: PendingBatch, base_offset: int, error: HightideError | None) -> None:
        self.free_bytes += batch.granted_bytes
        batch.granted_bytes = 0
        if self.pressed and self.free_bytes * 4 >= self.settings.buffer_memory_bytes:
            self.pressed = False
        self.callbacks.extend(batch.finish(base_offset, error))

    def _metadata_changed(self, now_ms: float) -> None:
        for topic in list(self.topics.values()):
            described = self.cluster.topics.get(topic.topic)
            if described is None:
                continue
            for lane in topic.lanes:
                if lane.topic_id != described.topic_id:
                    self._retarget(lane, described.topic_id)
            topic.grow(len(described.partitions))
        for lane in self._active:
            leader = self.cluster.leader_of(lane.topic, lane.partition)
            if leader is None:
                self.seeker.want_again(now_ms=now_ms)
            elif leader.leader_epoch > lane.tried_epoch:
                lane.blocked_until_ms = now_ms
        for call in self._calls:
            moved = [self._has_moved(call, entry) for entry in call.entries]
            if not call.is_cancelled and (all(moved) or (any(moved) and self.settings.is_idempotent)):
                call.is_cancelled = True
                self.cancelled.append(call)

    def _has_moved(self, call: ProduceCall, entry: ProduceEntry) -> bool:
        leader = self.cluster.leader_of(entry.lane.topic, entry.lane.partition)
        return (
            leader is not None and leader.leader_epoch > entry.leader_epoch and leader.address != call.address
        )

    def _retarget(self, lane: Lane, topic_id: bytes) -> None:
        """The topic was deleted and made anew: what waits goes to the new one, from sequence 0."""
        lane.topic_id = topic_id
        lane.home.unknown_since_ms = None
        for batch in lane.queue:
            batch.maybe_appended = False
        self._start_reset(lane)

    # -- for the shell ---------------------------------------------------------------------------------------

    def close_open_batches(self) -> list[PendingBatch]:
        """Let nothing linger; returns every batch that is not done. Called by flush and close."""
        for lane in self._active:
            if lane.open is not None:
                self._close_open(lane)
        return [batch for lane in self._lanes() for batch in (*lane.in_flight, *lane.queue)]

    def _lanes(self) -> Iterable[Lane]:
        return (lane for topic in self.topics.values() for lane in topic.lanes)

    @property
    def undelivered_count(self) -> int:
        """The number of records that are neither acknowledged nor failed."""
        waiting = (
            batch
            for lane in self._lanes()
            for batch in (*lane.in_flight, *lane.queue, *((lane.open,) if lane.open else ()))
        )
        return sum(batch.record_count for batch in waiting)

    def abandon(self, error: UndeliveredError | FencedProducerEpochError) -> None:
        """Fail everything that is not done; nothing more is sent. Called at the end of close."""
        for lane in self._lanes():
            in_flight, lane.in_flight = lane.in_flight, []
            for batch in (*in_flight, *self._unsent(lane)):
                if not batch.is_done:
                    self._end(batch, -1, error)
        self._calls.clear()


class ArrowTimestamps:
    """A timestamp column, read as the list of integers that other batches have."""

    __slots__ = ("_column",)

    def __init__(self, column: Any) -> None:
        self._column = column

    def __getitem__(self, index: int) -> int:
        return int(self._column[index].value)
