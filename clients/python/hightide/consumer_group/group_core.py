"""A consumer in a group as its driver sees it: the `Membership` and the `ConsumerCore` as one core, and the
commits that positions need between two Pings."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, Final

from hightide.argument_checks import checked_offset
from hightide.calls.call import Call, MessageCall, Method
from hightide.cluster.leader_waits import Fact
from hightide.cluster.metadata import UNKNOWN_TOPIC_PATIENCE_MS
from hightide.consumer_group.hand import Hand
from hightide.consumer_group.membership import Membership
from hightide.consumer_group.membership_state import MembershipState
from hightide.consumer_group.ownership import Ownership
from hightide.consumer_group.pending_commits import CommitCall, CommitCallback, PendingCommits
from hightide.consumer_group.settings import GroupSettings
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.errors import HightideError, InvalidArgumentError, UnknownMemberError, UnknownTopicError
from hightide.records import AnyRecord, DeserializedRecord, Record, TopicPartition
from hightide.statistics import ConsumerStatistics, GroupStatistics
from hightide.v1.coordinator_service_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    ConsumedPosition,
    OffsetCommit,
)

__all__ = ["GroupCore", "IntervalCommit"]


RESET_PAUSE_MS: Final = 1_000
#: How long leaving waits for a commit that takes positions back, as a part of the time that closing may take.
GOING_BACK_TIMEOUT_MS: Final = 2_500


class IntervalCommit(MessageCall[CommitOffsetsResponse]):
    """A CommitOffsets call of settled positions that need not wait for a Ping, or may not be part of one."""

    __slots__ = ("commits", "partitions", "seek_count")

    def __init__(self, address: str, timeout_ms: int, request: CommitOffsetsRequest, seek_count: int) -> None:
        super().__init__(address, Method.COMMIT_OFFSETS, timeout_ms, request, CommitOffsetsResponse)
        self.seek_count = seek_count
        self.commits = list(request.offsets)
        self.partitions = [TopicPartition(each.topic, each.partition) for each in request.offsets]


class GroupCore:
    """The core of one consumer in a group."""

    def __init__(
        self,
        settings: GroupSettings,
        consumer: ConsumerCore,
        in_delivery: RecordsInDelivery,
        random: Random,
        *,
        tells_revoked: bool,
    ) -> None:
        self.consumer = consumer
        self.ownership = Ownership(consumer, in_delivery, tells_revoked=tells_revoked)
        self.notices = consumer.notices
        self._unknown_since_ms: dict[str, float] = {}
        if settings.is_subscribed:
            consumer.seeker.want(settings.topics)
        self.membership = Membership(settings, self.ownership, consumer.seeker, random, self.notices)
        self.commit_sequences = count(1)
        """The numbers of the commits, in the order in which they are sent: an earlier one may still be on its
        way when nobody waits for its answer any more, and must not undo a seek that overtakes it there."""
        self.pending_commits = PendingCommits(settings.group, self.ownership.committed, self.commit_sequences)
        self.wake_at_ms: float | None = None
        self.cancelled: list[Call[Any]] = []
        self.callbacks: list[Callable[[], object]] = []
        self._commit: IntervalCommit | None = None
        self._next_commit_ms: float | None = None
        self._gone_back: set[TopicPartition] = set()
        self._next_reset_ms = 0.0
        self._leaves_by_ms: float | None = None
        """Until then, leaving waits for the commit that the goodbye cannot carry."""
        consumer.on_gone_back = self._went_back

    @property
    def settings(self) -> GroupSettings:
        """The settings, with what the consumer subscribes to now."""
        return self.membership.settings

    def subscribe(self, settings: GroupSettings, now_ms: float) -> None:
        """Subscribe to what these settings say, and to nothing else."""
        seeker = self.consumer.seeker
        for topic in set(self.settings.topics).difference(settings.topics):
            if not any(each.topic == topic for each in self.consumer.positions):
                seeker.forget(topic)
        self._unknown_since_ms.clear()
        self._leaves_by_ms = None
        seeker.want(settings.topics)
        self.membership.subscribe(settings, now_ms)
        self.ownership.narrow(settings.topics or None)

    def statistics(self) -> ConsumerStatistics:
        """The state, for on_statistics; the driver adds the brokers."""
        membership = self.membership
        group = GroupStatistics(
            group=self.settings.group,
            state=membership.state.name.lower(),
            member_id=membership.member_id,
            consumer_id=membership.consumer_id,
            generation=membership.generation,
            coordinator=membership.coordinator_address,
        )
        return replace(self.consumer.statistics(), group=group)

    def left(self) -> None:
        """Own nothing any more. Called after `leave`, once the goodbye is said or the time is up."""
        self._leaves_by_ms = None
        self.membership.left()
        self.ownership.lose_all()
        for topic in self.settings.topics:
            self.consumer.seeker.forget(topic)
        self._unknown_since_ms.clear()

    def has_news(self, hand: Hand | None = None) -> bool:
        """Whether a user, the only one unless it is named, has to be told something before more records are
        returned. The outcome of a commit is for whoever comes first."""
        return self.ownership.has_event_for(hand or self.ownership.hands[0]) or (
            self.pending_commits.has_outcome
        )

    def poll(self, now_ms: float) -> list[Call[Any]]:
        """The calls to make now."""
        if self._leaves_by_ms is not None and (not self._is_committing() or now_ms >= self._leaves_by_ms):
            self._leaves_by_ms = None
            self.membership.leave(now_ms)
        calls = self.membership.poll(now_ms)
        calls += self._pending_commit(now_ms)
        commit = self._reset_commit(now_ms) or self._interval_commit(now_ms)
        if commit is not None:
            calls.append(commit)
        calls += self.consumer.poll(now_ms)
        wakes = [self.membership.wake_at_ms, self.consumer.wake_at_ms, self.pending_commits.wake_at_ms]
        if self._commit is None and self.membership.state is MembershipState.MEMBER:
            wakes.append(self._next_commit_ms)
            is_blocked = self.pending_commits.is_sending(self._gone_back)
            wakes.append(self._next_reset_ms if self._gone_back and not is_blocked else None)
        wakes.append(self._leaves_by_ms)
        self.wake_at_ms = min((wake for wake in wakes if wake is not None), default=None)
        self.cancelled += self.membership.cancelled + self.consumer.cancelled
        self.membership.cancelled, self.consumer.cancelled = [], []
        return calls

    def be_traced(self) -> None:
        """Note what waits for leader changes, and the orders of the coordinator."""
        self.consumer.be_traced()
        self.membership.is_traced = True

    def facts(self, *, is_last: bool = False) -> list[Fact]:
        """The facts that spans are made of, since the last call."""
        orders, self.membership.facts = self.membership.facts, []
        return [*orders, *self.consumer.facts(is_last=is_last)]

    def unfinished(self) -> tuple[()]:
        """Nothing: to its group, a member that nobody closed is one that died."""
        return ()

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        """Handle the outcome of a call, or a message on the stream."""
        if call.method is Method.REGISTER_CONSUMER:
            self.membership.completed(call, outcome, now_ms)
        elif isinstance(call, IntervalCommit):
            self._committed(call, outcome)
        elif isinstance(call, CommitCall):
            self.pending_commits.completed(call, outcome, now_ms)
        else:
            self.consumer.completed(call, outcome, now_ms)
            self._look_for_topics(now_ms)

    def _look_for_topics(self, now_ms: float) -> None:
        """Ask again for topics that no broker has told this consumer of. A topic that was there before is
        left to the coordinator, which knows when it comes back."""
        cluster = self.consumer.cluster
        unknown = [topic for topic in self.settings.topics if topic not in cluster.topics]
        self._unknown_since_ms = {
            topic: self._unknown_since_ms.get(topic, now_ms) for topic in unknown if topic in cluster.missing
        }
        if unknown:
            self.consumer.seeker.want_again(unknown, now_ms=now_ms)

    def raise_errors(self, now_ms: float) -> None:
        """Raise the coordinator's refusal of this consumer, or that none was found within the budget, or that
        a topic does not exist."""
        self.membership.raise_errors(now_ms)
        for topic, since_ms in self._unknown_since_ms.items():
            # An error to an earlier request says nothing, however long its answer waited here.
            if self.consumer.seeker.asked_at_ms - since_ms >= UNKNOWN_TOPIC_PATIENCE_MS:
                raise UnknownTopicError(f"topic {topic} of group {self.settings.group} does not exist")

    def leave(self, now_ms: float) -> None:
        """Leave the group with the final positions: with the next poll, or as soon as the commits are done
        that have to come first. Called after the user's callbacks have run."""
        self._leaves_by_ms = now_ms + GOING_BACK_TIMEOUT_MS

    def _is_committing(self) -> bool:
        """Whether commits have to come before the goodbye: of a member, whose generations they name."""
        is_member = self.membership.state is not MembershipState.OUTSIDE
        return self._is_going_back() or (is_member and self.pending_commits.is_busy)

    def _is_going_back(self) -> bool:
        """Whether a goodbye would leave out a position, since a lower offset has to be committed first."""
        is_member = self.membership.state is MembershipState.MEMBER
        owned = self.ownership.owned
        return is_member and any(each in owned and owned[each].is_reset for each in self._gone_back)

    @property
    def has_left(self) -> bool:
        """Whether the membership is over."""
        return self.membership.state in (MembershipState.OUTSIDE, MembershipState.REFUSED)

    def came_back(self, now_ms: float, hand: Hand | None = None) -> None:
        """Note that a user, the only one unless it is named, is back in one of the consumer's methods."""
        if self.membership.is_suspended(now_ms):
            self.ownership.interrupt()
        self.ownership.came_back(hand)

    def take(self, now_ms: float, hand: Hand | None = None) -> FetchedBatch | None:
        """The next chunk for a user, or None if no records may be returned now."""
        if self.membership.is_suspended(now_ms):
            return None
        chunk = self.consumer.next_chunk(None if hand is None else hand.number)
        if chunk is not None:
            self.ownership.took(chunk.partition, hand)
        return chunk

    def commits(
        self, offsets: Mapping[TopicPartition, int] | AnyRecord | None, metadata: str
    ) -> list[OffsetCommit]:
        """The commits of the user: of these offsets, or of the one after this record, which say nothing about
        other records that the user has; or of all that the user has reached. Raises NotAssignedError,
        InvalidArgumentError."""
        if offsets is None and self.ownership.is_divided:
            raise InvalidArgumentError(
                "other streams of this consumer have records in hand: call commit() of each stream, or "
                "commit a record or offsets"
            )
        if offsets is None:
            return self.commits_of(self.ownership.hands[0], metadata)
        wanted: Mapping[TopicPartition, int]
        if isinstance(offsets, Record | DeserializedRecord):
            wanted = {TopicPartition(offsets.topic, offsets.partition): offsets.offset + 1}
        elif isinstance(offsets, Mapping):
            wanted = offsets
        else:
            raise InvalidArgumentError(
                f"commit a record, or a mapping of partitions to offsets, not {type(offsets).__name__}"
            )
        checked = {each: checked_offset(each, offset) for each, offset in wanted.items()}
        return [self.ownership.commit_of(each, offset, metadata) for each, offset in checked.items()]

    def commits_of(self, hand: Hand, metadata: str) -> list[OffsetCommit]:
        """The commits of all that was returned to this user, who is back with the records."""
        self.ownership.came_back(hand)
        reached = self.ownership.uncommitted(hand).items()
        return [self.ownership.commit_of(partition, offset, metadata) for partition, offset in reached]

    def commit_later(
        self, commits: list[OffsetCommit], callback: CommitCallback | None, now_ms: float
    ) -> None:
        """Commit these offsets while the user goes on. Raises InvalidArgumentError,
        CoordinatorUnavailableError if too many commits wait."""
        deadline_ms = now_ms + self.settings.unavailable_timeout_ms
        self.pending_commits.add(commits, callback, deadline_ms, self.ownership.seek_count)

    def commit_now(self, commits: list[OffsetCommit]) -> int:
        """Note that a user waits for these commits, which were just made, until `committed`. Returns how
        often the user has sought."""
        self.pending_commits.hold(commits)
        return self.ownership.seek_count

    def has_to_wait(self, commits: list[OffsetCommit]) -> bool:
        """Whether a call under way commits what was before a seek among these. It may not have been sent yet:
        behind the seek, the coordinator would take it for what came after. It ends within its timeout."""
        sought = {TopicPartition(each.topic, each.partition) for each in commits if each.reset}
        by_interval = () if self._commit is None else self._commit.partitions
        return not sought.isdisjoint(by_interval) or self.pending_commits.is_sending(sought)

    def committed(self, commits: list[OffsetCommit], durable: list[OffsetCommit], seek_count: int) -> None:
        """Note that a user waits for these commits no longer, and which of them are durable. `seek_count` is
        what `commit_now` returned."""
        self.ownership.committed(durable, seek_count)
        self.pending_commits.overtaken_by(durable)
        self.pending_commits.release(commits)
        # What could not be committed is tried again, as long as the user does not commit it.
        self._gone_back |= {TopicPartition(each.topic, each.partition) for each in commits if each.reset}

    def _pending_commit(self, now_ms: float) -> list[Call[Any]]:
        """The user's next commit that waits. Without membership there is nothing that it could name."""
        membership = self.membership
        if membership.state in (MembershipState.OUTSIDE, MembershipState.REFUSED):
            left = f"the consumer was no member of group {self.settings.group} any more when it was to commit"
            self.pending_commits.give_up(UnknownMemberError(left))
        is_member = membership.state is MembershipState.MEMBER
        address = membership.coordinator_address if is_member else None
        call = self.pending_commits.poll(membership.member_id, address, now_ms)
        return [] if call is None else [call]

    def sought(self, partition: TopicPartition, offset: int | None) -> None:
        """Note that the user has sought: an offset, which the caller commits with auto_commit; None, one that
        is looked up first. If the caller never learns it, it is committed when the user has read on."""
        self.ownership.sought(partition, offset)
        if offset is None:
            self._gone_back.add(partition)
        else:
            self._gone_back.discard(partition)

    def _went_back(self, partition: TopicPartition, offset: int) -> None:
        """Take back what this consumer has committed beyond this offset, because the records that it had read
        there are lost."""
        self.ownership.sought(partition, offset)
        # The user may still have records that are lost; the rest of them is not returned.
        self.ownership.interrupt()
        self._gone_back.add(partition)

    def _reset_commit(self, now_ms: float) -> IntervalCommit | None:
        """Commit the offset to which this consumer went back because a log lost records, or because the user
        sought, which could not be committed then. With explicit commits, the user's next commit does it."""
        membership, ownership = self.membership, self.ownership
        self._gone_back = {
            each
            for each in self._gone_back
            if each in ownership.owned and ownership.owned[each].is_reset and self.settings.auto_commit
        }
        is_possible = membership.state is MembershipState.MEMBER and self._commit is None
        if not self._gone_back or not is_possible or now_ms < self._next_reset_ms:
            return None
        if membership.coordinator_address is None or self.pending_commits.is_sending(self._gone_back):
            return None
        self._next_reset_ms = now_ms + RESET_PAUSE_MS
        settled = {each: ownership.settled_offset(each) for each in self._gone_back}
        commits = [
            ownership.commit_of(each, offset, "") for each, offset in settled.items() if offset is not None
        ]
        if not commits:
            return None  # Nothing was read since, of where the user wanted to go.
        request = CommitOffsetsRequest(
            group=self.settings.group,
            member_id=membership.member_id,
            offsets=commits,
            sequence=next(self.commit_sequences),
        )
        self.pending_commits.hold(commits)
        self._commit = IntervalCommit(membership.coordinator_address, 5_000, request, ownership.seek_count)
        return self._commit

    def _interval_commit(self, now_ms: float) -> IntervalCommit | None:
        """Commit settled positions, if Pings are rarer than the user wants commits."""
        membership = self.membership
        interval_ms = self.settings.commit_interval_ms
        if not self.settings.auto_commit or interval_ms >= membership.ping_interval_ms:
            self._next_commit_ms = None
            return None
        if membership.state is not MembershipState.MEMBER or self._commit is not None:
            return None
        if self._next_commit_ms is None or now_ms < self._next_commit_ms:
            self._next_commit_ms = self._next_commit_ms or now_ms + interval_ms
            return None
        self._next_commit_ms = now_ms + interval_ms
        positions = self.ownership.positions(self.ownership.owned, are_told=False)
        if not positions or membership.coordinator_address is None:
            return None
        request = CommitOffsetsRequest(
            group=self.settings.group,
            member_id=membership.member_id,
            offsets=[_commit(position) for position in positions],
            sequence=next(self.commit_sequences),
        )
        seek_count = self.ownership.seek_count
        self._commit = IntervalCommit(membership.coordinator_address, 5_000, request, seek_count)
        return self._commit

    def _committed(self, call: IntervalCommit, outcome: CommitOffsetsResponse | HightideError) -> None:
        """Handle the outcome of a commit. Its positions are told when it has succeeded, and not before: a
        goodbye, or the answer to an order to stop, may overtake it, and it would be refused. Positions that
        did not arrive go with the next Ping; the stream will carry the reason."""
        self._commit = None
        self.pending_commits.release(call.commits)
        results = () if isinstance(outcome, HightideError) else outcome.offsets
        for at, partition in enumerate(call.partitions):
            owned = self.ownership.owned.get(partition)
            if owned is None:
                continue
            commit = call.commits[at]
            if at >= len(results) or results[at].error_code:
                owned.told = -1
            elif commit.reset:
                self.ownership.committed([commit], call.seek_count)
                if owned.seek <= call.seek_count:
                    self.pending_commits.overtaken_by([commit], before_seek=owned.seek)
            elif owned.generation == commit.generation and owned.seek <= call.seek_count:
                owned.told = max(owned.told, commit.offset)


def _commit(position: ConsumedPosition) -> OffsetCommit:
    return OffsetCommit(
        topic=position.topic,
        partition=position.partition,
        generation=position.generation,
        offset=position.offset,
        leader_epoch=position.leader_epoch,
    )
