"""AlterQuotas and DescribeQuotas, as whoever decides about the cluster answers them."""

from __future__ import annotations

from hightide.v1 import quotas_pb2

from hightide_runtime.cluster_settings.cluster_setting import Authority, ClusterSetting
from hightide_runtime.cluster_settings.convert_quotas import altered_quotas, changes_in, quotas_out
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["QuotaRequests"]


class QuotaRequests:
    """The quotas of the cluster. Methods raise ServiceError, also if this process does not decide."""

    def __init__(self, session: ZooKeeperSession, authority: Authority) -> None:
        self._setting = ClusterSetting(
            session, QuotasZnode.path(), QuotasZnode.decode, QuotasZnode.encode, QuotasZnode({}), authority,
            "quotas",
            "correct it or delete it in ZooKeeper. Until then the quotas hold that were read before",
        )  # fmt: skip

    async def alter(self, request: quotas_pb2.AlterQuotasRequest) -> quotas_pb2.AlterQuotasResponse:
        """Make the changes, durably, or only check them."""
        changes = changes_in(request)
        after = await self._setting.alter(
            lambda before: altered_quotas(before, changes), validate_only=request.validate_only
        )
        names = [change.principal for change in changes]
        return quotas_pb2.AlterQuotasResponse(quotas=quotas_out(after.quotas, names))

    async def describe(self) -> quotas_pb2.DescribeQuotasResponse:
        """All of them."""
        quotas = (await self._setting.read()).quotas
        return quotas_pb2.DescribeQuotasResponse(quotas=quotas_out(quotas, sorted(quotas)))
