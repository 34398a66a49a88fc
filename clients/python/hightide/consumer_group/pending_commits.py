"""The commits for which the user does not wait: sent in order, one at a time, and reported when the user is
back.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`.

Theory of operation. A commit names the generations in which its partitions were owned when it was made, so
that it is refused if one has moved since, however late it is sent. While no coordinator is known, and after a
failure that may pass, it waits and is sent again until its time is up. It ends with an outcome, which the
shell takes when the user is back in one of the consumer's methods: it calls the user's callback, or without
one raises the error.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from hightide.calls.backoff import Backoff
from hightide.calls.call import MessageCall, Method
from hightide.consumer_group.operations import error_of
from hightide.errors import CoordinatorUnavailableError, HightideError, InvalidArgumentError
from hightide.records import TopicPartition
from hightide.v1.coordinator_service_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    OffsetCommit,
    OffsetCommitResult,
)

#: Called with offsets that are durable, and how often the user had sought when they were committed.
Committed = Callable[[Iterable[OffsetCommit], int], None]
#: Called with the offsets that were written, and the first error, if any; on the side of the user, inside of
#: poll(), an iteration or close().
CommitCallback = Callable[[Mapping[TopicPartition, int], HightideError | None], object]

PENDING_MAX: Final = 1_000
"""How many commits may wait for the coordinator, or for the user to be told of them."""
OFFSETS_MAX: Final = 10_000
"""How many offsets one commit may have (coordinator_service.proto)."""
TIMEOUT_MS: Final = 5_000
RETRY: Final = Backoff(initial_ms=20, maximum_ms=500, jitter=0.0)


class CommitCall(MessageCall[CommitOffsetsResponse]):
    """The CommitOffsets call of one pending commit."""

    __slots__ = ("offsets",)

    def __init__(self, address: str, request: CommitOffsetsRequest) -> None:
        super().__init__(address, Method.COMMIT_OFFSETS, TIMEOUT_MS, request, CommitOffsetsResponse)
        self.offsets = tuple(request.offsets)


@dataclass(slots=True)
class PendingCommit:
    """One commit that has no outcome yet."""

    offsets: list[OffsetCommit]
    callback: CommitCallback | None
    deadline_ms: float
    seek_count: int
    attempts: int = 0
    last_error: HightideError | None = None


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The outcome of one commit: the offsets that are durable now, and the first error, if any."""

    written: Mapping[TopicPartition, int]
    error: HightideError | None
    callback: CommitCallback | None


class PendingCommits:
    """The commits of one member that are not done, in order, and the outcomes that the user has not been told
    of. `committed` is told which offsets are durable. `sequences` number all requests of the member."""

    def __init__(self, group: str, committed: Committed, sequences: Iterator[int]) -> None:
        self.wake_at_ms: float | None = None
        self._group = group
        self._committed = committed
        self._sequences = sequences
        self._waiting: deque[PendingCommit] = deque()
        self._call: CommitCall | None = None
        self._retry_at_ms = 0.0
        self._outcomes: deque[CommitOutcome] = deque()
        self._held: Counter[TopicPartition] = Counter()

    def add(
        self,
        offsets: list[OffsetCommit],
        callback: CommitCallback | None,
        deadline_ms: float,
        seek_count: int,
    ) -> None:
        """Take a commit, which is sent or has failed by its deadline. Raises InvalidArgumentError,
        CoordinatorUnavailableError if too many wait."""
        if len(offsets) > OFFSETS_MAX:
            raise InvalidArgumentError(
                f"{len(offsets)} offsets are more than the {OFFSETS_MAX} of one commit; commit fewer of them"
            )
        if len(self._waiting) + len(self._outcomes) >= PENDING_MAX:
            raise CoordinatorUnavailableError(
                f"{PENDING_MAX} commits of group {self._group} wait for its coordinator, or for a "
                "poll() that reports them; poll, or commit less often"
            )
        if offsets:
            self._waiting.append(PendingCommit(offsets, callback, deadline_ms, seek_count))
        else:
            self._end({}, None, callback)

    @property
    def is_busy(self) -> bool:
        """Whether a commit has no outcome yet."""
        return bool(self._waiting)

    def is_sending(self, partitions: Set[TopicPartition]) -> bool:
        """Whether the call under way commits an offset of one of these."""
        offsets = () if self._call is None else self._call.offsets
        return any(_partition_of(each) in partitions for each in offsets)

    def poll(self, member_id: str, address: str | None, now_ms: float) -> CommitCall | None:
        """The call to make now; no address: there is no coordinator at the moment."""
        self.wake_at_ms = None
        while self._waiting and self._call is None and now_ms >= self._waiting[0].deadline_ms:
            commit = self._waiting.popleft()
            last = "it has no coordinator" if commit.last_error is None else str(commit.last_error)
            late = CoordinatorUnavailableError(f"a commit of group {self._group} was not possible: {last}")
            self._end({}, late, commit.callback)
        if not self._waiting or self._call is not None:
            return None
        is_held = any(_partition_of(each) in self._held for each in self._waiting[0].offsets)
        if address is None or is_held or now_ms < self._retry_at_ms:
            next_ms = self._waiting[0].deadline_ms
            is_stuck = address is None or is_held
            self.wake_at_ms = next_ms if is_stuck else min(next_ms, self._retry_at_ms)
            return None
        request = CommitOffsetsRequest(
            group=self._group,
            member_id=member_id,
            offsets=self._waiting[0].offsets,
            sequence=next(self._sequences),
        )
        self._call = CommitCall(address, request)
        return self._call

    def completed(
        self, call: CommitCall, outcome: CommitOffsetsResponse | HightideError, now_ms: float
    ) -> None:
        """Handle the outcome of a call."""
        if call is not self._call:
            return
        self._call = None
        commit = self._waiting[0]
        if isinstance(outcome, HightideError):
            commit.last_error = outcome
            if outcome.retriable and now_ms < commit.deadline_ms and commit.offsets:
                commit.attempts += 1
                self._retry_at_ms = now_ms + RETRY.pause_ms(commit.attempts)
                return
            self._waiting.popleft()
            self._end({}, outcome if commit.offsets else None, commit.callback)
            return
        self._waiting.popleft()
        failed = {
            _partition_of(each): error for each in outcome.offsets if (error := error_of(each)) is not None
        }
        done = [each for each in commit.offsets if _partition_of(each) not in failed]
        self._committed(done, commit.seek_count)
        written = {_partition_of(each): each.offset for each in done}
        self._end(written, next(iter(failed.values()), None), commit.callback)

    def hold(self, commits: Iterable[OffsetCommit]) -> None:
        """Send nothing, until `release`, that would undo the seeks among these commits, for which the user
        waits: the coordinator would take it for what came after them."""
        self._held.update(_partition_of(each) for each in commits if each.reset)

    def release(self, commits: Iterable[OffsetCommit]) -> None:
        """The user waits no longer for these."""
        self._held -= Counter(_partition_of(each) for each in commits if each.reset)

    def overtaken_by(self, durable: Iterable[OffsetCommit], before_seek: int | None = None) -> None:
        """Send no offset any more that was to be committed before these, which are durable, and would go
        back behind one or undo a seek to it. A commit of which nothing is left is done. `before_seek`: the
        user went on meanwhile, and only what was made before this seek came before these."""
        later = {_partition_of(each): each for each in durable}
        for commit in self._waiting:
            if before_seek is not None and commit.seek_count >= before_seek:
                continue
            commit.offsets = [
                each
                for each in commit.offsets
                if (by := later.get(_partition_of(each))) is None
                or not (by.reset or each.reset or each.offset <= by.offset)
            ]
        under_way = self._waiting[0] if self._call is not None else None
        for commit in [each for each in self._waiting if not each.offsets and each is not under_way]:
            self._waiting.remove(commit)
            self._end({}, None, commit.callback)

    def give_up(self, why: HightideError) -> None:
        """Fail all that have no outcome: the member has left, or was refused."""
        self._call = None
        while self._waiting:
            self._end({}, why, self._waiting.popleft().callback)

    def _end(
        self,
        written: Mapping[TopicPartition, int],
        error: HightideError | None,
        callback: CommitCallback | None,
    ) -> None:
        if callback is not None or error is not None:
            self._outcomes.append(CommitOutcome(written, error, callback))

    @property
    def has_outcome(self) -> bool:
        """Whether the user has to be told of an outcome."""
        return bool(self._outcomes)

    def next_outcome(self) -> CommitOutcome | None:
        """The next outcome to tell the user."""
        return self._outcomes.popleft() if self._outcomes else None


def _partition_of(commit: OffsetCommit | OffsetCommitResult) -> TopicPartition:
    return TopicPartition(commit.topic, commit.partition)
