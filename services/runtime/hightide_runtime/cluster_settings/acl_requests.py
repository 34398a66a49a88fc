"""AlterAcls, DescribeAcls and CheckAccess, as whoever decides about the cluster answers them."""

from __future__ import annotations

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.acls import AclTable
from hightide_runtime.cluster_settings.acl_changes import AlteredAcls, TooManyAcls, alter_acls
from hightide_runtime.cluster_settings.cluster_setting import Authority, ClusterSetting
from hightide_runtime.cluster_settings.convert_acls import (
    access_question_in,
    acls_out,
    changes_in,
    decision_out,
)
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.acls_znode import AclsZnode
from hightide_runtime.zookeeper.session import ZooKeeperSession

__all__ = ["AclRequests"]


class AclRequests:
    """The ACLs of the cluster. Methods raise ServiceError, also if this process does not decide."""

    def __init__(
        self,
        session: ZooKeeperSession,
        authority: Authority,
        *,
        is_enforced: bool,
        super_users: tuple[str, ...],
    ) -> None:
        """`is_enforced` and `super_users` are settings of this process, which all of a cluster share."""
        self._is_enforced = is_enforced
        self._super_users = super_users
        self._setting = ClusterSetting(
            session, AclsZnode.path(), AclsZnode.decode, AclsZnode.encode, AclsZnode(), authority, "ACLs",
            "correct it in ZooKeeper. Until then the rules hold that processes have read before",
        )  # fmt: skip

    async def alter(self, request: controller_pb2.AlterAclsRequest) -> controller_pb2.AlterAclsResponse:
        """Make the changes, durably, or only check them."""
        changes = changes_in(request)
        altered = AlteredAcls(AclsZnode(), 0, 0)

        def changed(before: AclsZnode) -> AclsZnode:
            nonlocal altered
            altered = alter_acls(before, changes)
            return altered.znode

        try:
            await self._setting.alter(changed, validate_only=request.validate_only)
        except TooManyAcls as error:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED, f"{error}; use prefixes, or client/*"
            ) from None
        return controller_pb2.AlterAclsResponse(
            added_count=altered.added_count, removed_count=altered.removed_count
        )

    async def describe(self) -> controller_pb2.DescribeAclsResponse:
        """All of them."""
        table = await self._table()
        return controller_pb2.DescribeAclsResponse(
            acls=acls_out(table.acls), is_enforced=self._is_enforced, super_users=self._super_users
        )

    async def check(self, request: controller_pb2.CheckAccessRequest) -> controller_pb2.CheckAccessResponse:
        """What the ACLs in ZooKeeper decide, and by which rule."""
        question = access_question_in(request)
        return decision_out((await self._table()).explain(*question))

    async def _table(self) -> AclTable:
        return AclTable((await self._setting.read()).acls, self._super_users)
