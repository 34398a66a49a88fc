"""Turns a StoreGroup into multis of conditional writes, and the deletion of a group, too.

Each multi begins with a check of the coordinator epoch (C5). If a store needs several multis, each also
writes the group's znode under the version that the multi before gave it. So all can be under way at the same
time: if one fails, all later ones fail. The order is: the group's znode, offsets, owners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hightide_runtime.znodes.group_znodes import GroupZnode, OffsetZnode, OwnerZnode
from hightide_runtime.zookeeper.session import Check, Create, Delete, Operation, SetData, multis_of

from hightide_coordinator.core.effects import StoreGroup
from hightide_coordinator.core.values.registration import PartitionOwner, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.zookeeper.group_layout import GroupLayout

__all__ = ["deletion_of", "multis_for", "tidying_of"]

Group = Sequence[Operation]


def multis_for(effect: StoreGroup, layout: GroupLayout, fence: Check) -> list[list[Operation]]:
    """The multis of a store, to be sent in this order. There is at least one, so that the fence is always
    checked."""
    path = GroupZnode.path(effect.group)
    content = GroupZnode(effect.generation, effect.session_timeout_ms).encode()
    groups = [*_offset_writes(effect, layout), *_owner_writes(effect, layout)]
    return _chained(path, content, groups, layout, fence)


def deletion_of(
    group: str, found: Sequence[tuple[str, int]], layout: GroupLayout, fence: Check
) -> list[list[Operation]]:
    """The multis that delete the znodes `found` below the group's own one (path and version), the deepest
    first, then its own."""
    path = GroupZnode.path(group)
    deepest_first = sorted(found, key=lambda each: (-each[0].count("/"), each[0]))
    multis = _chained(path, layout.content, [[Delete(*each)] for each in deepest_first], layout, fence)
    # The last multi deletes the group's znode instead of writing it.
    last = multis[-1]
    at = next(i for i, each in enumerate(last) if each.path == path)
    version = last.pop(at)
    assert isinstance(version, SetData | Check)
    last.append(Delete(path, version.version))
    return multis


def tidying_of(multis: Sequence[Sequence[Operation]], layout: GroupLayout) -> list[str]:
    """The parents that have no children after these multis."""
    deleted = {op.path.rpartition("/")[0] for multi in multis for op in multi if isinstance(op, Delete)}
    return sorted(path for path in deleted if path in layout.versions and not layout.children[path])


def _chained(
    path: str, content: bytes, groups: Sequence[Group], layout: GroupLayout, fence: Check
) -> list[list[Operation]]:
    version = layout.versions.get(path)
    if version is None:
        owners, offsets = f"{path}/owners", f"{path}/offsets"
        groups = [[Create(path, content), Create(owners, b""), Create(offsets, b"")], *groups]
    # A placeholder of the same size as the operation that replaces it below.
    link = SetData(path, content, 0)
    multis = multis_of(groups, [fence, link]) or [[fence, link]]
    if version is None:
        del multis[0][1]
        following = 0
    elif len(multis) == 1 and content == layout.content:
        multis[0][1] = Check(path, version)
        return multis
    else:
        multis[0][1] = replace(link, version=version)
        following = version + 1
    for distance, multi in enumerate(multis[1:]):
        multi[1] = replace(link, version=following + distance)
    return multis


def _offset_writes(effect: StoreGroup, layout: GroupLayout) -> Iterator[Group]:
    parents: set[str] = set()
    for name, committed in effect.offsets.items():
        data = None if committed is None else _offset_znode(committed).encode()
        yield from _write(OffsetZnode.path(effect.group, *name), name, data, layout, parents)


def _owner_writes(effect: StoreGroup, layout: GroupLayout) -> Iterator[Group]:
    parents: set[str] = set()
    for name, owner in effect.owners.items():
        data = None if owner is None else _owner_znode(owner).encode()
        yield from _write(OwnerZnode.path(effect.group, *name), name, data, layout, parents)


def _write(
    path: str, name: TopicPartition, data: bytes | None, layout: GroupLayout, parents: set[str]
) -> Iterator[Group]:
    """The operations that write or delete one znode, as one group. `parents` are those that this store
    creates."""
    version = layout.versions.get(path)
    if data is None:
        if version is not None:
            yield [Delete(path, version)]
        return
    if version is not None:
        yield [SetData(path, data, version)]
        return
    parent = path.rpartition("/")[0]
    if parent in layout.versions or parent in parents:
        yield [Create(path, data)]
        return
    parents.add(parent)
    grandparent = parent.rpartition("/")[0]
    made = [Create(parent, b""), Create(path, data)]
    group_path = grandparent.rpartition("/")[0]
    # A new group gets both of them, but an operator may have deleted one later.
    if group_path in layout.versions and grandparent not in layout.versions and grandparent not in parents:
        parents.add(grandparent)
        made.insert(0, Create(grandparent, b""))
    yield made


def _owner_znode(owner: PartitionOwner) -> OwnerZnode:
    return OwnerZnode(
        member_id=owner.member_id,
        consumer_id=owner.consumer_id,
        instance_id=owner.instance_id,
        stream=owner.stream,
        generation=owner.generation,
        topic_id=owner.topic_id,
        first_leader_epoch=owner.first_leader_epoch,
    )


def _offset_znode(committed: StoredOffset) -> OffsetZnode:
    return OffsetZnode(
        committed.offset,
        committed.leader_epoch,
        committed.topic_id,
        committed.metadata,
        committed.first_leader_epoch,
    )
