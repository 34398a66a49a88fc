"""Reading the requests of operators below /admin, and the settings below /config, from ZooKeeper (V3).

Everything is read once, when a controller becomes active and whenever its connection returns. After that,
only the paths that a watch on the whole tree names are read. So of a thousand moves under way, only those
that change cost anything. An invalid znode is complained about, and stays until an operator removes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hightide_runtime.znodes import cluster_znodes
from hightide_runtime.znodes.acls_znode import AclsZnode
from hightide_runtime.znodes.admin_znodes import (
    DeleteTopicZnode,
    PartitionAddZnode,
    ReassignmentThrottleZnode,
    ReassignmentZnode,
)
from hightide_runtime.znodes.cluster_znodes import TopicConfigZnode, ZnodeGarbage
from hightide_runtime.znodes.quotas_znode import QuotasZnode
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import NoNode, Znode, ZooKeeperSession

from hightide_controller.core import events as ev
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["AdminRead", "AdminReader"]

_BY_PARTITION: Final = (
    cluster_znodes.REASSIGNMENTS,
    cluster_znodes.PARTITIONS_ADD,
    cluster_znodes.PARTITIONS_REMOVE,
)
_SILENT: Final = frozenset(
    {
        cluster_znodes.ADMIN,
        cluster_znodes.CONFIG,
        cluster_znodes.TOPIC_CONFIGS,
        cluster_znodes.DELETE_TOPICS,
        *_BY_PARTITION,
    }
)
#: Settings that whoever needs them reads. Here an operator learns of nonsense in them.
_OF_OTHERS: Final[Mapping[str, Callable[[bytes], object]]] = {
    AclsZnode.path(): AclsZnode.decode,
    QuotasZnode.path(): QuotasZnode.decode,
}
_NAME_CHARACTERS: Final = 260


@dataclass(frozen=True, slots=True)
class AdminRead:
    """The result of a read: the part about /admin, and settings of topics; None: they are gone."""

    admin: ev.AdminZnodes = field(default_factory=ev.AdminZnodes)
    configs: dict[str, tuple[dict[str, str], int] | None] = field(default_factory=dict)


class AdminReader:
    """Reads /admin and /config. One for each controller process. Methods raise ConnectionLost and
    SessionExpired."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._seen: set[str] = set()
        """Paths that existed at the last read: a missed deletion shows in the next full read."""

    def forget(self) -> None:
        """Forget everything: this controller is not the active one any more."""
        self._seen.clear()

    async def watch(self) -> None:
        """Have every change reported from now on, until the connection ends."""
        await asyncio.gather(
            self._session.watch_tree(cluster_znodes.ADMIN), self._session.watch_tree(cluster_znodes.CONFIG)
        )

    async def read_all(self, topics_with_configs: Collection[str] = ()) -> AdminRead:
        """Everything below /admin and right below /config, and the settings of the topics named."""
        paths = await self._tree_below(cluster_znodes.ADMIN)
        paths |= {f"{cluster_znodes.CONFIG}/{name}" for name in await self._children(cluster_znodes.CONFIG)}
        paths |= {ReassignmentThrottleZnode.path()}
        paths |= {f"{cluster_znodes.TOPIC_CONFIGS}/{name}" for name in topics_with_configs}
        return await self.read(paths | self._seen)

    async def read_moves(self) -> AdminRead:
        """All reassignments, and the speed limit."""
        paths = await self._tree_below(cluster_znodes.REASSIGNMENTS)
        return await self.read(paths | {ReassignmentThrottleZnode.path()})

    async def read_about(self, topics: Collection[str]) -> AdminRead:
        """Read the requests about these topics."""
        above = [f"{kind}/{topic}" for kind in _BY_PARTITION for topic in topics]
        paths = {DeleteTopicZnode.path(topic) for topic in topics}
        for parent, names in zip(above, await asyncio.gather(*map(self._children, above)), strict=True):
            paths |= {f"{parent}/{name}" for name in names}
        paths |= self._seen_below(above)
        read = await self.read(paths)
        # A watch may have reported others meanwhile. This read, which is reported later, must not leave them
        # out.
        while told := self._seen_below(above) - paths:
            paths |= told
            read = await self.read(paths)
        return read

    def _seen_below(self, parents: Collection[str]) -> set[str]:
        return {path for path in self._seen if path.rpartition("/")[0] in parents}

    async def read(self, paths: Iterable[str]) -> AdminRead:
        """Read these paths, which the watch has named: their content, or that they are gone."""
        wanted = [path for path in sorted(paths) if path not in _SILENT]
        found = await self._session.multi_read(wanted)
        read = AdminRead()
        throttle: ev.StoredThrottle | None = None
        for path in wanted:
            znode = found.get(path)
            (self._seen.discard if znode is None else self._seen.add)(path)
            try:
                if path == ReassignmentThrottleZnode.path():
                    throttle = _throttle(znode)
                else:
                    _take_in(read, path, znode)
            except ZnodeGarbage as error:
                read.admin.complaints[path] = f"{error.reason}; correct it or delete it" if znode else None
            else:
                read.admin.complaints[path] = None
        admin = read.admin
        return AdminRead(
            ev.AdminZnodes(
                admin.reassignments,
                admin.additions,
                admin.removals,
                admin.deletions,
                throttle,
                admin.complaints,
            ),
            read.configs,
        )

    async def _tree_below(self, path: str) -> set[str]:
        """All paths below this one, level by level, in twice as many round trips as there are levels.

        Names are only asked for if a znode has children: thousands of moves have none.
        """
        found: set[str] = set()
        level = [path]
        while level:
            standing = await self._session.multi_read(level)
            parents = [each for each, znode in standing.items() if znode.children_count]
            names = await asyncio.gather(*(self._children(each) for each in parents))
            level = [f"{each}/{name}" for each, below in zip(parents, names, strict=True) for name in below]
            found.update(level)
        return found

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._session.children(path)
        except NoNode:
            return []


def _throttle(znode: Znode | None) -> ev.StoredThrottle:
    if znode is None:
        return ev.StoredThrottle(0, None)
    return ev.StoredThrottle(ReassignmentThrottleZnode.decode(znode.data).throttle_bytes_per_s, znode.version)


def _take_in(read: AdminRead, path: str, znode: Znode | None) -> None:
    """Put the content of a path where it belongs; raises ZnodeGarbage if nothing can belong there."""
    parent, _, name = path.rpartition("/")
    if path in _OF_OTHERS:
        if znode is not None:
            _OF_OTHERS[path](znode.data)
        return
    if parent == cluster_znodes.DELETE_TOPICS:
        read.admin.deletions[_topic(path, name)] = _deletion(znode)
        return
    if parent == cluster_znodes.TOPIC_CONFIGS:
        configs = None if znode is None else dict(TopicConfigZnode.decode(znode.data).configs)
        read.configs[_topic(path, name)] = (
            None if znode is None or configs is None else (configs, znode.version)
        )
        return
    if parent in _BY_PARTITION:
        _topic(path, name)  # the znode of a topic is empty; its children count
        return
    kind, _, topic = parent.rpartition("/")
    if kind not in _BY_PARTITION:
        raise ZnodeGarbage(path, "Hightide knows no request with this path")
    key = TopicPartition(_topic(path, topic), cluster_znodes.partition_of(name))
    if kind == cluster_znodes.REASSIGNMENTS:
        read.admin.reassignments[key] = None if znode is None else _reassignment(znode)
    elif kind == cluster_znodes.PARTITIONS_ADD:
        added = None if znode is None else PartitionAddZnode.decode(znode.data)
        read.admin.additions[key] = (
            None if znode is None or added is None else ev.StoredAddition(added.replicas, znode.version)
        )
    else:
        read.admin.removals[key] = None if znode is None else ev.StoredRemoval(znode.version)


def _topic(path: str, name: str) -> str:
    if not is_legal_topic_name(name):
        raise ZnodeGarbage(path[:_NAME_CHARACTERS], f"{name[:_NAME_CHARACTERS]!r} is no topic name")
    return name


def _reassignment(znode: Znode) -> ev.StoredReassignment:
    content = ReassignmentZnode.decode(znode.data)
    return ev.StoredReassignment(
        content.replicas, content.original, znode.version, content.traceparent, znode.czxid
    )


def _deletion(znode: Znode | None) -> ev.StoredDeletion | None:
    if znode is None:
        return None
    return ev.StoredDeletion(DeleteTopicZnode.decode(znode.data).topic_id.hex(), znode.version)
