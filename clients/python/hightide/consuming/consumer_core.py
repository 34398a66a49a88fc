"""The decisions of a consumer: what to fetch now, from which broker, and what happens with the answers.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`, chance as a seeded Random. The
shell holds one lock around every method. Shells: `hightide.consumer` (threads) and `hightide.aio.consumer`.

Theory of operation. `ReadAhead` has the positions, and the fetched batches that wait for the user. Of the
assigned partitions, those whose offset is not known are looked up at their leader. The others are fetched,
all partitions of one leader in one long poll, as long as the waiting batches stay below the limit. A failure
keeps the position, asks for news of the leader and tries again. A permanent error is kept as the partition's
error, and raised.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from hightide.calls.call import Call
from hightide.calls.notice import Level, Notice
from hightide.cluster.leader_waits import LeaderWaits, TracedCore, hung_since
from hightide.cluster.metadata import (
    RETRY,
    RETRY_PAUSE_MS,
    UNKNOWN_TOPIC_PATIENCE_MS,
    ClusterMetadata,
    Leader,
    MetadataSeeker,
)
from hightide.cluster.offset_at import EARLIEST, LATEST, OffsetAt
from hightide.cluster.silent_leaders import SilentLeaders
from hightide.cluster.throttles import Throttles
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.consuming.fetch_call import FetchCall, FetchedPartition, FetchEntry
from hightide.consuming.fetch_position import FetchPosition
from hightide.consuming.list_offsets_call import LookUpCall
from hightide.consuming.read_ahead import ReadAhead
from hightide.errors import (
    AddressUnreachableError,
    DivergingLogError,
    HightideError,
    InconsistentTopicIdError,
    NoCommittedOffsetError,
    OffsetOutOfRangeError,
    PartitionOfflineError,
    RequestTimeoutError,
    UnknownPartitionError,
    UnknownTopicError,
    from_code,
)
from hightide.records import TopicPartition
from hightide.statistics import ConsumerStatistics
from hightide.v1 import errors_pb2
from hightide.v1.broker_service_pb2 import ListOffsetsRequest

_GONE: Final = (UnknownTopicError, UnknownPartitionError, InconsistentTopicIdError)

# A second long poll to a leader is allowed for partitions that were left out of the first, so that they do
# not wait.
CALLS_PER_LEADER_MAX: Final = 2
SLOW_CALL_MS: Final = 1_000
METADATA_AGE_MAX_MS: Final = 30_000


class ConsumerCore(ReadAhead, TracedCore):
    """The core of one consumer."""

    def __init__(
        self,
        settings: ConsumerSettings,
        cluster: ClusterMetadata,
        topics: Iterable[str],
        random: Random,
    ) -> None:
        super().__init__(settings)
        self.cluster = cluster
        self.notices: deque[Notice] = deque()
        self.seeker = MetadataSeeker(cluster, self.notices, "hightide.consumer")
        self._silent = SilentLeaders(self.seeker, settings.fetch_max_wait_ms + SLOW_CALL_MS, random)
        self.wake_at_ms: float | None = None
        self.cancelled: list[Call[Any]] = []
        self.callbacks: list[Callable[[], object]] = []
        self._topics = tuple(dict.fromkeys(topics))
        self._fetches: dict[FetchCall, None] = {}
        self._calls_to: dict[str, int] = {}
        self._next_refresh_ms: float | None = None
        self._missing_since_ms: dict[str, float] = {}
        self._generation = 0
        self._waits = LeaderWaits()
        self.throttles = Throttles()
        self.is_in_group = False
        self.on_gone_back: Callable[[TopicPartition, int], None] | None = None
        if self._topics:
            self.seeker.want(self._topics)

    # -- for the user ----------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Those that stay keep their position."""
        wanted = dict.fromkeys(partitions)
        self._keep_only(wanted.__contains__)
        for partition in wanted:
            self._add(partition)
        self._read_topics((), {partition.topic for partition in wanted})

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of exactly these topics. Those that stay keep their position."""
        wanted = dict.fromkeys(topics)
        self._keep_only(lambda partition: partition.topic in wanted)
        for topic in wanted:
            self._add_all(topic)
        self._read_topics(tuple(wanted), wanted)

    def _keep_only(self, is_wanted: Callable[[TopicPartition], bool]) -> None:
        for partition, position in list(self.positions.items()):
            if not is_wanted(partition) or position.error is not None:
                self._drop_position(partition)

    def _read_topics(self, whole: tuple[str, ...], topics: Iterable[str]) -> None:
        self._topics = whole
        self._missing_since_ms.clear()
        self.seeker.topics = set(topics)
        if self.seeker.topics:
            self.seeker.want()
        self.wants_poll = True

    def start(
        self, partition: TopicPartition, topic_id: bytes, offset: int | None, leader_epoch: int
    ) -> None:
        """Read a partition in addition to the others, from an offset on; with None, not before the user
        seeks. Called by groups, which may assign a partition, revoke it, and assign it again."""
        assert self.is_in_group, "the group assigns"
        position = self.positions[partition] = FetchPosition(partition, self._reset_to())
        position.topic_id = topic_id
        position.generation = self._generation
        if offset is None:
            position.error = NoCommittedOffsetError(
                'the group has committed no offset, and offset_reset is "error"',
                topic=partition.topic,
                partition=partition.partition,
            )
        else:
            position.seek(offset, leader_epoch)
        self.seeker.want([partition.topic])
        self.wants_poll = True

    def stop(self, partition: TopicPartition) -> None:
        """Stop reading a partition and drop what was fetched of it. Called by groups."""
        self._drop_position(partition)
        if not any(other.topic == partition.topic for other in self.positions):
            self.seeker.forget(partition.topic)
            self._missing_since_ms.pop(partition.topic, None)

    def _drop_position(self, partition: TopicPartition) -> None:
        position = self.let_go(partition)
        if position is not None:
            # A later start uses a generation after all those of this one, so that late answers are never
            # taken for its own.
            self._generation = max(self._generation, position.generation + 1)

    def _add(self, partition: TopicPartition) -> None:
        if partition not in self.positions:
            position = self.positions[partition] = FetchPosition(partition, self._reset_to())
            position.generation = self._generation

    def _add_all(self, topic: str) -> None:
        described = self.cluster.topics.get(topic)
        for each in described.partitions if described is not None else ():
            self._add(TopicPartition(topic, each.partition))

    def _reset_to(self) -> OffsetAt:
        return LATEST if self.settings.offset_reset == "latest" else EARLIEST

    @property
    def is_assigned(self) -> bool:
        """Whether the partitions to read are known."""
        return not self._topics or all(topic in self.cluster.topics for topic in self._topics)

    def raise_errors(self, now_ms: float) -> None:
        """Raise errors that are permanent, or have lasted for the whole budget."""
        budget_ms = self.settings.unavailable_timeout_ms
        since = self.seeker.failing_since_ms
        refusal = self.seeker.refusal()
        if refusal is not None:
            raise refusal
        if since is not None and now_ms - since >= budget_ms:
            raise self.seeker.unavailable(budget_ms)
        if self.is_in_group:
            self._raise_group_errors(now_ms)
            return
        for topic, missing_since in self._missing_since_ms.items():
            # An error to an earlier request says nothing, however long its answer waited here.
            if self.seeker.asked_at_ms - missing_since >= UNKNOWN_TOPIC_PATIENCE_MS:
                raise UnknownTopicError(f"topic {topic} does not exist, or was deleted")
        for position in self.positions.values():
            if position.error is not None:
                raise position.error
            failing = position.failing_since_ms
            if position.last_error is not None and failing is not None and now_ms - failing >= budget_ms:
                raise position.last_error

    def _raise_group_errors(self, now_ms: float) -> None:
        """Ignore a topic or partition that is gone, which is no error in a group, since its coordinator takes
        it away; raise the other errors."""
        for position in self.positions.values():
            if isinstance(position.error or position.last_error, _GONE):
                continue
            if position.error is not None:
                raise position.error
            failing, budget_ms = position.failing_since_ms, self.settings.unavailable_timeout_ms
            if position.last_error is not None and failing is not None and now_ms - failing >= budget_ms:
                raise position.last_error

    def statistics(self) -> ConsumerStatistics:
        """The state, for on_statistics; the driver adds the brokers."""
        return self.read_so_far(self.throttles.total_ms)

    # -- what to do now --------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> list[Call[Any]]:
        """The calls to make now. Sets `wake_at_ms`: when to ask again if nothing else happens."""
        self.wake_at_ms = None
        self.wants_poll = False
        self._refresh_when_old(now_ms)
        fetches: dict[str, list[tuple[FetchPosition, Leader]]] = {}
        look_ups: dict[str, list[tuple[FetchPosition, Leader]]] = {}
        full_hands = self.full_hands()
        for position in self.positions.values():
            if position.is_under_way or position.error is not None or self.is_full(position):
                continue
            if position.is_held and position.fetch_offset is not None:
                continue
            if now_ms < position.blocked_until_ms:
                self._wake_by(position.blocked_until_ms)
                continue
            leader = self._leader_for(position, now_ms)
            if leader is None:
                continue
            if position.fetch_offset is None:
                look_ups.setdefault(leader.address, []).append((position, leader))
            elif position.hand not in full_hands:
                fetches.setdefault(leader.address, []).append((position, leader))
        calls: list[Call[Any]] = [self._look_up(address, each) for address, each in look_ups.items()]
        for address, each in fetches.items():
            until_ms = self.throttles.until_ms(address, now_ms)
            if until_ms is not None:
                self._wake_by(until_ms)
            elif self._calls_to.get(address, 0) < CALLS_PER_LEADER_MAX:
                calls.append(self._fetch(address, each))
        for call in calls:
            call.started_ms = now_ms
        self._silent.poll(self._fetches, now_ms)
        self._waits.poll(self.cluster, self.seeker, now_ms)
        metadata = self.seeker.poll(now_ms)
        if metadata is not None:
            metadata.started_ms = now_ms
            calls.append(metadata)
        for wake_at_ms in (self.seeker.wake_at_ms, self._silent.wake_at_ms, self._waits.wake_at_ms):
            if wake_at_ms is not None:
                self._wake_by(wake_at_ms)
        return calls

    def _wake_by(self, at_ms: float) -> None:
        if self.wake_at_ms is None or at_ms < self.wake_at_ms:
            self.wake_at_ms = at_ms

    def _refresh_when_old(self, now_ms: float) -> None:
        """Ask for metadata now and then, to notice new partitions of a topic."""
        if self._next_refresh_ms is None:
            self._next_refresh_ms = now_ms + METADATA_AGE_MAX_MS
        elif now_ms >= self._next_refresh_ms:
            self._next_refresh_ms = now_ms + METADATA_AGE_MAX_MS
            self.seeker.want()
        self._wake_by(self._next_refresh_ms)

    def _leader_for(self, position: FetchPosition, now_ms: float) -> Leader | None:
        topic, number = position.partition.topic, position.partition.partition
        described = self.cluster.topics.get(topic)
        if self.is_in_group and described is not None and not position.is_in(described):
            # The coordinator knows of a newer partition, or topic, than the broker that was asked.
            self._block(position, now_ms)
            self.seeker.want_again([topic], now_ms=now_ms)
            return None
        if described is not None and number >= len(described.partitions):
            # The topic may have got it a moment ago.
            if position.absent_since_ms is None:
                position.absent_since_ms = now_ms
            if self.seeker.asked_at_ms - position.absent_since_ms >= UNKNOWN_TOPIC_PATIENCE_MS:
                position.error = UnknownPartitionError(
                    f"topic {topic} has the partitions 0 to {len(described.partitions) - 1}, not {number}"
                )
                return None
            self._block(position, now_ms)
            self.seeker.want_again([topic], now_ms=now_ms)
            return None
        position.absent_since_ms = None
        leader = self.cluster.leader_of(topic, number)
        if described is None or leader is None:
            if described is not None:
                offline = PartitionOfflineError(
                    "the partition has no leader that can be reached", topic=topic, partition=number
                )
                position.failed(offline, now_ms)
                self._waits.failed(position.partition, position.tried_epoch, now_ms)
            self._block(position, now_ms)
            self.seeker.want_again([topic], now_ms=now_ms)
            return None
        if not position.topic_id:
            position.topic_id = described.topic_id
        return leader

    def _block(self, position: FetchPosition, now_ms: float) -> None:
        position.blocked_until_ms = now_ms + RETRY.pause_ms(position.attempts)
        self._wake_by(position.blocked_until_ms)

    def _entry(self, position: FetchPosition, leader: Leader) -> FetchEntry:
        position.is_under_way = True
        position.tried_epoch = leader.leader_epoch
        return FetchEntry(
            position.partition,
            position.topic_id,
            leader.leader_epoch,
            -1 if position.fetch_offset is None else position.fetch_offset,
            position.generation,
            None if position.fetch_offset is None else position.epochs.before(position.fetch_offset),
        )

    def _look_up(self, address: str, positions: list[tuple[FetchPosition, Leader]]) -> LookUpCall:
        entries = tuple(self._entry(position, leader) for position, leader in positions)
        request = ListOffsetsRequest(
            partitions=[
                (LATEST if position.is_end_asked_first else position.look_up).for_partition(
                    position.topic_id, position.partition.partition, leader.leader_epoch
                )
                for position, leader in positions
            ]
        )
        return LookUpCall(address, min(5_000, self.settings.request_timeout_ms), entries, request)

    def _fetch(self, address: str, positions: list[tuple[FetchPosition, Leader]]) -> FetchCall:
        # The partitions with the fewest waiting records come first: a broker fills an answer in the order of
        # the request.
        positions.sort(key=lambda each: each[0].buffered_bytes)
        entries = tuple(self._entry(position, leader) for position, leader in positions)
        settings = self.settings
        call = FetchCall(
            address,
            settings.fetch_max_wait_ms + settings.request_timeout_ms,
            entries,
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            check_crcs=settings.check_crcs,
        )
        self._fetches[call] = None
        self._calls_to[address] = self._calls_to.get(address, 0) + 1
        return call

    def _cancel_moved(self, call: FetchCall) -> None:
        for entry in call.entries:
            leader = self.cluster.leader_of(entry.partition.topic, entry.partition.partition)
            has_moved = leader is not None and leader.leader_epoch > entry.leader_epoch
            if has_moved and leader is not None and leader.address != call.address and not call.is_cancelled:
                call.is_cancelled = True
                self.cancelled.append(call)

    # -- outcomes --------------------------------------------------------------------------------------------

    def unfinished(self) -> tuple[()]:
        """Nothing: a consumer may end at any time."""
        return ()

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        """Handle the end of a call: `outcome` is its decoded answer or a HightideError."""
        if isinstance(call, FetchCall):
            self._fetches.pop(call, None)
            self._calls_to[call.address] -= 1
            self.throttles.answered(call, outcome, now_ms)
            self._each(call, call.entries, outcome, now_ms, self._fetched)
        elif isinstance(call, LookUpCall):
            results = outcome if isinstance(outcome, HightideError) else outcome.partitions
            self._each(call, call.entries, results, now_ms, self._looked_up)
        elif isinstance(outcome, HightideError):
            self.seeker.failed(call, outcome, now_ms)
        else:
            self.seeker.answered(call, outcome, now_ms)
            self._metadata_changed(now_ms)

    def _each(
        self,
        call: Call[Any],
        entries: tuple[FetchEntry, ...],
        outcome: Any,
        now_ms: float,
        take: Callable[[FetchPosition, Any, Call[Any], float], None],
    ) -> None:
        if isinstance(outcome, AddressUnreachableError | RequestTimeoutError):
            self.seeker.suspect(call.address)
        for at, entry in enumerate(entries):
            position = self.positions.get(entry.partition)
            if position is None or position.generation != entry.generation:
                continue
            position.is_under_way = False
            if isinstance(outcome, HightideError):
                since_ms = hung_since(call, outcome)
                if since_ms is not None and isinstance(call, FetchCall) and not _is_owed_records(position):
                    # Until then a leader may stay silent because there are no records.
                    since_ms = min(since_ms + self.settings.fetch_max_wait_ms, now_ms)
                self._failed(position, outcome, now_ms, since_ms=since_ms)
            elif at >= len(outcome):
                short = RequestTimeoutError(
                    "the answer lacks a partition that was asked for", address=call.address
                )
                self._failed(position, short, now_ms)
            else:
                take(position, outcome[at], call, now_ms)

    def _fetched(
        self, position: FetchPosition, fetched: FetchedPartition, call: Call[Any], now_ms: float
    ) -> None:
        if isinstance(fetched.error, DivergingLogError):
            self._diverged(position, fetched, fetched.error)
            return
        if fetched.error is not None:
            named = fetched.current_leader_epoch > 0 or fetched.current_leader > 0
            is_news = named and self.cluster.note_leader(
                position.partition.topic,
                position.partition.partition,
                fetched.current_leader,
                fetched.current_leader_epoch,
            )
            if isinstance(fetched.error, OffsetOutOfRangeError):
                self._out_of_range(position, fetched, fetched.error, call.address, now_ms)
            else:
                self._failed(position, fetched.error, now_ms)
            if is_news:
                position.blocked_until_ms = now_ms
            return
        if position.parted_from is not None and not self._goes_back(position):
            return
        if self._waits.waiting:
            # A long poll that brought no records, or only ones that were written meanwhile, waited for
            # records.
            is_behind = position.high_watermark < 0 or _is_owed_records(position)
            taken_ms = now_ms if fetched.batches and is_behind else call.started_ms
            self._waits.went_through(position.partition, position.tried_epoch, taken_ms)
        position.worked()
        position.high_watermark = fetched.high_watermark
        position.log_start_offset = fetched.log_start_offset
        self.queue(position.take_over(fetched.batches))

    def _diverged(self, position: FetchPosition, fetched: FetchedPartition, error: DivergingLogError) -> None:
        """Ask again from where both logs may agree: the leader's log lacks records that were fetched
        (KIP-320)."""
        if position.fetch_offset is None or position.epochs.before(position.fetch_offset) is None:
            position.error = error  # The leader was asked nothing that it could say this to.
            return
        self.drop(position.partition)
        if not position.part(fetched.diverging_end_offset, fetched.diverging_epoch, fetched.log_start_offset):
            text = f"{error}; nothing of it was handed out, offset {position.fetch_offset} is next"
            self.notices.append(Notice("hightide.consumer", Level.INFO, text))
        self.wants_poll = True

    def _goes_back(self, position: FetchPosition) -> bool:
        """Go back to the offset, known by now, at which the log differs from the returned records, or raise
        that."""
        assert position.parted_from is not None, "something was lost"
        last = position.parted_from - 1
        position.parted_from = None
        lost = (
            f"records from offset {position.fetch_offset} to {last}, which were read, are lost: the log of "
            "the leader parts from them"
        )
        if self.settings.offset_reset != "error":
            text = f"{position.partition}: {lost}; going back to offset {position.fetch_offset}"
            self.notices.append(Notice("hightide.consumer", Level.WARNING, text))
            if self.on_gone_back is not None and position.fetch_offset is not None:
                self.on_gone_back(position.partition, position.fetch_offset)
            return True
        position.error = DivergingLogError(
            lost,
            topic=position.partition.topic,
            partition=position.partition.partition,
            metadata={"diverging_end_offset": str(position.fetch_offset)},
        )
        return False

    def _looked_up(self, position: FetchPosition, result: Any, call: Call[Any], now_ms: float) -> None:
        if result.error_code != errors_pb2.ERROR_CODE_UNSPECIFIED:
            error = from_code(
                result.error_code,
                result.error_message,
                topic=position.partition.topic,
                partition=position.partition.partition,
                address=call.address,
            )
            self._failed(position, error, now_ms)
        elif position.is_end_asked_first:
            position.worked()
            position.end_offset = result.offset
            self.wants_poll = True
        else:
            # No record is as late as the wanted time: go on at the end.
            offset = position.end_offset if result.offset < 0 else result.offset
            assert offset is not None, "the end was asked for before the time"
            fell_from, position.fell_from = position.fell_from, None
            position.found(offset)
            if fell_from is not None and offset < fell_from and self.on_gone_back is not None:
                self.on_gone_back(position.partition, offset)

    def _failed(
        self, position: FetchPosition, error: HightideError, now_ms: float, *, since_ms: float | None = None
    ) -> None:
        position.failed(error, now_ms)
        position.loss.clear()
        if error.retriable or error.refresh_metadata:
            self._waits.failed(position.partition, position.tried_epoch, now_ms, since_ms=since_ms)
        match error:
            case InconsistentTopicIdError() if not self.is_in_group:
                position.error = error
            case UnknownTopicError() | UnknownPartitionError() | InconsistentTopicIdError():
                # The broker may not have heard of it yet; metadata will tell whether it is gone.
                self._missing_since_ms.setdefault(position.partition.topic, now_ms)
                self._block(position, now_ms)
                self.seeker.want()
            case _ if error.retriable:
                self._block(position, now_ms)
                if error.refresh_metadata:
                    self.seeker.want()
            case _:
                position.error = error

    def _out_of_range(
        self,
        position: FetchPosition,
        fetched: FetchedPartition,
        error: OffsetOutOfRangeError,
        address: str,
        now_ms: float,
    ) -> None:
        """Handle an offset that is out of range. Deleted records stay deleted, whichever broker says so. But
        a leader may not have heard of offsets beyond its log end: it is asked again first
        (`hightide.consuming.loss_patience`)."""
        assert position.fetch_offset is not None, "it was fetched"
        position.failed(error, now_ms)
        is_deleted = position.fetch_offset < fetched.log_start_offset
        if not is_deleted and not position.loss.is_certain(error, self.cluster, now_ms, told_by=address):
            self._block(position, now_ms)
            self.seeker.want()
            return
        if self.settings.offset_reset == "error":
            position.error = error
            return
        text = (
            f"{position.partition}: offset {position.fetch_offset} is out of range (retention has passed it, "
            f"or it was never written); going on at the {self.settings.offset_reset} offset, "
            "as offset_reset says"
        )
        self.notices.append(Notice("hightide.consumer", Level.WARNING, text))
        fell_from = position.fetch_offset
        position.reset(self._reset_to())
        position.fell_from = fell_from

    def _metadata_changed(self, now_ms: float) -> None:
        interest = {*self._topics, *(partition.topic for partition in self.positions)}
        for topic in interest:
            if topic in self.cluster.missing:
                self._missing_since_ms.setdefault(topic, now_ms)
                self.seeker.want(not_before_ms=now_ms + 5 * RETRY_PAUSE_MS)
            else:
                self._missing_since_ms.pop(topic, None)
        for topic in self._topics:
            self._add_all(topic)
        for position in self.positions.values():
            self._notice(position, now_ms)
        for call in self._fetches:
            self._cancel_moved(call)

    def _notice(self, position: FetchPosition, now_ms: float) -> None:
        topic, number = position.partition.topic, position.partition.partition
        described = self.cluster.topics.get(topic)
        if described is None:
            return
        if position.topic_id and described.topic_id != position.topic_id and not self.is_in_group:
            position.error = UnknownTopicError(
                f"topic {topic} was deleted and created again while it was read; assign it anew", topic=topic
            )
        leader = self.cluster.leader_of(topic, number)
        if leader is None:
            self.seeker.want_again(now_ms=now_ms)
        elif leader.leader_epoch > position.tried_epoch:
            position.blocked_until_ms = now_ms


def _is_owed_records(position: FetchPosition) -> bool:
    """Whether records are known to exist that were not fetched, so that a leader answers at once."""
    return position.fetch_offset is not None and position.fetch_offset < position.high_watermark
