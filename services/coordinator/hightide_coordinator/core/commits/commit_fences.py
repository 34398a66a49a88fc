"""Checking commits (C2): by the owner of a partition in its generation, forward, for a topic that exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hightide_coordinator.core.commits.plausible_offsets import is_leap
from hightide_coordinator.core.commits.stored_groups import identity_in
from hightide_coordinator.core.events import OffsetCommit
from hightide_coordinator.core.state.group import CommitWaiting, Group
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.refusals import Refusal

__all__ = ["not_known", "refusal_of"]


def not_known(state: ShardState, commits: Iterable[OffsetCommit]) -> Iterator[str]:
    """The topics of commits that a shard does not know, or not with such a partition.

    Called by the shell before it feeds commits to the core: a client that has just created a topic may be
    faster than the watch that reports the topic.
    """
    for commit in commits:
        topic = state.topics.get(commit.name.topic)
        if topic is None or commit.name.partition >= topic.partition_count:
            yield commit.name.topic


def refusal_of(
    state: ShardState, group: Group, request: CommitWaiting, commit: OffsetCommit, previous_offset: int
) -> tuple[Refusal, str] | None:
    """The reason why one commit is refused, in a sentence; None: it is accepted. Called when its store is
    built, so that no owner changes in between."""
    name = commit.name
    where = f"{name.topic}/{name.partition}"
    topic = state.topics.get(name.topic)
    if topic is None:
        return Refusal.UNKNOWN_TOPIC, f"topic {name.topic[:250]!r} does not exist"
    if not 0 <= name.partition < topic.partition_count:
        return Refusal.UNKNOWN_PARTITION, f"{where}: the topic has {topic.partition_count} partitions"
    is_now = identity_in(state, name)
    if request.meant.get(name, is_now) != is_now:
        return Refusal.UNKNOWN_PARTITION, f"{where} was deleted and created again while this offset waited"
    if request.is_reset and group.members:
        message = f"a consumer joined group {group.name} before {where} was reset; stop it, then reset again"
        return Refusal.GROUP_NOT_EMPTY, message
    return (
        _stranger_refusal(group, request, commit)
        or _beyond_the_end(request, commit, topic.topic_id, previous_offset)
        or _back_refusal(group, request, commit, previous_offset)
    )


def _stranger_refusal(
    group: Group, request: CommitWaiting, commit: OffsetCommit
) -> tuple[Refusal, str] | None:
    """Refuse commits of others than the owner, unless the group has no members (C2)."""
    if request.is_reset:
        return None
    if request.member_id:
        return _owner_refusal(group, request.member_id, commit)
    if group.members:
        where = f"{commit.name.topic}/{commit.name.partition}"
        message = (
            f"group {group.name} has members: only they commit {where}; give the member id, or stop them"
        )
        return Refusal.UNKNOWN_MEMBER, message
    return None


def _back_refusal(
    group: Group, request: CommitWaiting, commit: OffsetCommit, previous_offset: int
) -> tuple[Refusal, str] | None:
    """Refuse an offset that goes back, unless the commit says that it does (C2)."""
    if commit.name in request.overtaken:
        message = (
            f"the member has committed another offset of {commit.name.topic}/{commit.name.partition} as a "
            f"reset while {commit.offset} was under way; commit this one again if it is still wanted"
        )
        return Refusal.COMMIT_GOES_BACK, message
    if request.is_reset or commit.is_reset or commit.offset >= previous_offset:
        return None
    message = (
        f"offset {commit.offset} of {commit.name.topic}/{commit.name.partition} is lower than "
        f"{previous_offset}, which group {group.name} has committed; commit it as a reset if the consumer "
        "went back on purpose"
    )
    return Refusal.COMMIT_GOES_BACK, message


def _beyond_the_end(
    request: CommitWaiting, commit: OffsetCommit, topic_id: bytes, previous_offset: int
) -> tuple[Refusal, str] | None:
    where = f"{commit.name.topic}/{commit.name.partition}"
    end = request.ends.get(commit.name)
    if end is not None and end.topic_id == topic_id and commit.offset > end.offset:
        message = f"offset {commit.offset} is beyond the end of {where}, which is {end.offset}"
        return Refusal.OFFSET_OUT_OF_RANGE, message
    why = request.unfound.get(commit.name)
    if why is not None and is_leap(commit.offset, previous_offset):
        message = (
            f"offset {commit.offset} is far beyond {previous_offset}, which is committed for {where}, and "
            f"the end of the partition could not be looked up: {why}; try again later"
        )
        return Refusal.OFFSET_NOT_AVAILABLE, message
    return None


def _owner_refusal(group: Group, member_id: str, commit: OffsetCommit) -> tuple[Refusal, str] | None:
    where = f"{commit.name.topic}/{commit.name.partition}"
    if member_id in group.fenced:
        message = f"another process took over the instance of member {member_id[:250]} of group {group.name}"
        return Refusal.FENCED_INSTANCE, message
    if member_id not in group.members:
        message = f"group {group.name} has no member {member_id[:250]!r}: it left, or was declared dead"
        return Refusal.UNKNOWN_MEMBER, message
    owner = group.owners.get(commit.name)
    if owner is None or owner.member_id != member_id or owner.generation != commit.generation:
        message = (
            f"{where} does not belong to member {member_id} of group {group.name} in generation "
            f"{commit.generation}; another member got it, or this member got it again"
        )
        return Refusal.FENCED_GENERATION, message
    return None
