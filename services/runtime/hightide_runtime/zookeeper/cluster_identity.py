"""To which cluster a process belongs: to the one that it found first, for as long as it lives.

What a process knows (epochs, topics, leaders, owners) is of one cluster, and an address is no proof of it:
behind it may stand a ZooKeeper that was wiped, another ensemble, a stray process. A session is one, since
only the ensemble that made it, or was restored with it, takes it up again. So in each *new* session the
cluster's id is read before anything else is read or written. Another id, or none, ends the process, as
Kafka's InconsistentClusterIdException does: it must neither act there on what it knows, nor give a wiped
ZooKeeper an id of its own making.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hightide_runtime.znodes.cluster_znodes import ClusterIdZnode, ZnodeGarbage
from hightide_runtime.zookeeper.errors import InconsistentClusterId

__all__ = ["ClusterMembership", "check_cluster_id", "cluster_id_in"]


@dataclass(frozen=True, slots=True)
class ClusterMembership:
    """The cluster that a process belongs to, and where its id is stored."""

    cluster_id: str
    path: str
    """The path, with the chroot."""

    def check(self, content: bytes | None, address: str) -> None:
        """Compare the content of the znode in a new session, None if there is none; `address`: the server
        that answered. Raises InconsistentClusterId."""
        try:
            found = cluster_id_in(content)
        except ZnodeGarbage:
            found = ""
        check_cluster_id(found, (self.cluster_id,), address)


def cluster_id_in(content: bytes | None) -> str:
    """The id in the content of /cluster/id; empty if that does not exist. Raises ZnodeGarbage."""
    return "" if content is None else ClusterIdZnode.decode(content).cluster_id


def check_cluster_id(found: str, known: Collection[str], address: str) -> None:
    """Check that a process of one of these clusters, or of none yet, may use the ZooKeeper at an address.
    Raises InconsistentClusterId."""
    if known and found not in known:
        raise InconsistentClusterId(address, " or ".join(sorted(known)), found)
