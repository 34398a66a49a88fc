"""The RPCs of ControllerService: translate, ask the shell, translate back."""

from __future__ import annotations

from typing import Any

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_runtime.access.call_access import current_access
from hightide_runtime.cluster_settings.acl_requests import AclRequests
from hightide_runtime.cluster_settings.quota_requests import QuotaRequests
from hightide_runtime.cluster_settings.servicer import ClusterSettingsServicer
from hightide_runtime.zookeeper.session import ZooKeeperError

from hightide_controller.contract import convert, convert_requests
from hightide_controller.core.effects import AnswerDone, AnswerElections, AnswerPartitions, AnswerTopic
from hightide_controller.descriptions import described_topics, listed_reassignments, summary_of
from hightide_controller.mutation_quota import MutationQuota
from hightide_controller.shell import ControllerShell

__all__ = ["ControllerServicer"]


class ControllerServicer(ClusterSettingsServicer):
    """Served by every controller. Only the active one carries out requests; the others name it."""

    def __init__(
        self, shell: ControllerShell, acls: AclRequests, quotas: QuotaRequests, mutations: MutationQuota
    ) -> None:
        super().__init__(acls, quotas)
        self._shell = shell
        self._mutations = mutations

    async def CreateTopic(
        self, request: controller_pb2.CreateTopicRequest, context: Any
    ) -> controller_pb2.CreateTopicResponse:
        """Create a topic and wait until its partitions have leaders."""
        if not request.validate_only:
            self._shell.require_active()
            self._mutations.admit(len(request.assignment) or request.partition_count)
        answer = await self._shell.create_topic(request)
        return convert.created_out(self._shell.state, answer.topic)

    async def DescribeTopics(
        self, request: controller_pb2.DescribeTopicsRequest, context: Any
    ) -> controller_pb2.DescribeTopicsResponse:
        """Read topics from ZooKeeper."""
        self._shell.require_active()
        access = current_access()
        sees = None if access is None else access.sees
        try:
            topics = await described_topics(self._shell.store, list(request.topics), sees)
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error
        return controller_pb2.DescribeTopicsResponse(topics=topics)

    async def DescribeCluster(
        self, request: controller_pb2.DescribeClusterRequest, context: Any
    ) -> controller_pb2.DescribeClusterResponse:
        """Describe the brokers, the controller and what is not well."""
        self._shell.require_active()
        try:
            summary = await summary_of(self._shell.store, self._shell.state, self._shell.identity)
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error
        return convert.cluster_out(summary)

    async def ControlledShutdown(
        self, request: controller_pb2.ControlledShutdownRequest, context: Any
    ) -> controller_pb2.ControlledShutdownResponse:
        """Move leadership away from a broker that is about to stop."""
        remaining = await self._shell.controlled_shutdown(request.broker_id, request.broker_epoch)
        return controller_pb2.ControlledShutdownResponse(remaining_leader_count=remaining)

    async def ResignController(
        self, request: controller_pb2.ResignControllerRequest, context: Any
    ) -> controller_pb2.ResignControllerResponse:
        """Step down, so that another controller is elected."""
        answer = await self._shell.resign(request.controller_epoch)
        return controller_pb2.ResignControllerResponse(
            controller_id=answer.controller_id, controller_epoch=answer.controller_epoch
        )

    async def DeleteTopic(
        self, request: controller_pb2.DeleteTopicRequest, context: Any
    ) -> controller_pb2.DeleteTopicResponse:
        """Delete a topic and its data, and wait until its name is free."""
        event = convert_requests.delete_topic_in(request, self._shell.take_request_id())
        if not request.validate_only:
            self._mutations.admit(self._shell.partition_count_of(request.topic))
        answer = await self._shell.delete_topic(event)
        topic = convert.topic_out(self._shell.state, answer.topic)
        return controller_pb2.DeleteTopicResponse(topic=topic, absent_brokers=answer.absent_brokers)

    async def AddPartitions(
        self, request: controller_pb2.AddPartitionsRequest, context: Any
    ) -> controller_pb2.AddPartitionsResponse:
        """Grow a topic and wait until the new partitions have leaders."""
        event = convert_requests.add_partitions_in(request, self._shell.take_request_id())
        if not request.validate_only:
            existing = self._shell.partition_count_of(request.topic)
            self._mutations.admit(request.partition_count - existing)
        answer = await self._shell.ask(event, AnswerTopic)
        topic = convert.topic_out(self._shell.state, answer.topic)
        return controller_pb2.AddPartitionsResponse(topic=topic)

    async def RemovePartitions(
        self, request: controller_pb2.RemovePartitionsRequest, context: Any
    ) -> controller_pb2.RemovePartitionsResponse:
        """Shrink a topic: the partitions with the highest numbers go."""
        event = convert_requests.remove_partitions_in(request, self._shell.take_request_id())
        if not request.validate_only:
            existing = self._shell.partition_count_of(request.topic)
            self._mutations.admit(existing - request.partition_count)
        answer = await self._shell.ask(event, AnswerTopic)
        topic = convert.topic_out(self._shell.state, answer.topic)
        return controller_pb2.RemovePartitionsResponse(topic=topic)

    async def AlterTopicConfig(
        self, request: controller_pb2.AlterTopicConfigRequest, context: Any
    ) -> controller_pb2.AlterTopicConfigResponse:
        """Change settings of a topic, and wait until its brokers have applied them."""
        event = convert_requests.alter_config_in(request, self._shell.take_request_id())
        answer = await self._shell.ask(event, AnswerTopic)
        return controller_pb2.AlterTopicConfigResponse(configs=answer.topic.configs)

    async def ReassignPartitions(
        self, request: controller_pb2.ReassignPartitionsRequest, context: Any
    ) -> controller_pb2.ReassignPartitionsResponse:
        """Move partitions to other brokers."""
        event = convert_requests.reassign_in(request, self._shell.take_request_id())
        answer = await self._shell.reassign(event)
        results = map(convert_requests.result_out, answer.outcomes)
        return controller_pb2.ReassignPartitionsResponse(results=results)

    async def CancelReassignments(
        self, request: controller_pb2.CancelReassignmentsRequest, context: Any
    ) -> controller_pb2.CancelReassignmentsResponse:
        """Cancel moves."""
        event = convert_requests.cancel_in(request, self._shell.take_request_id())
        answer = await self._shell.ask(event, AnswerPartitions)
        results = map(convert_requests.result_out, answer.outcomes)
        return controller_pb2.CancelReassignmentsResponse(results=results)

    async def ListReassignments(
        self, request: controller_pb2.ListReassignmentsRequest, context: Any
    ) -> controller_pb2.ListReassignmentsResponse:
        """List the moves that are not finished."""
        self._shell.require_active()
        try:
            return await listed_reassignments(
                self._shell.store,
                self._shell.admin_reader,
                self._shell.state,
                frozenset(convert_requests.names_in(request.partitions)),
            )
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error

    async def AlterReassignmentThrottle(
        self, request: controller_pb2.AlterReassignmentThrottleRequest, context: Any
    ) -> controller_pb2.AlterReassignmentThrottleResponse:
        """Change the speed limit of moves."""
        event = convert_requests.throttle_in(request, self._shell.take_request_id())
        await self._shell.ask(event, AnswerDone)
        return controller_pb2.AlterReassignmentThrottleResponse()

    async def ElectLeaders(
        self, request: controller_pb2.ElectLeadersRequest, context: Any
    ) -> controller_pb2.ElectLeadersResponse:
        """Elect leaders at the request of an operator."""
        event = convert_requests.elect_in(request, self._shell.take_request_id())
        answer = await self._shell.ask(event, AnswerElections)
        return controller_pb2.ElectLeadersResponse(
            elections=map(convert_requests.election_out, answer.elections)
        )

    async def ReportFailedReplicas(
        self, request: controller_pb2.ReportFailedReplicasRequest, context: Any
    ) -> controller_pb2.ReportFailedReplicasResponse:
        """Hear that replicas of a broker cannot be used any more in this life of it, are damaged, or whole
        again."""
        self._shell.require_active()
        for event in convert_requests.failed_replicas_in(request):
            self._shell.replicas_failed(event)
        return controller_pb2.ReportFailedReplicasResponse()
