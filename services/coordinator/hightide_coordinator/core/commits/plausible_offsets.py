"""Offsets beyond the end of their partition: found out before they are written down.

Theory of operation. A committed offset goes forward only, so one that lies beyond the log's end stands in the
way of all true ones. A coordinator knows no ends; brokers do, and asking takes some milliseconds. So it asks
where that is worth it: whoever is no member is asked about each step forward, a member about a leap, which is
more records than one reads between two commits. Where an end cannot be found, because its leader is away, a
leap is refused until it can, and a mere step is taken: a group must be able to commit during a failover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hightide_coordinator.core.effects import LookUpOffsets, Report
from hightide_coordinator.core.events import Commit, OffsetsLookedUp
from hightide_coordinator.core.state.group import Group, PositionChecking
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import Committed, ConsumerPosition, OffsetReset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["LEAP_RECORDS", "check_position", "doubtful", "is_leap", "latest_offset", "position_found"]

LEAP_RECORDS: Final = 1 << 24
"""A member that reads a million records a second in one partition takes 17 s for so many; it commits, or
tells where it is, each few seconds."""


def latest_offset(group: Group, name: TopicPartition) -> int:
    """The highest offset that is durable, on its way or to be written; -1: none."""
    latest = group.positions.get(name)
    if latest is None and group.store is not None:
        latest = group.store.offsets.get(name)
    if latest is None:
        latest = group.offsets.get(name)
    return -1 if latest is None else latest.offset


def is_leap(offset: int, latest: int) -> bool:
    """Whether it is further on than a member reads at a time."""
    return offset - max(0, latest) > LEAP_RECORDS


def doubtful(
    state: ShardState, group: Group | None, member_id: str, commits: Iterable[Commit]
) -> dict[TopicPartition, OffsetReset]:
    """The partitions whose ends are to be looked up before these commits are judged, with what to ask for."""
    names: dict[TopicPartition, OffsetReset] = {}
    if group is not None and group.members and not member_id:
        return names  # It will be refused, wherever they end.
    for commit in commits:
        topic = state.topics.get(commit.name.topic)
        if topic is None or not 0 <= commit.name.partition < topic.partition_count:
            continue
        latest = -1 if group is None else latest_offset(group, commit.name)
        if is_leap(commit.offset, latest) or (not member_id and commit.offset > max(0, latest)):
            names[commit.name] = OffsetReset.LARGEST
    return names


def check_position(
    state: ShardState, group: Group, member: Member, position: ConsumerPosition, sequence: int | None
) -> None:
    """A position that leaps is held back until its partition's end is known; the next answer tells it again.
    One that was found to lie beyond is not asked for again."""
    if group.leaps.get(position.name) == position.offset:
        return
    if len(state.leaps) >= state.limits.leaps_checked_max:
        return
    group.leaps[position.name] = position.offset
    state.last_look_up_id += 1
    state.leaps[state.last_look_up_id] = PositionChecking(group.name, member.member_id, position, sequence)
    state.do(LookUpOffsets(state.last_look_up_id, {position.name: OffsetReset.LARGEST}))


def position_found(
    state: ShardState, group: Group, checking: PositionChecking, event: OffsetsLookedUp
) -> bool:
    """Whether the position that was held back lies in its partition. Where the end was not found, it is asked
    for again with the next answer; where it lies beyond, operators are told, once."""
    position = checking.position
    end = event.found.get(position.name)
    if end is not None and position.offset > end.offset:
        state.do(Report(_beyond(group, checking, event.found), is_warning=True))
        return False
    group.leaps.pop(position.name, None)
    return end is not None


def _beyond(group: Group, checking: PositionChecking, found: Mapping[TopicPartition, Committed]) -> str:
    name, offset = checking.position.name, checking.position.offset
    return (
        f"member {checking.member_id} of group {group.name} says that it has read "
        f"{name.topic}/{name.partition} up to {offset}, which ends at {found[name].offset}: "
        "that is not written down"
    )
