"""Into how many shards the groups are divided: /consumers/shards, fixed by whoever starts first."""

from __future__ import annotations

import contextlib

from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.group_znodes import GROUP_PARENTS, ShardsZnode
from hightide_runtime.zookeeper.session import NodeExists, ZooKeeperSession

__all__ = ["fix_shard_count"]


async def fix_shard_count(session: ZooKeeperSession, shard_count: int) -> None:
    """Make the parents of all that coordinators write, and fix the number of shards. Called once, after
    `ensure_cluster_id` and before anything else.

    Raises StartupError where the groups are divided otherwise already: half of the coordinators would write
    into groups of the other half. ZnodeGarbage, ZooKeeperError.
    """
    for parent in GROUP_PARENTS:
        await session.ensure_path(parent)
    path = ShardsZnode.path()
    with contextlib.suppress(NodeExists):
        await session.create(path, ShardsZnode(shard_count).encode())
    standing = ShardsZnode.decode((await session.get(path)).data).shard_count
    if standing != shard_count:
        raise StartupError(
            f"the groups of this cluster are divided into {standing} shards (znode {path}), not "
            f"{shard_count}; start with --shards {standing}"
        )
