"""Positions that consumers report with their answers (consumer coordinator §11; C3)."""

from __future__ import annotations

from collections.abc import Iterable

from hightide_coordinator.core.commits.plausible_offsets import (
    check_position,
    is_leap,
    latest_offset,
    position_found,
)
from hightide_coordinator.core.events import OffsetsLookedUp
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import ConsumerPosition, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["note_seek", "on_position_found", "take_positions"]


def take_positions(
    state: ShardState,
    group: Group,
    member: Member,
    positions: tuple[ConsumerPosition, ...],
    sequence: int | None = None,
    *,
    is_checked: bool = False,
) -> None:
    """Remember positions, to be stored within the commit interval, or with the next rebalance. `is_checked`:
    brokers say that their partitions go so far.

    Only positions of the owner in the partition's generation count, and only forward. Others are ignored,
    because late answers look like that (C3). `sequence`: of the order that they answer; None: they come with
    a goodbye, after which there is no seek.
    """
    if member.registration is None or not member.registration.auto_commit:
        return
    for position in positions:
        name = position.name
        topic = state.topics.get(name.topic)
        if topic is None:
            continue
        latest = latest_offset(group, name)
        if not _is_believed(group, member, position, latest, sequence):
            continue
        if not is_checked and is_leap(position.offset, latest):
            check_position(state, group, member, position, sequence)
            continue
        first = topic.first_leader_epochs.get(name.partition, 0)
        group.positions[name] = StoredOffset(
            position.offset, position.leader_epoch, topic.topic_id, first_leader_epoch=first
        )
        if not group.positions_due_ms:
            group.positions_due_ms = state.now_ms + state.limits.commit_interval_ms
            state.look_at(group)


def on_position_found(state: ShardState, event: OffsetsLookedUp) -> None:
    """Handle a partition's end that was looked up because a member's position leaps: the position is taken
    now, if the partition is still the member's and the position is within it."""
    checking = state.leaps.pop(event.look_up_id)
    group = state.groups.get(checking.group)
    if group is None or not position_found(state, group, checking, event) or checking.is_overtaken:
        return
    member = group.members.get(checking.member_id)
    if member is not None:
        take_positions(state, group, member, (checking.position,), checking.sequence, is_checked=True)


def _is_believed(
    group: Group, member: Member, position: ConsumerPosition, latest: int, sequence: int | None
) -> bool:
    if not _is_owners(group, member, position) or position.offset <= latest:
        return False
    # Otherwise it is forward, but from before a seek back; the answer to a later Ping has the current one.
    return sequence is None or sequence > member.sought.get(position.name, 0)


def _is_owners(group: Group, member: Member, position: ConsumerPosition) -> bool:
    owner = group.owners.get(position.name)
    if owner is None or owner.member_id != member.member_id or owner.generation != position.generation:
        return False
    return group.store is None or position.name not in group.store.owners


def note_seek(
    state: ShardState, group: Group, member: Member, names: Iterable[TopicPartition], request_id: int
) -> None:
    """Take note that the member commits a reset of these partitions: answers on their way may be from before
    its seek, and so may commits that came before this request. Forgotten with the ownership; for answers also
    with the stream, whose answers alone can be so old. What it told before, and is being compared with the
    ends of partitions, is passed over."""
    owned = group.owned.get(member.member_id, {})
    sought = {name for name in names if name in owned}
    if not sought:
        return
    member.sought.update(dict.fromkeys(sought, member.sequence))
    member.resets.update(dict.fromkeys(sought, request_id))
    whose = (group.name, member.member_id)
    for commit in state.checks.values():
        if (commit.group, commit.member_id) == whose:
            commit.overtaken |= sought
    for leap in state.leaps.values():
        if (leap.group, leap.member_id) == whose and leap.position.name in sought:
            leap.is_overtaken = True
