"""The RPCs of CoordinatorService: translate, ask the shard of the group, translate back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1 import coordinator_service_pb2_grpc as coordinator_grpc
from hightide_runtime.access.call_access import current_access

from hightide_coordinator.contract import convert_requests as convert
from hightide_coordinator.contract.topic_rights import answer_permitted, hide_topics, refuse_unless_permitted
from hightide_coordinator.core.effects import AnswerCommit, AnswerDelete, AnswerDeleteOffsets, AnswerReset
from hightide_coordinator.core.state.descriptions import committed_offsets, committed_page, describe_group
from hightide_coordinator.shell import CoordinatorShell

__all__ = ["CoordinatorServicer"]


class CoordinatorServicer(coordinator_grpc.CoordinatorServiceServicer):
    """Served by every coordinator. Those that are not active for a group's shard name the active one."""

    def __init__(self, shell: CoordinatorShell) -> None:
        self._shell = shell

    async def RegisterConsumer(self, requests: Any, context: Any) -> None:  # type: ignore[override]
        """Serve one consumer until its stream ends. This is no generator: it reads and writes the stream
        itself (see `serving`)."""
        await self._shell.serve_consumer(requests, context)

    async def CommitOffsets(self, request: pb.CommitOffsetsRequest, context: Any) -> pb.CommitOffsetsResponse:
        """Commit offsets."""
        shard = self._shell.shard_of(request.group)

        async def commit(offsets: Sequence[pb.OffsetCommit]) -> Sequence[pb.OffsetCommitResult]:
            event = convert.commit_in(request, offsets, shard.requests.take_id())
            await self._shell.look_up_topics(shard, event.commits)
            return convert.results_of_commit_out(await shard.ask(event, AnswerCommit))

        results = await answer_permitted(request.offsets, commit, convert.commit_refused_out)
        return pb.CommitOffsetsResponse(offsets=results)

    async def FetchOffsets(self, request: pb.FetchOffsetsRequest, context: Any) -> pb.FetchOffsetsResponse:
        """Return committed offsets, or a page of them."""
        shard = self._shell.shard_of(request.group)
        partitions = convert.partitions_in(request.partitions)
        access = current_access()
        sees = None if access is None else access.sees
        if request.offsets_max > 0:
            cursor, most = convert.cursor_in(request), request.offsets_max
            page = committed_page(
                shard.state, request.group, partitions, offsets_max=most, cursor=cursor, sees=sees
            )
            return convert.page_out(shard.told(page))
        offsets = shard.told(committed_offsets(shard.state, request.group, partitions, sees))
        return pb.FetchOffsetsResponse(offsets=convert.committed_out(offsets))

    async def ListGroups(self, request: pb.ListGroupsRequest, context: Any) -> pb.ListGroupsResponse:
        """List the groups of all shards that this process coordinates."""
        groups, access = self._shell.groups(), current_access()
        if access is not None:
            groups = [each for each in groups if access.sees_group(each.group)]
        return pb.ListGroupsResponse(groups=convert.listed_out(groups))

    async def DescribeGroup(self, request: pb.DescribeGroupRequest, context: Any) -> pb.DescribeGroupResponse:
        """Describe one group."""
        shard = self._shell.shard_of(request.group)
        group = shard.told(describe_group(shard.state, request.group))
        return hide_topics(convert.described_out(group, self._shell.identity))

    async def ResetOffsets(self, request: pb.ResetOffsetsRequest, context: Any) -> pb.ResetOffsetsResponse:
        """Set committed offsets of a group without members."""
        shard = self._shell.shard_of(request.group)

        async def reset(offsets: Sequence[pb.OffsetCommit]) -> Sequence[pb.OffsetResetResult]:
            event = convert.reset_in(request, offsets, shard.requests.take_id())
            await self._shell.look_up_topics(shard, event.commits)
            return convert.results_of_reset_out(await shard.ask(event, AnswerReset))

        results = await answer_permitted(request.offsets, reset, convert.reset_refused_out)
        return pb.ResetOffsetsResponse(offsets=results)

    async def DeleteGroup(self, request: pb.DeleteGroupRequest, context: Any) -> pb.DeleteGroupResponse:
        """Delete a group without members."""
        shard = self._shell.shard_of(request.group)
        await shard.ask(convert.delete_in(request, shard.requests.take_id()), AnswerDelete)
        return pb.DeleteGroupResponse()

    async def DeleteOffsets(self, request: pb.DeleteOffsetsRequest, context: Any) -> pb.DeleteOffsetsResponse:
        """Delete the offsets of topics that no member of the group reads."""
        shard = self._shell.shard_of(request.group)
        refuse_unless_permitted(request.topics)
        event = convert.delete_offsets_in(request, shard.requests.take_id())
        answer = await shard.ask(event, AnswerDeleteOffsets)
        return pb.DeleteOffsetsResponse(deleted_count=answer.deleted_count)

    async def ResignCoordinator(
        self, request: pb.ResignCoordinatorRequest, context: Any
    ) -> pb.ResignCoordinatorResponse:
        """Give up shards, so that another coordinator is elected for each."""
        ended = self._shell.resign(request.shards)
        return pb.ResignCoordinatorResponse(
            coordinator_id=self._shell.identity.id,
            shards=[pb.ResignedShard(shard=shard, coordinator_epoch=epoch) for shard, epoch in ended],
        )
