"""Who decides about leaders in this cluster: chosen once, by the first broker or controller that starts."""

from __future__ import annotations

import contextlib

from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import ControllerEpochZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.coordination_znode import Coordination, CoordinationZnode
from hightide_runtime.zookeeper.session import NodeExists, ZooKeeperSession


async def fix_coordination(session: ZooKeeperSession, wanted: Coordination, process: str) -> None:
    """Choose how the cluster is coordinated, or find that it is as `wanted`. Called once by each broker and
    controller, after `ensure_cluster_id` and before anything else is read or written. `process` names the
    caller in the error: "broker 1".

    A cluster in which a controller was elected before there was this choice has a controller. Raises
    StartupError if the cluster is coordinated the other way, since two deciders would undo each other's
    decisions. Raises ZooKeeperError.
    """
    path = CoordinationZnode.path()
    if await session.exists(path) is None:
        is_older = await session.exists(ControllerEpochZnode.path()) is not None
        first = Coordination.CONTROLLER if is_older else wanted
        with contextlib.suppress(NodeExists):
            await session.create(path, CoordinationZnode(first).encode())
    try:
        fixed = CoordinationZnode.decode((await session.get(path)).data).coordination
    except ZnodeGarbage as garbage:
        raise StartupError(f"{garbage}; correct it in ZooKeeper, then start {process} again") from None
    if fixed is wanted:
        return
    raise StartupError(f"{process} does not start: {_REFUSALS[fixed]} (znode {path})")


_REFUSALS = {
    Coordination.CONTROLLER: "this cluster has a controller that decides who leads; start brokers with "
    "--coordination controller",
    Coordination.LEADERS: "the leaders of this cluster decide for themselves, without a controller; start "
    "brokers with --coordination leaders, and no controller",
}
