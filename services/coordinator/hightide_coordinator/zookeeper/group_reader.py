"""Reads groups from ZooKeeper: generation, owners, offsets. Any number of groups takes few round trips."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from hightide_runtime.znodes.cluster_znodes import ZnodeGarbage
from hightide_runtime.znodes.content import number_from_name
from hightide_runtime.znodes.group_znodes import (
    GROUPS,
    GroupZnode,
    OffsetZnode,
    OwnerZnode,
    is_legal_group_name,
)
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.session import Znode, ZooKeeperSession

from hightide_coordinator.core.values.registration import PartitionOwner, StoredGroup, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.zookeeper.cluster_reader import ClusterReader
from hightide_coordinator.zookeeper.complaints import Complaints
from hightide_coordinator.zookeeper.group_layout import GroupLayout

__all__ = ["GroupFound", "GroupReader"]


@dataclass(slots=True)
class GroupFound:
    """One group, and the layout of its znodes."""

    stored: StoredGroup
    layout: GroupLayout


@dataclass(slots=True)
class _Parts:
    layout: GroupLayout
    group: GroupZnode | None
    owners: dict[TopicPartition, PartitionOwner] = field(default_factory=dict)
    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=set)


class GroupReader:
    """Reads groups. One for each process. Methods raise ConnectionLost and SessionExpired.

    A znode that cannot be decoded gives a complaint. Then a partition has no owner, or no committed offset,
    and the next write replaces the znode. A group whose own znode is invalid has the highest generation of
    its owners.
    """

    def __init__(self, session: ZooKeeperSession, cluster: ClusterReader, complaints: Complaints) -> None:
        self._session = session
        self._cluster = cluster
        self._complaints = complaints

    async def names(self) -> list[str]:
        """The names of all groups."""
        names = []
        for name in await self._session.children(GROUPS):
            if is_legal_group_name(name):
                names.append(name)
            else:
                self._complaints.complain(f"{GROUPS}/{name[:260]}", "no group can have this name")
        return names

    async def read(
        self, groups: Collection[str], unreadable: frozenset[str] = frozenset()
    ) -> dict[str, GroupFound]:
        """Read these groups. Those that do not exist are absent.

        Data about topics that cannot be read now, or could not when the caller read them (`unreadable`), is
        not returned. The result only says that the group has some, so that the topics do not count as
        deleted. A caller that then writes data about them is refused, and reads the group again.
        """
        own = await self._session.multi_read(GroupZnode.path(name) for name in groups)
        parts = {name: self._begun(own[path]) for name in groups if (path := GroupZnode.path(name)) in own}
        await self._read_below(parts, unreadable)
        return {name: GroupFound(_stored(each), each.layout) for name, each in parts.items()}

    async def tree(self, group: str) -> list[tuple[str, int]]:
        """All znodes below the group's own one, with their versions, for its deletion. An operator may have
        created some of them."""
        found: list[tuple[str, int]] = []
        level = [GroupZnode.path(group)]
        while level:
            children = await self._session.multi_children(level)
            below = [f"{path}/{name}" for path, names in children.items() for name in names]
            read = await self._session.multi_read(below)
            found += [(path, znode.version) for path, znode in read.items()]
            level = [path for path, znode in read.items() if znode.children_count]
        return found

    def _begun(self, znode: Znode) -> _Parts:
        layout = GroupLayout(znode.path, content=znode.data)
        layout.add(znode.path, znode.version)
        try:
            group = GroupZnode.decode(znode.data)
        except ZnodeGarbage as error:
            self._complaints.complain(znode.path, error.reason, "its next rebalance writes it anew")
            return _Parts(layout, None)
        self._complaints.settled(znode.path)
        return _Parts(layout, group)

    async def _read_below(self, parts: dict[str, _Parts], unreadable: frozenset[str]) -> None:
        roots: dict[str, str] = {}
        for name in parts:
            roots |= {OwnerZnode.parent(name): name, OffsetZnode.parent(name): name}
        topics: dict[str, tuple[str, str]] = {}
        for root, children in (await self._session.multi_children(roots)).items():
            parts[roots[root]].layout.add(root, -1)
            for topic in children:
                if not is_legal_topic_name(topic):
                    self._complaints.complain(f"{root}/{topic[:260]}", "no topic can have this name")
                else:
                    topics[f"{root}/{topic}"] = (roots[root], topic)
        unreadable |= (await self._cluster.topics({topic for _, topic in topics.values()})).unreadable
        for group, topic in topics.values():
            if topic in unreadable:
                parts[group].withheld.add(topic)
        topics = {path: each for path, each in topics.items() if each[1] not in unreadable}
        leaves: dict[str, tuple[str, TopicPartition]] = {}
        for parent, children in (await self._session.multi_children(topics)).items():
            group, topic = topics[parent]
            parts[group].layout.add(parent, -1)
            for name, partition in self._numbers(parent, children):
                leaves[f"{parent}/{name}"] = (group, TopicPartition(topic, partition))
        for path, znode in (await self._session.multi_read(leaves)).items():
            group, partition_name = leaves[path]
            self._note(parts[group], partition_name, znode)

    def _numbers(self, parent: str, names: Iterable[str]) -> Iterable[tuple[str, int]]:
        for name in names:
            try:
                yield name, number_from_name(parent, name)
            except ZnodeGarbage as error:
                self._complaints.complain(f"{parent}/{name[:260]}", error.reason)

    def _note(self, parts: _Parts, name: TopicPartition, znode: Znode) -> None:
        parts.layout.add(znode.path, znode.version)
        try:
            if znode.path.split("/")[4] == "owners":
                parts.owners[name] = _owner_of(OwnerZnode.decode(znode.data))
            else:
                parts.offsets[name] = _committed_of(OffsetZnode.decode(znode.data))
        except ZnodeGarbage as error:
            self._complaints.complain(znode.path, error.reason, "the next rebalance or commit writes it anew")
        else:
            self._complaints.settled(znode.path)


def _stored(parts: _Parts) -> StoredGroup:
    if parts.group is not None:
        generation, timeout_ms = parts.group.generation, parts.group.session_timeout_ms
    else:
        generation = max((owner.generation for owner in parts.owners.values()), default=0)
        timeout_ms = 0
    return StoredGroup(generation, timeout_ms, parts.owners, parts.offsets, frozenset(parts.withheld))


def _owner_of(znode: OwnerZnode) -> PartitionOwner:
    return PartitionOwner(
        member_id=znode.member_id,
        consumer_id=znode.consumer_id,
        instance_id=znode.instance_id,
        stream=znode.stream,
        generation=znode.generation,
        topic_id=znode.topic_id,
        first_leader_epoch=znode.first_leader_epoch,
    )


def _committed_of(znode: OffsetZnode) -> StoredOffset:
    return StoredOffset(
        znode.offset, znode.leader_epoch, znode.topic_id, znode.metadata, znode.first_leader_epoch
    )
