"""What lets a controller change settings of the cluster: that it is the active one."""

from __future__ import annotations

from hightide_runtime.cluster_settings.cluster_setting import Authority
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.zookeeper.session import Check

from hightide_controller.contract import convert
from hightide_controller.shell import ControllerShell

__all__ = ["authority_of"]


def authority_of(shell: ControllerShell) -> Authority:
    """The authority of this process. Each write checks the controller epoch, as all writes of controllers
    do."""

    def checks() -> tuple[Check, ...]:
        shell.require_active()
        return (Check(ControllerEpochZnode.path(), shell.state.controller_epoch_version),)

    return Authority(checks, lambda: convert.not_controller(None))
