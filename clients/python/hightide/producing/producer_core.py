"""The decisions of a producer: which batches are sent now, to which broker, and what happens after their
outcomes.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`, chance as a seeded Random. The
shell holds one lock around every method. Shells: `hightide.producer` (threads) and `hightide.aio.producer`.

Theory of operation. Each partition has a `PartitionQueue`: an open batch that records are appended to, closed
ones, and those in flight. `poll` drains queues into Produce calls, one batch of each partition a call and all
partitions of one leader together. Small batches wait while their leader has a call. `completed` takes each
call's outcome: batches are acknowledged, fail, or go back into their queue, in order. News about leaders come
from the brokers' answers and from the `MetadataSeeker`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from hightide.batch.header import SEQUENCES
from hightide.calls.call import Call
from hightide.calls.notice import Level, Notice
from hightide.cluster.leader_waits import LeaderWaits, TracedCore, hung_since
from hightide.cluster.metadata import RETRY, ClusterMetadata, Leader, MetadataSeeker
from hightide.cluster.silent_leaders import SilentLeaders
from hightide.cluster.throttles import Throttles
from hightide.errors import (
    AddressUnreachableError,
    DeliveryTimeoutError,
    FencedProducerEpochError,
    HightideError,
    InvalidArgumentError,
    NotAuthorizedError,
    RequestTimeoutError,
    SequenceConflictError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
    from_code,
)
from hightide.producing.accumulator import Accumulator
from hightide.producing.delivery import Delivery
from hightide.producing.partition_queue import ANONYMOUS, PartitionQueue, ProducerIdentity, TopicQueues
from hightide.producing.pending_batch import PAUSE_MS, BatchOwner, PendingBatch
from hightide.producing.produce_call import ProduceCall, ProduceEntry
from hightide.producing.producer_identity import IdentitySeeker
from hightide.producing.producer_settings import ProducerSettings
from hightide.producing.refused_batches import REFUSALS, RefusedBatchAction, verdict_on
from hightide.records import TopicPartition
from hightide.statistics import ProducerStatistics
from hightide.v1 import errors_pb2
from hightide.v1.broker_service_pb2 import (
    ProducePartitionResult,
    ProduceResponse,
)

# Below the size that servers accept in one message (16 MiB), and small enough that one partition's batch does
# not delay another's.
REQUEST_BYTES_MAX: Final = 8 << 20
# So long after a call to a leader, batches that are not full wait for its answer. A busy leader answers
# sooner. One partition whose replicas are slow holds up the others of its leader for no longer.
BUSY_LEADER_MS: Final = 20
# If a call is unanswered for this long, the producer asks others whether the leader still leads.
SLOW_CALL_MS: Final = 500
# A topic that brokers do not know is given up after this; its metadata may still be on its way to them.
UNKNOWN_TOPIC_PATIENCE_MS: Final = 5_000
# A batch that may have been appended is not sent again after this: a log remembers a producer for at least an
# hour (`RETRY_MS` of its producer states), and takes batches of a producer that it has forgotten for new.
DOUBT_MAX_MS: Final = 30 * 60 * 1000


def _given_identity(settings: ProducerSettings) -> ProducerIdentity | None:
    """The identity that need not be requested from a broker."""
    if settings.key is not None:
        return ProducerIdentity(settings.key.producer_id, settings.key.producer_epoch)
    return None if settings.is_idempotent else ANONYMOUS


def _conflict(error: HightideError) -> SequenceConflictError:
    return SequenceConflictError(
        error.message,
        topic=error.topic,
        partition=error.partition,
        address=error.address,
        metadata=error.metadata,
    )


class ProducerCore(Accumulator, TracedCore):
    """The core of one producer."""

    def __init__(
        self,
        settings: ProducerSettings,
        cluster: ClusterMetadata,
        owner: BatchOwner,
        delivery: Callable[[PendingBatch, int], Any] = Delivery,
        first_turn: int = 0,
        *,
        random: Random,
    ) -> None:
        super().__init__(settings, cluster, owner, delivery, first_turn)
        self.notices: deque[Notice] = deque()
        self.seeker = MetadataSeeker(cluster, self.notices, "hightide.producer")
        self._silent = SilentLeaders(self.seeker, SLOW_CALL_MS, random)
        self.wake_at_ms: float | None = None
        self.cancelled: list[Call[Any]] = []
        self._calls: dict[ProduceCall, None] = {}
        self._identity = IdentitySeeker(self.seeker, _given_identity(settings))
        self._waits = LeaderWaits()
        self.throttles = Throttles()

    def statistics(self) -> ProducerStatistics:
        """The state, for on_statistics; the driver adds the brokers."""
        return ProducerStatistics(
            acknowledged_records=self.acknowledged_records,
            acknowledged_bytes=self.acknowledged_bytes,
            failed_records=self.failed_records,
            batches=self.batch_count,
            retries=self.retry_count,
            undelivered_records=self.undelivered_count,
            buffered_bytes=self.settings.buffer_memory_bytes - self.free_bytes,
            throttled_ms=self.throttles.total_ms,
        )

    # -- sending ---------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> list[Call[Any]]:
        """The calls to make now. Sets `wake_at_ms`: when to ask again if nothing else happens."""
        self.wake_at_ms = None
        self.wants_poll = False
        self._expire(now_ms)
        calls: list[Call[Any]] = list(self._drain(now_ms))
        for call in calls:
            call.started_ms = now_ms
        self._silent.poll(self._calls, now_ms)
        self._waits.poll(self.cluster, self.seeker, now_ms)
        for wake_at_ms in (self._silent.wake_at_ms, self._waits.wake_at_ms):
            if wake_at_ms is not None:
                self._wake_by(wake_at_ms)
        if any(queue.identity is None for queue in self.active):
            identify = self._identity.poll(now_ms)
            if identify is not None:
                identify.started_ms = now_ms
                calls.append(identify)
            if self._identity.wake_at_ms is not None:
                self._wake_by(self._identity.wake_at_ms)
        metadata = self.seeker.poll(now_ms)
        if metadata is not None:
            metadata.started_ms = now_ms
            calls.append(metadata)
        if self.seeker.wake_at_ms is not None:
            self._wake_by(self.seeker.wake_at_ms)
        return calls

    def _wake_by(self, at_ms: float) -> None:
        if self.wake_at_ms is None or at_ms < self.wake_at_ms:
            self.wake_at_ms = at_ms

    def _expire(self, now_ms: float) -> None:
        """Fail batches that wait for longer than delivery_timeout_ms. Batches in flight come back by their
        own deadline."""
        for queue in list(self.active):
            first = queue.first()
            while first is not None and first.deadline_ms <= now_ms:
                if queue.closed:
                    queue.closed.popleft()
                else:
                    self.close_open(queue)
                    queue.closed.popleft()
                self._fail(queue, first, self._delivery_timeout(first))
                first = queue.first()
            if first is not None:
                self._wake_by(first.deadline_ms)

    def _delivery_timeout(self, batch: PendingBatch) -> DeliveryTimeoutError:
        last = batch.last_error or self._identity.error
        if last is None and self.seeker.failures:
            last = self.seeker.unavailable(self.settings.delivery_timeout_ms)
        why = f"the last error was: {last}" if last is not None else "no leader was found for the partition"
        return DeliveryTimeoutError(
            f"not acknowledged within {batch.deadline_ms - batch.created_ms:.0f} ms, "
            f"in {batch.attempts} attempts; {why}",
            topic=batch.topic,
            partition=batch.partition,
            maybe_appended=batch.maybe_appended,
            address=None if last is None else last.address,
        )

    def _left_in_doubt(self, batch: PendingBatch) -> DeliveryTimeoutError:
        """The error for a batch whose partition goes on under another producer id, so that a repetition could
        not be recognised."""
        assert batch.maybe_appended, "what was never appended goes on under another id"
        last = batch.last_error
        return DeliveryTimeoutError(
            f"one of {batch.attempts} attempts may have been appended, and another attempt could write the "
            f"records twice: read the partition to find out; the last error was: {last}",
            topic=batch.topic,
            partition=batch.partition,
            maybe_appended=True,
            address=None if last is None else last.address,
        )

    def _drain(self, now_ms: float) -> Iterator[ProduceCall]:
        linger_ms = 0.0 if self.pressed else self.settings.linger_ms
        by_leader: dict[str, list[tuple[PartitionQueue, Leader]]] = {}
        soon: list[tuple[PartitionQueue, Leader]] = []
        for queue in list(self.active):
            if queue.stopped_by is not None:
                for unsent in self.unsent(queue):
                    self.end(unsent, -1, queue.stopped_by)
                continue
            if queue.ready_to_reset():
                for lost in queue.reset():
                    self.end(lost, -1, self._left_in_doubt(lost))
            if queue.is_empty:
                del self.active[queue]
                continue
            due = queue.may_send(now_ms, linger_ms, self.settings.in_flight_max) or self._burst_ended(
                queue, now_ms
            )
            if not due and not queue.may_send(now_ms, linger_ms / 2, self.settings.in_flight_max):
                self._wake_for(queue, now_ms, linger_ms)
                continue
            leader = self._leader_for(queue, now_ms)
            if leader is not None and due:
                by_leader.setdefault(leader.address, []).append((queue, leader))
            elif leader is not None:
                soon.append((queue, leader))
        for address in list(by_leader):
            until_ms = self.throttles.until_ms(address, now_ms)
            if until_ms is not None:
                # The batches stay in their queues, and are given up when their time is over.
                del by_leader[address]
                self._wake_by(until_ms)
        self._hold_for_busy_leaders(by_leader, now_ms)
        for queue, leader in soon:
            # A call goes to this leader anyway, and a call costs more than a batch that it carries.
            if leader.address in by_leader:
                by_leader[leader.address].append((queue, leader))
            else:
                self._wake_for(queue, now_ms, linger_ms)
        for address, queues in by_leader.items():
            yield from self._calls_to(address, queues, now_ms)

    def _burst_ended(self, queue: PartitionQueue, now_ms: float) -> bool:
        """Whether the queue's open batch need not linger: it is large, its sender has paused, and its leader
        has no call that it could wait for."""
        return (
            queue.open is not None
            and not self._is_busy(queue)
            and queue.may_send(now_ms, 0, self.settings.in_flight_max)
            and queue.open.has_paused(now_ms)
        )

    def _is_busy(self, queue: PartitionQueue) -> bool:
        """Whether a call to the queue's leader is under way."""
        leader = self.cluster.leader_of(queue.topic, queue.partition)
        return leader is not None and any(call.address == leader.address for call in self._calls)

    def _hold_for_busy_leaders(
        self, by_leader: dict[str, list[tuple[PartitionQueue, Leader]]], now_ms: float
    ) -> None:
        """Leave out each leader that was called a moment ago and has not answered, unless a closed batch is
        for it. Each call costs both sides the same, so the open batches had better grow. The answer lets the
        core be polled again."""
        for call in self._calls:
            queues = by_leader.get(call.address)
            until_ms = call.started_ms + BUSY_LEADER_MS
            if queues is not None and now_ms < until_ms and not any(queue.closed for queue, _ in queues):
                del by_leader[call.address]
                self._wake_by(until_ms)

    def _wake_for(self, queue: PartitionQueue, now_ms: float, linger_ms: float) -> None:
        first = queue.first()
        assert first is not None, "an empty queue is not active"
        if now_ms < queue.blocked_until_ms:
            self._wake_by(queue.blocked_until_ms)
        elif not queue.in_flight:
            self._wake_by(first.created_ms + linger_ms)
            if first.seen_bytes and not self._is_busy(queue):
                self._wake_by(first.seen_ms + PAUSE_MS)

    def _leader_for(self, queue: PartitionQueue, now_ms: float) -> Leader | None:
        """The leader to send the queue's batches to; None if it, or the producer id, is not known yet."""
        leader = self.cluster.leader_of(queue.topic, queue.partition)
        if leader is None:
            self._waits.failed(TopicPartition(queue.topic, queue.partition), queue.tried_epoch, now_ms)
            # It is unblocked by the first metadata that names a leader.
            self._block(queue, 8, now_ms)
            self.seeker.want_again(now_ms=now_ms)
            return None
        if queue.identity is None and self._identity.identity is None:
            return None
        return leader

    def _block(self, queue: PartitionQueue, attempts: int, now_ms: float) -> None:
        queue.blocked_until_ms = now_ms + RETRY.pause_ms(attempts)
        self._wake_by(queue.blocked_until_ms)

    def _calls_to(
        self, address: str, queues: list[tuple[PartitionQueue, Leader]], now_ms: float
    ) -> Iterator[ProduceCall]:
        while queues:
            entries: list[ProduceEntry] = []
            size_bytes = 0
            again: list[tuple[PartitionQueue, Leader]] = []
            for queue, leader in queues:
                first = queue.first()
                assert first is not None, "only queues with something to send are drained"
                if entries and size_bytes + first.size_bytes > REQUEST_BYTES_MAX:
                    again.append((queue, leader))
                    continue
                if not queue.closed:
                    self.close_open(queue)
                size_bytes += first.size_bytes
                entries.append(self._take(queue, leader))
                if queue.closed and queue.may_send(now_ms, 0, self.settings.in_flight_max):
                    again.append((queue, leader))
            deadline_ms = min(entry.batch.deadline_ms for entry in entries)
            timeout_ms = max(1, min(self.settings.request_timeout_ms, int(deadline_ms - now_ms)))
            call = ProduceCall(address, timeout_ms, self.settings, tuple(entries))
            self._calls[call] = None
            yield call
            queues = again

    def _take(self, queue: PartitionQueue, leader: Leader) -> ProduceEntry:
        batch = queue.take(queue.identity or self._identity.identity or ANONYMOUS)
        queue.tried_epoch = leader.leader_epoch
        if queue.is_empty:
            self.active.pop(queue, None)
        if queue.home.sticky is queue:
            queue.home.sticky_bytes += batch.size_bytes
        return ProduceEntry(queue, batch, queue.topic_id, leader.leader_epoch)

    # -- outcomes --------------------------------------------------------------------------------------------

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        """Handle the end of a call: `outcome` is its decoded answer or a HightideError."""
        if isinstance(call, ProduceCall):
            self._calls.pop(call, None)
            self.throttles.answered(call, outcome, now_ms)
            self._produced(call, outcome, now_ms)
        elif self._identity.is_mine(call):
            self._identity.completed(outcome, now_ms)
            if isinstance(outcome, NotAuthorizedError):
                # Each broker would say so, and nothing was sent yet.
                for queue in [each for each in self.active if each.identity is None]:
                    for unsent in self.unsent(queue):
                        self.end(unsent, -1, outcome)
        elif isinstance(outcome, HightideError):
            self.seeker.failed(call, outcome, now_ms)
        else:
            self.seeker.answered(call, outcome, now_ms)
            self._metadata_changed(now_ms)

    def _produced(self, call: ProduceCall, outcome: ProduceResponse | HightideError, now_ms: float) -> None:
        if isinstance(outcome, HightideError):
            if isinstance(outcome, AddressUnreachableError | RequestTimeoutError):
                self.seeker.suspect(call.address)
            for entry in call.entries:
                if not entry.batch.is_done:
                    self._note_failure(call, entry, outcome, now_ms)
                    self._came_back_with(entry, outcome, now_ms)
            return
        for entry, result in zip(call.entries, outcome.partitions, strict=True):
            if entry.batch.is_done:
                continue
            if result.error_code == errors_pb2.ERROR_CODE_UNSPECIFIED:
                entry.queue.came_back(entry.batch)
                entry.queue.home.unknown_since_ms = None
                if self._waits.waiting:
                    partition = TopicPartition(entry.queue.topic, entry.queue.partition)
                    self._waits.went_through(partition, entry.leader_epoch, now_ms)
                self.end(entry.batch, result.base_offset, None)
            else:
                self._refused(call, entry, result, now_ms)

    def _refused(
        self, call: ProduceCall, entry: ProduceEntry, result: ProducePartitionResult, now_ms: float
    ) -> None:
        queue = entry.queue
        error = from_code(
            result.error_code,
            result.error_message,
            topic=queue.topic,
            partition=queue.partition,
            address=call.address,
        )
        named = result.current_leader_epoch > 0 or result.current_leader > 0
        is_news = named and self.cluster.note_leader(
            queue.topic, queue.partition, result.current_leader, result.current_leader_epoch
        )
        self._note_failure(call, entry, error, now_ms)
        self._came_back_with(entry, error, now_ms)
        if is_news and self.cluster.leader_of(queue.topic, queue.partition) is not None:
            queue.blocked_until_ms = now_ms

    def _note_failure(
        self, call: ProduceCall, entry: ProduceEntry, error: HightideError, now_ms: float
    ) -> None:
        if error.retriable or error.refresh_metadata:
            partition = TopicPartition(entry.queue.topic, entry.queue.partition)
            self._waits.failed(partition, entry.leader_epoch, now_ms, since_ms=hung_since(call, error))

    def _came_back_with(self, entry: ProduceEntry, error: HightideError, now_ms: float) -> None:
        queue, batch = entry.queue, entry.batch
        queue.came_back(batch)
        batch.last_error = error
        batch.attempts += 1
        if not isinstance(error, REFUSALS):
            batch.in_doubt |= {entry.topic_id}
            batch.deadline_ms = min(batch.deadline_ms, batch.created_ms + DOUBT_MAX_MS)
        verdict = verdict_on(
            error,
            was_first=batch.was_sent_first,
            is_idempotent=self.settings.is_idempotent,
            is_keyed=self.settings.key is not None,
            record_count=batch.record_count,
        )
        if verdict in (RefusedBatchAction.RETRY, RefusedBatchAction.RENUMBER) and batch.deadline_ms <= now_ms:
            self._fail(queue, batch, self._delivery_timeout(batch))
            return
        match verdict:
            case RefusedBatchAction.APPENDED:
                self.end(batch, -1, None)
            case RefusedBatchAction.RETRY:
                self._retry(queue, batch, error, now_ms)
            case RefusedBatchAction.RENUMBER:
                text = f"{queue.topic}-{queue.partition}: {error.message}; going on under a new producer id"
                self.notices.append(Notice("hightide.producer", Level.WARNING, text))
                self._start_reset(queue, error)
                self._retry(queue, batch, error, now_ms)
            case RefusedBatchAction.SPLIT:
                self.split(queue, batch)
            case RefusedBatchAction.FAIL:
                self._fail(queue, batch, error)
            case RefusedBatchAction.CONFLICT:
                self._fail(queue, batch, _conflict(error))
            case RefusedBatchAction.FENCE:
                assert isinstance(error, FencedProducerEpochError)
                self.fatal = error
                self.abandon(error)
                self.end(batch, -1, error)

    def _retry(self, queue: PartitionQueue, batch: PendingBatch, error: HightideError, now_ms: float) -> None:
        queue.requeue(batch)
        self.active[queue] = None
        if isinstance(error, UnknownTopicError) and self._is_gone(queue, error, now_ms):
            return
        if error.refresh_metadata:
            self.seeker.want()
        # A batch that was overtaken on the wire is sent again as soon as those before it are appended.
        if error.retriable or error.refresh_metadata:
            self._block(queue, batch.attempts, now_ms)

    def _is_gone(self, queue: PartitionQueue, error: HightideError, now_ms: float) -> bool:
        """Whether the topic has been unknown for so long that it must have been deleted; its batches then
        fail."""
        topic = queue.home
        if topic.unknown_since_ms is None:
            topic.unknown_since_ms = now_ms
        if now_ms - topic.unknown_since_ms < UNKNOWN_TOPIC_PATIENCE_MS:
            return False
        for each in topic.queues:
            for batch in self.unsent(each):
                self.end(batch, -1, error)
        self.topics.pop(queue.topic, None)
        self.cluster.forget(queue.topic)
        self.seeker.forget(queue.topic)
        return True

    def _start_reset(self, queue: PartitionQueue, error: HightideError) -> None:
        if self.settings.key is not None:
            queue.stopped_by = error
            return
        if not self.settings.is_idempotent or queue.is_resetting:
            return
        queue.is_resetting = True
        self._identity.drop(queue.identity)

    def _fail(self, queue: PartitionQueue, batch: PendingBatch, error: HightideError) -> None:
        if batch.base_sequence >= 0:
            # The broker will refuse the batches after this one under the same id: a sequence is missing.
            self._start_reset(queue, error)
        self.end(batch, -1, error)

    def _metadata_changed(self, now_ms: float) -> None:
        for topic in list(self.topics.values()):
            described = self.cluster.topics.get(topic.topic)
            if described is None:
                continue
            for queue in topic.queues:
                if queue.topic_id != described.topic_id:
                    self._retarget(queue, described.topic_id)
            if described.partitions:  # Else its first leaders are being chosen, and nobody knows how many.
                self._resize(topic, len(described.partitions), now_ms)
        for queue in self.active:
            leader = self.cluster.leader_of(queue.topic, queue.partition)
            if leader is None:
                self.seeker.want_again(now_ms=now_ms)
            elif leader.leader_epoch > queue.tried_epoch:
                queue.blocked_until_ms = now_ms
        for call in self._calls:
            moved = [self._has_moved(call, entry) for entry in call.entries]
            if not call.is_cancelled and (all(moved) or (any(moved) and self.settings.is_idempotent)):
                call.is_cancelled = True
                self.cancelled.append(call)

    def _resize(self, topic: TopicQueues, partition_count: int, now_ms: float) -> None:
        """Follow a topic that has more partitions, or fewer: it was created again, or some were removed. A
        broker may not have heard yet that there are more. So fewer are believed only if that lasts; what
        waits for a partition that is gone then fails."""
        if partition_count >= topic.partition_count:
            if partition_count > topic.partition_count or topic.fewer_since_ms is not None:
                topic.resize(partition_count)
        else:
            if topic.fewer_since_ms is None:
                topic.fewer_since_ms = now_ms
            elif self.seeker.asked_at_ms - topic.fewer_since_ms >= UNKNOWN_TOPIC_PATIENCE_MS:
                topic.resize(partition_count)
            if topic.sticky.partition >= partition_count:
                self.next_sticky(topic)
        for queue in topic.queues[topic.partition_count :]:
            for batch in self.unsent(queue):
                gone = f"topic {topic.topic} has the partitions 0 to {topic.partition_count - 1} by now, not "
                self._fail(queue, batch, UnknownPartitionError(f"{gone}{queue.partition}", topic=topic.topic))

    def _has_moved(self, call: ProduceCall, entry: ProduceEntry) -> bool:
        leader = self.cluster.leader_of(entry.queue.topic, entry.queue.partition)
        return (
            leader is not None and leader.leader_epoch > entry.leader_epoch and leader.address != call.address
        )

    def _retarget(self, queue: PartitionQueue, topic_id: bytes) -> None:
        """Send waiting batches to the new topic, from sequence 0: the old one was deleted and created anew.

        It is also possible that the broker that answered still knows the earlier topic, and that the next
        answer brings the queue back: so a batch that is in doubt in a topic stays in doubt there.
        """
        queue.topic_id = topic_id
        queue.home.unknown_since_ms = None
        again = TopicRecreatedError("the topic was deleted and created again", topic=queue.topic)
        self._start_reset(queue, again)

    # -- for the shell ---------------------------------------------------------------------------------------

    def go_on_at(self, topic: TopicQueues, partition: int, sequence: int) -> None:
        """Set the sequence of the next batch of this partition. Raises InvalidArgumentError without a key and
        while a batch is unfinished there, and UnknownPartitionError."""
        key, queue = self.settings.key, topic.queue_for(None, partition)
        assert queue is not None, "a partition was named"
        if key is None:
            raise InvalidArgumentError("go_on_at() needs a producer with a key; give key=")
        if not 0 <= sequence < SEQUENCES:
            raise InvalidArgumentError(f"{sequence} is no sequence; they run from 0 to {SEQUENCES - 1}")
        if not queue.is_empty or queue.in_flight:
            raise InvalidArgumentError(
                "records of this partition are not acknowledged yet; call flush(), then go_on_at()",
                topic=queue.topic,
                partition=queue.partition,
            )
        queue.go_on_at(ProducerIdentity(key.producer_id, key.producer_epoch), sequence)

    def abandon(self, error: HightideError) -> None:
        """Fail all batches that are not done; no more are sent. Called at the end of close, and when the
        driver has failed."""
        for queue in self.queues():
            in_flight, queue.in_flight = queue.in_flight, []
            for batch in (*in_flight, *self.unsent(queue)):
                if not batch.is_done:
                    self.end(batch, -1, error)
        self._calls.clear()
