"""The ACLs of the cluster, as the active controller reads and changes them for its clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.acls import AclTable
from hightide_runtime.errors import ServiceError
from hightide_runtime.process.settings import Authorization
from hightide_runtime.znodes.acls_znode import AclsZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.session import ZooKeeperError, ZooKeeperSession

from hightide_controller.contract import convert
from hightide_controller.core.acls import AclChange, AlteredAcls, TooManyAcls, alter_acls
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.settings import ControllerSettings
from hightide_controller.zookeeper.cluster_setting import ClusterSetting, ControllerDeposed, KeepsChanging

__all__ = ["ClusterAcls"]


class ClusterAcls:
    """One for each controller process. Methods raise ServiceError, also if this controller is not the active
    one."""

    def __init__(
        self,
        settings: ControllerSettings,
        session: ZooKeeperSession,
        active_state: Callable[[], ClusterState],
    ) -> None:
        """`active_state`: the state of the cluster; raises ServiceError unless this controller is active."""
        self.is_enforced = settings.authorization is Authorization.ACLS
        self.super_users = settings.super_users
        self._setting = ClusterSetting(
            session, AclsZnode.path(), AclsZnode.decode, AclsZnode.encode, absent=AclsZnode()
        )
        self._active_state = active_state

    async def read(self) -> AclTable:
        """All of them."""
        self._active_state()
        try:
            znode = await self._setting.read()
        except ZnodeGarbage as error:
            raise _garbage(error) from error
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error
        return AclTable(znode.acls, self.super_users)

    async def alter(self, changes: Sequence[AclChange], *, validate_only: bool) -> AlteredAcls:
        """Make the changes, durably, or only check them."""
        version = self._active_state().controller_epoch_version
        altered = AlteredAcls(AclsZnode(), 0, 0)

        def changed(before: AclsZnode) -> AclsZnode:
            nonlocal altered
            altered = alter_acls(before, changes)
            return altered.znode

        try:
            await self._setting.alter(changed, version, validate_only=validate_only)
        except TooManyAcls as error:
            raise ServiceError(
                ErrorCode.ERROR_CODE_LIMIT_EXCEEDED, f"{error}; use prefixes, or client/*"
            ) from None
        except ControllerDeposed:
            raise convert.not_controller(None) from None
        except KeepsChanging:
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED, "others keep changing the ACLs; try again after a pause"
            ) from None
        except ZnodeGarbage as error:
            raise _garbage(error) from error
        except ZooKeeperError as error:
            raise convert.zookeeper_unavailable(error) from error
        return altered


def _garbage(error: ZnodeGarbage) -> ServiceError:
    return ServiceError(
        ErrorCode.ERROR_CODE_INVALID_CONFIG,
        f"{error}; correct it in ZooKeeper. Until then the rules hold that processes have read before",
    )
