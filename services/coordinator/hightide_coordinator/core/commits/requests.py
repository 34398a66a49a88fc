"""CommitOffsets, ResetOffsets and DeleteGroup (decided like §4's committer, answered when durable; C2)."""

from __future__ import annotations

from hightide_coordinator.core.commits.commit_fences import refusal_of
from hightide_coordinator.core.commits.plausible_offsets import doubtful
from hightide_coordinator.core.commits.positions import note_seek
from hightide_coordinator.core.commits.stored_groups import identity_in
from hightide_coordinator.core.commits.waiting_commits import no_room, wait_for_store
from hightide_coordinator.core.effects import AnswerReset, ItemOutcome, LookUpOffsets, RefuseRequest
from hightide_coordinator.core.events import (
    CommitRequested,
    DeleteGroupRequested,
    OffsetCommit,
    OffsetsLookedUp,
    ResetRequested,
)
from hightide_coordinator.core.registration_checks import check_commits
from hightide_coordinator.core.state.descriptions import QuestionRefused, not_active, unknown_group
from hightide_coordinator.core.state.group import (
    CommitChecking,
    CommitWaiting,
    DeleteWaiting,
    Group,
    ResetChecking,
)
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import OffsetReset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = [
    "on_commit_ends_found",
    "on_commit_requested",
    "on_delete_requested",
    "on_ends_found",
    "on_reset_requested",
]


def refuse(state: ShardState, request_id: int, refused: QuestionRefused) -> None:
    """Refuse the request."""
    state.do(RefuseRequest(request_id, refused.refusal, refused.message, refused.metadata))


def on_commit_requested(state: ShardState, event: CommitRequested) -> None:
    """Let it wait for the group's next store, with all others that come meanwhile. First look up the ends of
    partitions in which it leaps (`plausible_offsets`).

    A member numbers its requests as it sends them, since each may take another way. Those of a member that
    does not are numbered as they come, and may be held up before they are fed: the shell looks up topics that
    are not known."""
    refused = not_active(state) or check_commits(state.limits, event.group, event.commits, event.sequence)
    group = state.groups.get(event.group)
    refused = refused or _no_room_or_stranger(state, group, event.group, event.member_id, event.commits)
    wanted = {} if refused is not None else doubtful(state, group, event.member_id, event.commits)
    if wanted and len(state.checks) >= state.limits.commits_checked_max:
        message = f"the offsets of {len(state.checks)} commits are being checked; try again in a moment"
        refused = QuestionRefused(Refusal.OVERLOADED, message, {"group": event.group})
    if refused is not None:
        refuse(state, event.request_id, refused)
        return
    member = None if group is None else group.members.get(event.member_id)
    if member is not None and member.is_connected:
        member.heard_ms = state.now_ms
    overtaken: set[TopicPartition] = set()
    if group is not None and member is not None:
        came = event.sequence or event.request_id
        overtaken = {each.name for each in event.commits if came < member.resets.get(each.name, came)}
        resets = (each.name for each in event.commits if each.is_reset and each.name not in overtaken)
        note_seek(state, group, member, resets, came)
    meant = {} if event.member_id else _meant(state, event.commits)
    checking = CommitChecking(event.request_id, event.group, event.member_id, event.commits, overtaken, meant)
    if not wanted:
        _commit(state, checking, OffsetsLookedUp(0))
        return
    state.last_look_up_id += 1
    state.checks[state.last_look_up_id] = checking
    state.do(LookUpOffsets(state.last_look_up_id, wanted))


def on_commit_ends_found(state: ShardState, event: OffsetsLookedUp) -> None:
    """Judge the commit after the look-up. Meanwhile its group may have vanished, or have no room any more."""
    _commit(state, state.checks.pop(event.look_up_id), event)


def _commit(state: ShardState, checking: CommitChecking, ends: OffsetsLookedUp) -> None:
    group = state.groups.get(checking.group)
    refused = _no_room_or_stranger(state, group, checking.group, checking.member_id, checking.commits)
    if refused is None and group is None:
        group, refused = _new_group(state, checking.group)
    if refused is not None or group is None:
        assert refused is not None
        refuse(state, checking.request_id, refused)
        return
    waiting = CommitWaiting(
        checking.request_id,
        checking.member_id,
        checking.commits,
        ends=ends.found,
        unfound=ends.failed,
        overtaken=frozenset(checking.overtaken),
        meant=checking.meant,
    )
    wait_for_store(state, group, waiting)


def _meant(state: ShardState, commits: tuple[OffsetCommit, ...]) -> dict[TopicPartition, tuple[bytes, int]]:
    """The partitions that a caller without generations can mean: those that exist now."""
    known = ((commit.name, identity_in(state, commit.name)) for commit in commits)
    return {name: identity for name, identity in known if identity is not None}


def _no_room_or_stranger(
    state: ShardState, group: Group | None, name: str, member_id: str, commits: tuple[OffsetCommit, ...]
) -> QuestionRefused | None:
    refused = no_room(state, name, group, commits)
    if refused is None and group is None and member_id:
        message = f"group {name} has no member {member_id[:250]!r}; register first"
        refused = QuestionRefused(Refusal.UNKNOWN_MEMBER, message, {"group": name})
    return refused


def _new_group(state: ShardState, name: str) -> tuple[Group, None] | tuple[None, QuestionRefused]:
    if len(state.groups) >= state.limits.groups_max:
        message = (
            f"there are {state.limits.groups_max} groups already, the most of a coordinator; delete some "
            "(`hightide group ls`)"
        )
        return None, QuestionRefused(Refusal.LIMIT_EXCEEDED, message, {"group": name})
    group = state.groups[name] = Group(name, reason="it has no members")
    return group, None


def on_reset_requested(state: ShardState, event: ResetRequested) -> None:
    """Reset offsets of a group without members. First look up the ends of its partitions at the brokers."""
    refused = not_active(state) or check_commits(state.limits, event.group, event.commits)
    if refused is None:
        refused = _not_empty(state, event.group, "reset its offsets")
    if refused is None and len(state.resets) >= state.limits.resets_checked_max:
        message = f"the offsets of {len(state.resets)} resets are being checked; try again in a moment"
        refused = QuestionRefused(Refusal.OVERLOADED, message, {"group": event.group})
    if refused is not None:
        refuse(state, event.request_id, refused)
        return
    wanted = {
        commit.name: OffsetReset.LARGEST
        for commit in event.commits
        if commit.name.topic in state.topics
        and 0 <= commit.name.partition < state.topics[commit.name.topic].partition_count
    }
    meant = _meant(state, event.commits)
    checking = ResetChecking(event.request_id, event.group, event.commits, event.validate_only, meant)
    state.last_look_up_id += 1
    state.resets[state.last_look_up_id] = checking
    if wanted:
        state.do(LookUpOffsets(state.last_look_up_id, wanted))
    else:
        on_ends_found(state, OffsetsLookedUp(state.last_look_up_id))


def _not_empty(state: ShardState, name: str, what: str) -> QuestionRefused | None:
    group = state.groups.get(name)
    if group is None or not group.members:
        return None
    message = f"group {name} has {len(group.members)} members; stop them, then {what}"
    return QuestionRefused(Refusal.GROUP_NOT_EMPTY, message, {"group": name})


def on_ends_found(state: ShardState, event: OffsetsLookedUp) -> None:
    """Judge the reset after the look-up, and carry it out unless it is to be validated only. A partition
    whose end cannot be found is reset all the same: an operator may have to do that while its leader is
    away."""
    reset = state.resets.pop(event.look_up_id)
    refused = _not_empty(state, reset.group, "reset its offsets")
    group = state.groups.get(reset.group)
    if refused is None and not reset.validate_only:
        refused = no_room(state, reset.group, group, reset.commits)
    if refused is None and group is None:
        # A validation creates no group that did not exist.
        group, refused = (Group(reset.group), None) if reset.validate_only else _new_group(state, reset.group)
    if refused is not None or group is None:
        assert refused is not None
        refuse(state, reset.request_id, refused)
        return
    waiting = CommitWaiting(
        reset.request_id, "", reset.commits, is_reset=True, ends=event.found, meant=reset.meant
    )
    if not reset.validate_only:
        wait_for_store(state, group, waiting)
        return
    outcomes = []
    for commit in reset.commits:
        before = group.offsets.get(commit.name)
        previous = -1 if before is None else before.offset
        refusal, why = refusal_of(state, group, waiting, commit, previous) or (None, "")
        outcomes.append(ItemOutcome(commit.name, refusal, why, previous))
    state.do(AnswerReset(reset.request_id, tuple(outcomes)))


def on_delete_requested(state: ShardState, event: DeleteGroupRequested) -> None:
    """Delete a group with its offsets, after its current store."""
    refused = not_active(state)
    group = state.groups.get(event.group)
    if refused is None and group is None:
        refused = unknown_group(event.group)
    refused = refused or _not_empty(state, event.group, "delete it")
    if refused is not None or group is None:
        assert refused is not None
        refuse(state, event.request_id, refused)
        return
    if len(group.deletes) >= state.limits.deletes_waiting_max:
        message = (
            f"{len(group.deletes)} deletions of group {group.name} wait for ZooKeeper already; try again "
            "later"
        )
        refuse(state, event.request_id, QuestionRefused(Refusal.OVERLOADED, message, {"group": group.name}))
        return
    group.deletes.append(DeleteWaiting(event.request_id))
    state.look_at(group)
