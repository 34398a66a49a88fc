"""The requests of clients to a group's coordinator. Sans-IO; shared by threads and asyncio, by consumers and
admins.

A group belongs to a shard. Each shard has one active coordinator, which brokers name. A coordinator that is
not the active one names the one that is. Every request may be repeated if an answer was lost: a commit of the
same offset, a reset to the same offset and the deletion of something that is gone change nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from hightide.argument_checks import PARTITIONS_PER_REQUEST_MAX, checked_offset, checked_partitions, pieces
from hightide.calls.call import MessageCall, Method
from hightide.cluster.metadata import METADATA_TIMEOUT_MS, RETRY_PAUSE_MS
from hightide.cluster.offset_at import EARLIEST, LATEST, offset_at
from hightide.cluster.operations import Operation, Operations, Pause
from hightide.consumer_group.answers import group_description, group_listing
from hightide.errors import (
    CoordinatorUnavailableError,
    GroupNotEmptyError,
    HightideError,
    InvalidArgumentError,
    NotCoordinatorError,
    OffsetOutOfRangeError,
    UnknownGroupError,
    UnknownMemberError,
    UnknownTopicError,
    from_code,
)
from hightide.groups import CommittedOffset, GroupDescription, GroupListing, OffsetReset, PartitionLag
from hightide.records import TopicPartition
from hightide.v1.coordinator_service_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    DeleteGroupRequest,
    DeleteGroupResponse,
    DeleteOffsetsRequest,
    DeleteOffsetsResponse,
    DescribeGroupRequest,
    DescribeGroupResponse,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    GroupPartition,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommit,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
)

MessageT = TypeVar("MessageT", bound=Message)

# The new position: "earliest", "latest", the first record at or after a time, one offset, or one of each
# partition.
ResetTo = str | datetime | int | Mapping[TopicPartition, int]

# A read can be sent to a successor; a write may take as long as the operation has.
_QUESTIONS: Final = frozenset({Method.FETCH_OFFSETS, Method.LIST_GROUPS, Method.DESCRIBE_GROUP})
_QUESTION_TIMEOUT_MS: Final = 5 * METADATA_TIMEOUT_MS
# A coordinator that was cut off cannot say so; after this time another one is active, if there is one.
_WRITE_TIMEOUT_MS: Final = 10 * METADATA_TIMEOUT_MS
# The number that one request about topics may have (coordinator_service.proto).
_TOPICS_PER_REQUEST_MAX: Final = 1_000


class GroupOperations(Operations):
    """The operations about groups."""

    def coordinate(
        self, group: str, method: Method, request: Message, answer_type: type[MessageT]
    ) -> Operation[MessageT]:
        """Ask the active coordinator of a group. Raises its typed refusal, or CoordinatorUnavailableError.
        Afterwards `is_uncertain` tells whether an attempt before the last one may have been carried out."""
        self.is_uncertain = False
        return (
            yield from self._ask(
                lambda: self.cluster.coordinator_of(group), f"group {group}", method, request, answer_type
            )
        )

    def _ask(
        self,
        find: Callable[[], str | None],
        whose: str,
        method: Method,
        request: Message,
        answer_type: type[MessageT],
    ) -> Operation[MessageT]:
        last: HightideError | None = None
        named: str | None = None
        while True:
            address = named or find()
            if address is None or (last is not None and named is None):
                yield from self.refresh()
                address = find()
            if address is not None:
                limit_ms = _QUESTION_TIMEOUT_MS if method in _QUESTIONS else _WRITE_TIMEOUT_MS
                call = MessageCall(address, method, self._left_ms(limit_ms), request, answer_type)
                try:
                    answer: MessageT = yield call
                except HightideError as error:
                    if not error.retriable or self._is_over():
                        raise
                    last, named = error, None
                    if isinstance(error, NotCoordinatorError):
                        told = error.metadata.get("coordinator_address", "")
                        named = told if ":" in told and told != address else None
                    else:
                        self.is_uncertain = True
                else:
                    return answer
            if self._is_over():
                raise CoordinatorUnavailableError(
                    f"no active coordinator of {whose} answered within {self._budget_ms / 1000:g} s; "
                    + (f"the last answer was: {last}" if last is not None else "the brokers know of none"),
                    address=address,
                )
            yield Pause(RETRY_PAUSE_MS)

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit_offsets(
        self, group: str, member_id: str, commits: Sequence[OffsetCommit], sequence: int = 0
    ) -> Operation[dict[TopicPartition, HightideError]]:
        """Commit offsets. They are durable when it returns, except those for which it returns an error.
        `sequence`: the member's number of it."""
        failed: dict[TopicPartition, HightideError] = {}
        for piece in pieces(commits):
            request = CommitOffsetsRequest(group=group, member_id=member_id, offsets=piece, sequence=sequence)
            answer = yield from self.coordinate(group, Method.COMMIT_OFFSETS, request, CommitOffsetsResponse)
            for result in answer.offsets:
                error = error_of(result)
                if error is not None:
                    failed[TopicPartition(result.topic, result.partition)] = error
        return failed

    def commit_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> Operation[None]:
        """Write offsets of a group without members, including offsets lower than the committed ones."""
        commits = []
        for partition in checked_partitions(offsets):
            given = offsets[partition]
            at = CommittedOffset(given) if isinstance(given, int) else given
            commit = OffsetCommit(
                topic=partition.topic,
                partition=partition.partition,
                offset=checked_offset(partition, at.offset, at.leader_epoch),
                leader_epoch=at.leader_epoch,
                metadata=at.metadata,
                reset=True,
            )
            commits.append(commit)
        failed = yield from self.commit_offsets(group, "", commits)
        for error in failed.values():
            if isinstance(error, UnknownMemberError):
                raise GroupNotEmptyError(error.message, topic=error.topic, partition=error.partition)
            raise error

    def group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Operation[dict[TopicPartition, CommittedOffset]]:
        """The committed offsets of these partitions, or of all, asked for page by page; those without one are
        absent. Raises UnknownGroupError."""
        wanted = None if partitions is None else checked_partitions(partitions)
        if wanted is not None and not wanted:
            return {}
        found: dict[TopicPartition, CommittedOffset] = {}
        for piece in pieces(wanted) if wanted is not None else ((),):
            named = [GroupPartition(topic=each.topic, partition=each.partition) for each in piece]
            cursor: GroupPartition | None = None
            is_last = False
            while not is_last:
                request = FetchOffsetsRequest(
                    group=group, partitions=named, offsets_max=PARTITIONS_PER_REQUEST_MAX, cursor=cursor
                )
                answer = yield from self.coordinate(
                    group, Method.FETCH_OFFSETS, request, FetchOffsetsResponse
                )
                for each in answer.offsets:
                    found[TopicPartition(each.topic, each.partition)] = CommittedOffset(
                        each.offset, each.leader_epoch, each.metadata
                    )
                cursor = answer.next_cursor
                # A coordinator of an earlier version returns everything at once, and no cursor.
                is_last = not answer.HasField("next_cursor") or not answer.offsets
        return found

    def offsets_of(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> Operation[dict[TopicPartition, CommittedOffset]]:
        """As `group_offsets`; a group that does not exist yet has committed nothing."""
        try:
            return (yield from self.group_offsets(group, partitions))
        except UnknownGroupError:
            return {}

    # -- groups ----------------------------------------------------------------------------------------------

    def list_groups(self) -> Operation[list[GroupListing]]:
        """All groups, by name; each shard's coordinator lists its own. Raises CoordinatorUnavailableError if
        the coordinator of a shard cannot be reached."""
        yield from self.metadata()
        found: dict[str, GroupListing] = {}
        asked: set[str] = set()
        for shard in range(max(1, len(self.cluster.coordinators))):
            if self._coordinator_at(shard) in asked:
                continue

            def find(shard: int = shard) -> str | None:
                return self._coordinator_at(shard)

            answer = yield from self._ask(
                find, f"shard {shard}", Method.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse
            )
            address = find() or ""
            asked.add(address)
            found.update((each.group, group_listing(each, address)) for each in answer.groups)
        return [found[group] for group in sorted(found)]

    def coordinators(self) -> Operation[tuple[str | None, ...]]:
        """The active coordinator of each shard of groups, as any broker knows it; None for a shard without
        one. Raises BrokersUnavailableError."""
        yield from self.metadata()
        return self.cluster.coordinators

    def _coordinator_at(self, shard: int) -> str | None:
        coordinators = self.cluster.coordinators
        return coordinators[shard] if shard < len(coordinators) else None

    def describe_group(self, group: str) -> Operation[GroupDescription]:
        """The state of one group. Raises UnknownGroupError."""
        answer = yield from self.coordinate(
            group, Method.DESCRIBE_GROUP, DescribeGroupRequest(group=group), DescribeGroupResponse
        )
        return group_description(answer)

    def group_lag(self, group: str) -> Operation[list[PartitionLag]]:
        """The lag of a group in every partition that it reads or has committed an offset for, by partition.
        Raises UnknownGroupError."""
        described = yield from self.describe_group(group)
        owners = described.owners
        named = {*described.offsets, *owners}
        ends: dict[TopicPartition, int | None] = {}
        for topic in sorted({*described.topics, *(each.topic for each in named)}):
            try:
                partitions = yield from self.partitions_for(topic)
            except UnknownTopicError:
                continue  # It was deleted, or is not there yet: what is committed has no end to compare with.
            ends |= yield from self.list_offsets(dict.fromkeys(partitions, LATEST))
        lags = []
        for partition in sorted({*named, *ends}):
            committed = described.offsets.get(partition)
            end = ends.get(partition)
            lag = None if committed is None or end is None else max(0, end - committed.offset)
            offset = None if committed is None else committed.offset
            lags.append(PartitionLag(partition, offset, end, lag, owners.get(partition)))
        return lags

    def delete_group(self, group: str) -> Operation[None]:
        """Delete a group without members, with its offsets. If an attempt got no answer and the group is
        gone, that attempt deleted it. Raises UnknownGroupError, GroupNotEmptyError."""
        try:
            yield from self.coordinate(
                group, Method.DELETE_GROUP, DeleteGroupRequest(group=group), DeleteGroupResponse
            )
        except UnknownGroupError:
            if not self.is_uncertain:
                raise

    def delete_group_offsets(
        self, group: str, topics: Iterable[str], *, validate_only: bool
    ) -> Operation[int]:
        """Delete the offsets that a group has committed for topics that no member subscribes to. Returns how
        many partitions had one. They are counted before: if an answer was lost, that attempt may have deleted
        them."""
        names = list(dict.fromkeys([topics] if isinstance(topics, str) else topics))
        committed = yield from self.group_offsets(group)
        deleted = 0
        for at in range(0, len(names), _TOPICS_PER_REQUEST_MAX):
            piece = names[at : at + _TOPICS_PER_REQUEST_MAX]
            request = DeleteOffsetsRequest(group=group, topics=piece, validate_only=validate_only)
            try:
                answer = yield from self.coordinate(
                    group, Method.DELETE_OFFSETS, request, DeleteOffsetsResponse
                )
                count = answer.deleted_count
            except UnknownGroupError:
                if not self.is_uncertain:
                    raise
                count = 0
            if self.is_uncertain:
                count = max(count, sum(each.topic in piece for each in committed))
            deleted += count
        return deleted

    # -- resetting -------------------------------------------------------------------------------------------

    def reset_offsets(
        self,
        group: str,
        to: ResetTo | None,
        *,
        shift_by: int | None,
        topics: Iterable[str] | None,
        partitions: Iterable[TopicPartition] | None,
        validate_only: bool,
    ) -> Operation[list[OffsetReset]]:
        """Set committed offsets, each accepted or refused on its own; see `Admin.reset_offsets`."""
        if (to is None) is (shift_by is None):
            raise InvalidArgumentError("give either to= or shift_by=, and not both")
        try:
            committed = yield from self.group_offsets(group)
        except UnknownGroupError:
            committed = {}
        wanted = yield from self._chosen(committed, to, topics, partitions)
        firsts = yield from self.list_offsets(dict.fromkeys(wanted, EARLIEST))
        ends = yield from self.list_offsets(dict.fromkeys(wanted, LATEST))
        times: Mapping[TopicPartition, int | None] = {}
        if isinstance(to, datetime):
            times = yield from self.list_offsets(dict.fromkeys(wanted, offset_at(to)))
        outcomes: dict[TopicPartition, OffsetReset] = {}
        for each in wanted:
            # A record that was found by its time may have been written since the ends were asked for.
            first, end = firsts[each] or 0, max(ends[each] or 0, times.get(each) or 0)
            at = committed.get(each)
            outcomes[each] = _planned(
                each, at, _target(to, shift_by, each, at, first, end, times), first, end
            )
        yield from self._write(group, outcomes, validate_only)
        return [outcomes[each] for each in wanted]

    def _chosen(
        self,
        committed: Mapping[TopicPartition, CommittedOffset],
        to: ResetTo | None,
        topics: Iterable[str] | None,
        partitions: Iterable[TopicPartition] | None,
    ) -> Operation[list[TopicPartition]]:
        """The partitions to reset, sorted: those named, those of the topics named, otherwise all that have a
        committed offset."""
        if isinstance(to, Mapping):
            if topics is not None or partitions is not None:
                raise InvalidArgumentError(
                    "to= names the partitions already; leave out topics= and partitions="
                )
            return sorted(checked_partitions(to))
        if topics is None and partitions is None:
            return sorted(committed)
        chosen = dict.fromkeys(checked_partitions(partitions or ()))
        for topic in dict.fromkeys([topics] if isinstance(topics, str) else topics or ()):
            chosen |= dict.fromkeys((yield from self.partitions_for(topic)))
        return sorted(chosen)

    def _write(
        self, group: str, outcomes: dict[TopicPartition, OffsetReset], validate_only: bool
    ) -> Operation[None]:
        """Let the coordinator carry out, or check, the plan; its answer for each partition replaces the
        plan."""
        planned = [outcome for outcome in outcomes.values() if outcome.ok]
        for piece in pieces(planned):
            request = ResetOffsetsRequest(
                group=group,
                offsets=[
                    OffsetCommit(
                        topic=each.partition.topic,
                        partition=each.partition.partition,
                        offset=each.offset,
                        leader_epoch=-1,
                    )
                    for each in piece
                ],
                validate_only=validate_only,
            )
            answer = yield from self.coordinate(group, Method.RESET_OFFSETS, request, ResetOffsetsResponse)
            for result in answer.offsets:
                partition = TopicPartition(result.topic, result.partition)
                plan = outcomes[partition]
                previous = None if result.previous_offset < 0 else result.previous_offset
                # A repetition after a lost answer would return what the first attempt wrote.
                before = plan.previous if self.is_uncertain else previous
                outcomes[partition] = OffsetReset(partition, before, plan.offset, error_of(result))


def _target(
    to: ResetTo | None,
    shift_by: int | None,
    partition: TopicPartition,
    committed: CommittedOffset | None,
    first: int,
    end: int,
    times: Mapping[TopicPartition, int | None],
) -> int | None:
    """The new offset; None for a shift where nothing is committed."""
    if shift_by is not None:
        # As far as there are records.
        return None if committed is None else min(max(committed.offset + shift_by, first), end)
    if isinstance(to, Mapping):
        return to[partition]
    if isinstance(to, datetime):
        found = times[partition]
        return end if found is None else found
    if isinstance(to, int):
        return to
    if to not in ("earliest", "latest"):
        raise InvalidArgumentError(f'{to!r} is not "earliest", "latest", a time or an offset')
    return first if to == "earliest" else end


def _planned(
    partition: TopicPartition, committed: CommittedOffset | None, target: int | None, first: int, end: int
) -> OffsetReset:
    previous = None if committed is None else committed.offset
    error: HightideError | None = None
    if target is None:
        error = InvalidArgumentError(
            "the group has committed no offset to shift; give to= instead",
            topic=partition.topic,
            partition=partition.partition,
        )
    elif not first <= target <= end:
        error = OffsetOutOfRangeError(
            f"offset {target} does not exist; the offsets run from {first} to {end}",
            topic=partition.topic,
            partition=partition.partition,
        )
    return OffsetReset(partition, previous, -1 if target is None else target, error)


def error_of(result: Any) -> HightideError | None:
    """The error of one offset in an answer; None: it was written."""
    if not result.error_code:
        return None
    return from_code(result.error_code, result.error_message, topic=result.topic, partition=result.partition)
