"""The RPCs of ControllerService about settings of the whole cluster. They are the same in a cluster with a
controller and in one without: whoever may decide answers them (`Authority`)."""

from __future__ import annotations

from typing import Any

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1 import quotas_pb2

from hightide_runtime.cluster_settings.acl_requests import AclRequests
from hightide_runtime.cluster_settings.quota_requests import QuotaRequests

__all__ = ["ClusterSettingsServicer"]


class ClusterSettingsServicer(controller_grpc.ControllerServiceServicer):
    """Answers what is about quotas and ACLs. Base of the servicers that answer the rest."""

    def __init__(self, acls: AclRequests, quotas: QuotaRequests) -> None:
        self._acls = acls
        self._quotas = quotas

    async def AlterQuotas(
        self, request: quotas_pb2.AlterQuotasRequest, context: Any
    ) -> quotas_pb2.AlterQuotasResponse:
        """Change quotas."""
        return await self._quotas.alter(request)

    async def DescribeQuotas(
        self, request: quotas_pb2.DescribeQuotasRequest, context: Any
    ) -> quotas_pb2.DescribeQuotasResponse:
        """Read all quotas."""
        return await self._quotas.describe()

    async def AlterAcls(
        self, request: controller_pb2.AlterAclsRequest, context: Any
    ) -> controller_pb2.AlterAclsResponse:
        """Change the ACLs of the cluster."""
        return await self._acls.alter(request)

    async def DescribeAcls(
        self, request: controller_pb2.DescribeAclsRequest, context: Any
    ) -> controller_pb2.DescribeAclsResponse:
        """Read the ACLs of the cluster from ZooKeeper."""
        return await self._acls.describe()

    async def CheckAccess(
        self, request: controller_pb2.CheckAccessRequest, context: Any
    ) -> controller_pb2.CheckAccessResponse:
        """Say what the ACLs in ZooKeeper decide, and by which rule."""
        return await self._acls.check(request)
