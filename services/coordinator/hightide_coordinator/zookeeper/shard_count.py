"""The number of shards into which groups are divided: /consumers/shards, fixed by the first process."""

from __future__ import annotations

import contextlib

from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.group_znodes import GROUP_PARENTS, SHARDS_DEFAULT, ShardsZnode
from hightide_runtime.zookeeper.session import NodeExists, ZooKeeperSession

__all__ = ["fix_shard_count"]


async def fix_shard_count(session: ZooKeeperSession, wanted: int | None) -> int:
    """Create the parents of everything that coordinators write, and fix the number of shards. Called once,
    after `ensure_cluster_id` and before anything else. Returns the number.

    None takes a cluster as it is, and begins a new one with SHARDS_DEFAULT. Raises StartupError if the
    cluster already has another number than is wanted, since coordinators would write to each other's groups.
    Raises ZnodeGarbage and ZooKeeperError.
    """
    for parent in GROUP_PARENTS:
        await session.ensure_path(parent)
    path = ShardsZnode.path()
    with contextlib.suppress(NodeExists):
        await session.create(path, ShardsZnode(SHARDS_DEFAULT if wanted is None else wanted).encode())
    fixed = ShardsZnode.decode((await session.get(path)).data).shard_count
    if wanted is not None and fixed != wanted:
        raise StartupError(
            f"the groups of this cluster are divided into {fixed} shards (znode {path}), not "
            f"{wanted}; start with --shards {fixed}, or without --shards"
        )
    return fixed
