"""The RPCs of ControllerService: translate, ask the shell, translate back."""

from __future__ import annotations

from typing import Any

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide_runtime.zookeeper import ZooKeeperError

from hightide_controller import convert
from hightide_controller.descriptions import described_topics, summary_of
from hightide_controller.shell import Shell, zookeeper_unavailable

__all__ = ["ControllerServicer"]


class ControllerServicer(controller_grpc.ControllerServiceServicer):
    """Served by every controller; only the active one answers, the others name it."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def CreateTopic(
        self, request: controller_pb2.CreateTopicRequest, context: Any
    ) -> controller_pb2.CreateTopicResponse:
        """Create a topic and wait until its partitions have leaders."""
        answer = await self._shell.create_topic(request)
        return convert.created_out(self._shell.state, answer.topic)

    async def DescribeTopics(
        self, request: controller_pb2.DescribeTopicsRequest, context: Any
    ) -> controller_pb2.DescribeTopicsResponse:
        """Read topics from ZooKeeper."""
        self._shell.require_active()
        try:
            topics = await described_topics(self._shell.store, list(request.topics))
        except ZooKeeperError as error:
            raise zookeeper_unavailable(error) from error
        return controller_pb2.DescribeTopicsResponse(topics=topics)

    async def DescribeCluster(
        self, request: controller_pb2.DescribeClusterRequest, context: Any
    ) -> controller_pb2.DescribeClusterResponse:
        """Tell the brokers, the controller and what is not well."""
        self._shell.require_active()
        try:
            summary = await summary_of(self._shell.store, self._shell.state, self._shell.identity)
        except ZooKeeperError as error:
            raise zookeeper_unavailable(error) from error
        return convert.cluster_out(summary)

    async def ControlledShutdown(
        self, request: controller_pb2.ControlledShutdownRequest, context: Any
    ) -> controller_pb2.ControlledShutdownResponse:
        """Move leadership away from a broker that is about to stop."""
        remaining = await self._shell.controlled_shutdown(request.broker_id, request.broker_epoch)
        return controller_pb2.ControlledShutdownResponse(remaining_leader_count=remaining)
