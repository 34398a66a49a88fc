"""AlterQuotas and DescribeQuotas, and what the quota for mutations refuses."""

from __future__ import annotations

from hightide.v1 import quotas_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.principals import current_caller
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.zookeeper.session import ZooKeeperError, ZooKeeperSession

from hightide_controller.contract import convert
from hightide_controller.contract.convert_quotas import altered_quotas, changes_in, quotas_out
from hightide_controller.shell import ControllerShell
from hightide_controller.zookeeper.cluster_setting import ClusterSetting, ControllerDeposed, KeepsChanging

__all__ = ["QuotaRequests"]


class QuotaRequests:
    """The quotas of the cluster, as the active controller changes and describes them for operators, and what
    it keeps of them itself."""

    def __init__(self, shell: ControllerShell, session: ZooKeeperSession, live: LiveQuotas) -> None:
        self._shell = shell
        self._setting = ClusterSetting(
            session, QuotasZnode.path(), QuotasZnode.decode, QuotasZnode.encode, absent=QuotasZnode({})
        )
        self._live = live

    async def alter(self, request: quotas_pb2.AlterQuotasRequest) -> quotas_pb2.AlterQuotasResponse:
        """Carry out AlterQuotas. Raises ServiceError."""
        self._shell.require_active()
        changes = changes_in(request)
        version = self._shell.state.controller_epoch_version
        try:
            after = await self._setting.alter(
                lambda before: altered_quotas(before, changes), version, validate_only=request.validate_only
            )
        except ControllerDeposed:
            raise convert.not_controller(None) from None
        except KeepsChanging:
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED, "others keep changing the quotas; try again after a pause"
            ) from None
        except ZnodeGarbage as error:
            raise _garbage(error) from error
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error
        names = [change.principal for change in changes]
        return quotas_pb2.AlterQuotasResponse(quotas=quotas_out(after.quotas, names))

    async def describe(self) -> quotas_pb2.DescribeQuotasResponse:
        """Carry out DescribeQuotas. Raises ServiceError."""
        self._shell.require_active()
        try:
            quotas = (await self._setting.read()).quotas
        except ZnodeGarbage as error:
            raise _garbage(error) from error
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error
        return quotas_pb2.DescribeQuotasResponse(quotas=quotas_out(quotas, sorted(quotas)))

    def admit_mutation(self, partition_count: int) -> None:
        """Count partitions that the current request creates or deletes, before it is carried out. Raises
        ServiceError (QUOTA_EXCEEDED) if its caller has to wait (KIP-599)."""
        throttle_time_ms = self._live.mutate(max(1, partition_count))
        if throttle_time_ms:
            self._shell.counters.mutations_refused += 1
            raise ServiceError(
                ErrorCode.ERROR_CODE_QUOTA_EXCEEDED,
                f"{current_caller()} has created and deleted more partitions than its quota allows "
                f"(mutations_per_s); nothing was changed, try again in {throttle_time_ms} ms",
                {"quota": "mutations_per_s", "throttle_time_ms": str(throttle_time_ms)},
            )


def _garbage(error: ZnodeGarbage) -> ServiceError:
    return ServiceError(
        ErrorCode.ERROR_CODE_INVALID_CONFIG,
        f"{error}; correct it or delete it in ZooKeeper. Until then the quotas hold that were read before",
    )
