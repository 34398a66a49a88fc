"""Finding offsets beyond the end of their partition before they are stored.

Theory of operation. A committed offset only goes forward, so an offset beyond the log's end blocks all true
ones. A coordinator does not know the ends; brokers do, and asking takes some milliseconds. So it asks where
that is worth it: for a caller that is no member, about each step forward; for a member, about a leap, which
is more records than a consumer reads between two commits. If an end cannot be found because its leader is
away, a leap is refused until it can, and a smaller step is accepted: a group must be able to commit during a
failover.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hightide_coordinator.core.effects import LogSentence, LookUpOffsets
from hightide_coordinator.core.events import OffsetCommit, OffsetsLookedUp
from hightide_coordinator.core.state.group import Group, PositionChecking
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import ConsumerPosition, OffsetReset, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["LEAP_RECORDS", "check_position", "doubtful", "is_leap", "latest_offset", "position_found"]

LEAP_RECORDS: Final = 1 << 24
"""A member that reads a million records a second in one partition takes 17 s for so many. It commits, or
reports its position, every few seconds."""


def latest_offset(group: Group, name: TopicPartition) -> int:
    """The highest offset that is durable, being written, or waiting; -1: none."""
    latest = group.positions.get(name)
    if latest is None and group.store is not None:
        latest = group.store.offsets.get(name)
    if latest is None:
        latest = group.offsets.get(name)
    return -1 if latest is None else latest.offset


def is_leap(offset: int, latest: int) -> bool:
    """Whether the offset is further on than a member reads between two commits."""
    return offset - max(0, latest) > LEAP_RECORDS


def doubtful(
    state: ShardState, group: Group | None, member_id: str, commits: Iterable[OffsetCommit]
) -> dict[TopicPartition, OffsetReset]:
    """The partitions whose ends have to be looked up before these commits are judged, with what identifies
    them."""
    names: dict[TopicPartition, OffsetReset] = {}
    if group is not None and group.members and not member_id:
        return names  # It will be refused, whatever their ends are.
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
    """Hold back a position that leaps until its partition's end is known; the next answer reports it again.
    One that was found to be beyond the end is not looked up again."""
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
    """Whether a held-back position is within its partition. If the end was not found, it is looked up again
    with the next answer. If the position is beyond it, operators get one report."""
    position = checking.position
    end = event.found.get(position.name)
    if end is not None and position.offset > end.offset:
        state.do(LogSentence(_beyond(group, checking, event.found), is_warning=True))
        return False
    group.leaps.pop(position.name, None)
    return end is not None


def _beyond(group: Group, checking: PositionChecking, found: Mapping[TopicPartition, StoredOffset]) -> str:
    name, offset = checking.position.name, checking.position.offset
    return (
        f"member {checking.member_id} of group {group.name} says that it has read "
        f"{name.topic}/{name.partition} up to {offset}, which ends at {found[name].offset}: "
        "that is not written down"
    )
