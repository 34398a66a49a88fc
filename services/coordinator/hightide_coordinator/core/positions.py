"""Positions that consumers tell with their answers (consumer coordinator §11; C3)."""

from __future__ import annotations

from collections.abc import Iterable

from hightide_coordinator.core.group import Group
from hightide_coordinator.core.member import Member
from hightide_coordinator.core.registration import Committed, Position
from hightide_coordinator.core.shard_state import ShardState
from hightide_coordinator.core.topic_partition import TopicPartition

__all__ = ["latest_offset", "note_seek", "take_positions"]


def take_positions(
    state: ShardState,
    group: Group,
    member: Member,
    positions: tuple[Position, ...],
    sequence: int | None = None,
) -> None:
    """Remember them, to be written down within the commit interval, or with the next rebalance.

    Only from the owner in the partition's generation, and only forward; what is not is passed over, since it
    is what a late answer looks like (C3). `sequence`: of the order that they answer; None: they are a
    goodbye's, after which nothing is sought.
    """
    if member.registration is None or not member.registration.auto_commit:
        return
    is_fenced = state.mends.positions_fenced
    for position in positions:
        name = position.name
        topic = state.topics.get(name.topic)
        if topic is None:
            continue
        if is_fenced and not _is_owners(group, member, position):
            continue
        if is_fenced and position.offset <= latest_offset(group, name):
            continue
        if is_fenced and sequence is not None and sequence <= member.sought.get(name, 0):
            continue  # Forward, but of before a seek back; the answer to a later Ping tells what holds.
        group.positions[name] = Committed(position.offset, position.leader_epoch, topic.topic_id)
        if not group.positions_due_ms:
            group.positions_due_ms = state.now_ms + state.limits.commit_interval_ms
            state.look_at(group)


def _is_owners(group: Group, member: Member, position: Position) -> bool:
    owner = group.owners.get(position.name)
    if owner is None or owner.member_id != member.member_id or owner.generation != position.generation:
        return False
    return group.store is None or position.name not in group.store.owners


def note_seek(group: Group, member: Member, names: Iterable[TopicPartition]) -> None:
    """The member commits a reset of these: answers that are on their way may have been given before it
    sought. Forgotten with the stream, whose answers alone can be so old, and with what it owns."""
    for name in names:
        if name in group.owned.get(member.member_id, {}):
            member.sought[name] = member.sequence


def latest_offset(group: Group, name: TopicPartition) -> int:
    """The highest offset that is durable, on its way or to be written; -1: none."""
    latest = group.positions.get(name)
    if latest is None and group.store is not None:
        latest = group.store.offsets.get(name)
    if latest is None:
        latest = group.offsets.get(name)
    return -1 if latest is None else latest.offset
