"""Conversion between the coordinator's dataclasses and protobuf messages, for requests about a group.

`convert` does it for the stream of a consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode

from hightide_coordinator.contract.convert import ERROR_CODES, endpoint_out, owned_out
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.state.descriptions import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetPage,
)
from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.registration import StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "commit_in",
    "committed_out",
    "cursor_in",
    "delete_in",
    "delete_offsets_in",
    "described_out",
    "listed_out",
    "page_out",
    "partitions_in",
    "reset_in",
    "results_of_commit_out",
    "results_of_reset_out",
]

_STATES: Final[Mapping[GroupState, pb.GroupState.ValueType]] = {
    state: pb.GroupState.Value(f"GROUP_STATE_{state.name}") for state in GroupState
}


def commit_in(
    request: pb.CommitOffsetsRequest, offsets: Iterable[pb.OffsetCommit], request_id: int
) -> ev.CommitRequested:
    """The event of a CommitOffsets request, for these of its offsets. The core checks it."""
    commits = tuple(map(_offset_in, offsets))
    return ev.CommitRequested(request_id, request.group, request.member_id, commits, request.sequence)


def reset_in(
    request: pb.ResetOffsetsRequest, offsets: Iterable[pb.OffsetCommit], request_id: int
) -> ev.ResetRequested:
    """The event of a ResetOffsets request, for these of its offsets. The core checks it."""
    commits = tuple(map(_offset_in, offsets))
    return ev.ResetRequested(request_id, request.group, commits, request.validate_only)


def delete_in(request: pb.DeleteGroupRequest, request_id: int) -> ev.DeleteGroupRequested:
    """The event of a DeleteGroup request."""
    return ev.DeleteGroupRequested(request_id, request.group)


def delete_offsets_in(request: pb.DeleteOffsetsRequest, request_id: int) -> ev.DeleteOffsetsRequested:
    """The event of a DeleteOffsets request. The core checks it."""
    return ev.DeleteOffsetsRequested(request_id, request.group, tuple(request.topics), request.validate_only)


def partitions_in(partitions: Iterable[pb.GroupPartition]) -> tuple[TopicPartition, ...]:
    """The partitions of a FetchOffsets request."""
    return tuple(TopicPartition(each.topic, each.partition) for each in partitions)


def cursor_in(request: pb.FetchOffsetsRequest) -> TopicPartition | None:
    """The partition at which the page of a FetchOffsets request begins; None for the first one."""
    cursor = request.cursor
    return TopicPartition(cursor.topic, cursor.partition) if request.HasField("cursor") else None


def page_out(page: OffsetPage) -> pb.FetchOffsetsResponse:
    """The response with a page of committed offsets and the cursor of the next page."""
    after = page.next_cursor
    next_cursor = None if after is None else pb.GroupPartition(topic=after.topic, partition=after.partition)
    return pb.FetchOffsetsResponse(offsets=committed_out(page.offsets), next_cursor=next_cursor)


def _offset_in(commit: pb.OffsetCommit) -> ev.OffsetCommit:
    return ev.OffsetCommit(
        TopicPartition(commit.topic, commit.partition),
        commit.generation,
        commit.offset,
        commit.leader_epoch,
        commit.metadata,
        commit.reset,
    )


def results_of_commit_out(answer: ef.AnswerCommit) -> list[pb.OffsetCommitResult]:
    """The outcome of each commit, in the order of the request."""
    return [
        pb.OffsetCommitResult(
            topic=outcome.name.topic,
            partition=outcome.name.partition,
            error_code=_code_of(outcome),
            error_message=outcome.message,
        )
        for outcome in answer.outcomes
    ]


def commit_refused_out(
    commit: pb.OffsetCommit, code: ErrorCode.ValueType, message: str
) -> pb.OffsetCommitResult:
    """The outcome of a commit that did not reach the core."""
    return pb.OffsetCommitResult(
        topic=commit.topic, partition=commit.partition, error_code=code, error_message=message
    )


def reset_refused_out(
    commit: pb.OffsetCommit, code: ErrorCode.ValueType, message: str
) -> pb.OffsetResetResult:
    """The outcome of a reset that did not reach the core."""
    return pb.OffsetResetResult(
        topic=commit.topic,
        partition=commit.partition,
        error_code=code,
        error_message=message,
        previous_offset=-1,
    )


def results_of_reset_out(answer: ef.AnswerReset) -> list[pb.OffsetResetResult]:
    """The outcome of each reset, in the order of the request."""
    return [
        pb.OffsetResetResult(
            topic=outcome.name.topic,
            partition=outcome.name.partition,
            error_code=_code_of(outcome),
            error_message=outcome.message,
            previous_offset=outcome.previous_offset,
        )
        for outcome in answer.outcomes
    ]


def _code_of(outcome: ef.ItemOutcome) -> ErrorCode.ValueType:
    if outcome.refusal is None:
        return ErrorCode.ERROR_CODE_UNSPECIFIED
    return ERROR_CODES[outcome.refusal]


def committed_out(
    offsets: Mapping[TopicPartition, StoredOffset], *, with_metadata: bool = True
) -> list[pb.CommittedOffset]:
    """Committed offsets, sorted by topic and partition."""
    return [
        pb.CommittedOffset(
            topic=name.topic,
            partition=name.partition,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata if with_metadata else "",
        )
        for name, committed in sorted(offsets.items())
    ]


def listed_out(groups: Iterable[GroupListing]) -> list[pb.GroupListing]:
    """Listings of groups of any number of shards, sorted by name."""
    return [
        pb.GroupListing(
            group=each.group,
            state=_STATES[each.state],
            member_count=each.member_count,
            generation=each.generation,
        )
        for each in sorted(groups, key=lambda listing: listing.group)
    ]


def described_out(group: GroupDescription, coordinator: ev.Endpoint) -> pb.DescribeGroupResponse:
    """The response with the whole description of a group."""
    return pb.DescribeGroupResponse(
        group=group.group,
        state=_STATES[group.state],
        reason=group.reason,
        generation=group.generation,
        assignor=group.assignor,
        members=map(_member_out, group.members),
        offsets=committed_out(group.offsets, with_metadata=False),
        topics=group.topics,
        coordinator=endpoint_out(coordinator),
        coordinator_epoch=group.coordinator_epoch,
        rebalance_count=group.rebalance_count,
        last_rebalance_ms=group.last_rebalance_ms,
    )


def _member_out(member: MemberDescription) -> pb.GroupMember:
    return pb.GroupMember(
        consumer_id=member.consumer_id,
        instance_id=member.instance_id,
        peer=member.peer,
        session_timeout_ms=member.session_timeout_ms,
        is_connected=member.is_connected,
        topics=[
            pb.TopicStreams(topic=topic, streams=streams) for topic, streams in sorted(member.topics.items())
        ],
        pattern=member.pattern,
        exclude=member.exclude,
        partitions=owned_out(member.partitions),
    )
