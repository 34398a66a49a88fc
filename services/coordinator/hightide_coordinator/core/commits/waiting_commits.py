"""Limits of requests that wait for ZooKeeper: their number, offsets and memory. ZooKeeper may be away for
long, while callers give up and try again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hightide_coordinator.core.events import OffsetCommit
from hightide_coordinator.core.state.descriptions import QuestionRefused
from hightide_coordinator.core.state.group import CommitWaiting, Group
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.refusals import Refusal

__all__ = ["bytes_of", "no_room", "note_answered", "wait_for_store"]

_COMMIT_BYTES: Final = 500
"""Bytes of one commit, without its strings."""


def bytes_of(commits: Iterable[OffsetCommit]) -> int:
    """About how much memory the commits take."""
    return sum(_COMMIT_BYTES + len(each.name.topic) + len(each.metadata.encode()) for each in commits)


def no_room(
    state: ShardState, name: str, group: Group | None, commits: tuple[OffsetCommit, ...]
) -> QuestionRefused | None:
    """The reason why these commits of the group may not wait too; None: they may."""
    limits = state.limits
    metadata = {"group": name}
    if group is not None and len(group.commits) >= limits.commits_waiting_max:
        message = f"{len(group.commits)} commits of group {name} wait for ZooKeeper; try again later"
        return QuestionRefused(Refusal.OVERLOADED, message, metadata)
    if group is not None and group.offsets_waiting + len(commits) > limits.offsets_waiting_max:
        message = (
            f"{group.offsets_waiting} offsets of group {name} wait for ZooKeeper, and with these "
            f"{len(commits)} they would be more than {limits.offsets_waiting_max}; try again later"
        )
        return QuestionRefused(Refusal.OVERLOADED, message, metadata)
    if state.waiting_bytes + bytes_of(commits) > limits.commit_bytes_waiting_max:
        message = (
            f"the commits of all groups that wait for ZooKeeper take {state.waiting_bytes} bytes, and there "
            f"is no room for {len(commits)} more of group {name}; try again later"
        )
        return QuestionRefused(Refusal.OVERLOADED, message, metadata)
    return None


def wait_for_store(state: ShardState, group: Group, request: CommitWaiting) -> None:
    """Let the request wait for the group's next store."""
    group.commits.append(request)
    group.offsets_waiting += len(request.commits)
    state.waiting_bytes += bytes_of(request.commits)
    state.look_at(group)


def note_answered(state: ShardState, group: Group, requests: Iterable[CommitWaiting]) -> None:
    """Take note that these requests do not wait any more."""
    for request in requests:
        group.offsets_waiting -= len(request.commits)
        state.waiting_bytes -= bytes_of(request.commits)
