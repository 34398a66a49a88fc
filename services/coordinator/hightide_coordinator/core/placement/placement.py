"""The central question of this design: *given the owner of a partition, the member that may be reading it,
and the member that should own it, what is the next step?*

Joins, leaves, deaths, changes of topics, refused stores, returns and takeovers all change one of the three
and ask again. None of them has a procedure of its own. The answer is the bucket in which the partition then
waits:

| reader | owner (durable) | should be | next step |
| --- | --- | --- | --- |
| a member, as its owner | that member | that member's | none: it is where it should be |
| a member | any other, or none | anything | StopFetcher (`stops`); no other member gets an order before |
| none | another | a member's | look up where it starts (`asks`), then write the owner down (`gives`) |
| none | a member | nobody's | write down that it has no owner (`gives`) |
| none | a member | that member's | StartFetcher (`starts`) |

A partition is `waiting` if its next step depends on an open answer, on a member that is away, or on the next
attempt.
"""

from __future__ import annotations

from collections.abc import Iterable

from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.member import Bucket, Member, OrderKind
from hightide_coordinator.core.values.registration import OffsetReset, PartitionOwner
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["heir_of", "is_start_found", "place", "place_all", "set_owner", "start_reading", "stop_reading"]


def place(group: Group, name: TopicPartition) -> None:
    """Decide the next step of one partition again, because something about it changed."""
    bucket = group.steps.pop(name, None)
    if bucket is not None:
        del bucket[name]
    bucket = _next_step(group, name)
    if bucket is not None:
        bucket[name] = None
        group.steps[name] = bucket


def place_all(group: Group, names: Iterable[TopicPartition]) -> None:
    """The same for several; `names` may be one of the buckets."""
    for name in tuple(names):
        place(group, name)


def heir_of(group: Group, name: TopicPartition) -> Member | None:
    """The member that should own the partition; None if there is none, or it is gone."""
    wanted = group.target.get(name)
    return None if wanted is None else group.by_identity.get(wanted.consumer_id)


def _next_step(group: Group, name: TopicPartition) -> Bucket | None:
    owner = group.owners.get(name)
    wanted = group.target.get(name)
    heir = None if wanted is None else group.by_identity.get(wanted.consumer_id)
    is_settled = (
        owner is not None
        and heir is not None
        and wanted is not None
        and owner.member_id == heir.member_id
        and owner.stream == wanted.stream
        and name not in group.renewed
    )
    reader = group.readers.get(name)
    if reader is not None:
        if is_settled and reader is heir and reader.reading[name] == owner:
            return _started_again(group, name, reader) if name in reader.unstarted else None
        return _to_be_stopped(group, name, reader)
    store = group.store
    if store is not None and (name in store.owners or name in store.offsets):
        return group.waiting
    if group.is_reading:
        return group.waiting  # A write with an unknown outcome may change what counts as durable.
    if wanted is None:
        return None if owner is None else group.gives
    if heir is None:
        return group.waiting
    if heir.registration is None:
        return None if is_settled else group.waiting
    if is_settled and name not in group.positions and _has_start(group, name, heir):
        return _ordered(group, heir, heir.starts) if heir.is_connected else None
    return _to_be_given(group, name, heir)


def _to_be_stopped(group: Group, name: TopicPartition, reader: Member) -> Bucket:
    order = reader.order
    is_ordered = order is not None and order.kind is OrderKind.STOP and name in order.partitions
    if is_ordered or reader.is_resting or not reader.is_connected:
        return group.waiting
    return _ordered(group, reader, reader.stops)


def _started_again(group: Group, name: TopicPartition, reader: Member) -> Bucket:
    if reader.is_resting or not reader.is_connected:
        return group.waiting
    return _ordered(group, reader, reader.starts)


def _ordered(group: Group, member: Member, bucket: Bucket) -> Bucket:
    group.to_order[member.member_id] = member
    return bucket


def _has_start(group: Group, name: TopicPartition, heir: Member) -> bool:
    return name in group.offsets or heir.offset_reset is OffsetReset.ERROR


def is_start_found(group: Group, name: TopicPartition, heir: Member) -> bool:
    """Whether the start of the partition was looked up for this intended owner. A start that was found for
    another one, with another preference, does not count."""
    found = group.found.get(name)
    return found is not None and found.offset_reset is heir.offset_reset


def _to_be_given(group: Group, name: TopicPartition, heir: Member) -> Bucket:
    if _has_start(group, name, heir) or name in group.positions or is_start_found(group, name, heir):
        return group.gives
    return group.waiting if name in group.asked or name in group.failed_partitions else group.asks


# ---- what is known of a partition changes here, and nowhere else


def set_owner(group: Group, name: TopicPartition, owner: PartitionOwner | None) -> None:
    """Set the durable owner of the partition; None: it has none. The caller places it afterwards."""
    before = group.owners.get(name)
    if before is not None:
        owned = group.owned[before.member_id]
        del owned[name]
        if not owned:
            del group.owned[before.member_id]
        holder = group.members.get(before.member_id)
        if holder is not None:
            holder.sought.pop(name, None)
            holder.resets.pop(name, None)
    if owner is None:
        group.owners.pop(name, None)
        return
    group.owners[name] = owner
    owned_now = group.owned.get(owner.member_id)
    if owned_now is None:
        group.owned[owner.member_id] = {name: None}
    else:
        owned_now[name] = None


def start_reading(group: Group, name: TopicPartition, member: Member) -> None:
    """Take note that the member may be reading it from now on, as its owner."""
    assert group.readers.get(name) in (None, member), f"{name} of {group.name} has two readers"
    group.readers[name] = member
    member.reading[name] = group.owners.get(name)


def stop_reading(group: Group, name: TopicPartition, member: Member) -> None:
    """Take note that the member does not read it any more, or does not count any more."""
    member.unstarted.pop(name, None)
    if name in member.reading:
        del member.reading[name]
        del group.readers[name]
