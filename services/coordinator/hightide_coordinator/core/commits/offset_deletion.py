"""DeleteOffsets: deleting committed offsets of topics that no member of the group reads (KIP-496).

It waits for the group's next store like a commit, and is checked again when that store is built, because a
member may have subscribed meanwhile. It comes after the commits of the same store.
"""

from __future__ import annotations

from collections.abc import Collection

from hightide_coordinator.core.effects import AnswerDeleteOffsets, RefuseRequest
from hightide_coordinator.core.events import DeleteOffsetsRequested
from hightide_coordinator.core.registration_checks import check_offset_deletion
from hightide_coordinator.core.state.descriptions import QuestionRefused, not_active, unknown_group
from hightide_coordinator.core.state.group import Group, OffsetDeletionWaiting, StoreInFlight
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["answer_offset_deletions", "delete_offsets", "on_delete_offsets_requested"]


def on_delete_offsets_requested(state: ShardState, event: DeleteOffsetsRequested) -> None:
    """Refuse it if a member reads one of the topics; otherwise let it wait for the group's next store."""
    refused = not_active(state) or check_offset_deletion(state.limits, event.group, event.topics)
    group = state.groups.get(event.group)
    if refused is None and group is None:
        refused = unknown_group(event.group)
    topics = frozenset(event.topics)
    if refused is None and group is not None:
        refused = _read_by_members(group, topics) or _too_many(state, group)
    if refused is not None or group is None:
        assert refused is not None
        _refuse(state, event.request_id, refused)
        return
    if event.validate_only:
        state.do(AnswerDeleteOffsets(event.request_id, len(_of_topics(group.offsets, topics))))
        return
    group.offset_deletions.append(OffsetDeletionWaiting(event.request_id, topics))
    state.look_at(group)


def delete_offsets(state: ShardState, group: Group, store: StoreInFlight) -> None:
    """Add waiting deletions to a store."""
    group.offset_deletions, waiting = [], group.offset_deletions
    for request in waiting:
        refused = _read_by_members(group, request.topics)
        if refused is not None:
            _refuse(state, request.request_id, refused)
            continue
        committed = {name for name, each in store.offsets.items() if each is not None}
        names = _of_topics({*group.offsets, *committed}, request.topics)
        for name in names:
            store.offsets[name] = None
            store.positions.pop(name, None)
        for name in _of_topics(group.positions, request.topics):
            del group.positions[name]
        for name in _of_topics(group.owners, request.topics):
            store.owners.setdefault(name, None)
        # An earlier attempt of this store may have done it, and the answer was lost.
        request.deleted_count = max(request.deleted_count, len(names))
        store.offset_deletions.append(request)


def answer_offset_deletions(state: ShardState, requests: list[OffsetDeletionWaiting]) -> None:
    """Answer deletions that are durable."""
    for request in requests:
        state.do(AnswerDeleteOffsets(request.request_id, request.deleted_count))


def _of_topics(names: Collection[TopicPartition], topics: Collection[str]) -> list[TopicPartition]:
    return [name for name in names if name.topic in topics]


def _read_by_members(group: Group, topics: frozenset[str]) -> QuestionRefused | None:
    if group.missing:
        message = (
            f"{len(group.missing)} members of group {group.name} have not come back to this coordinator yet, "
            "which cannot tell what they subscribe to; try again in a moment"
        )
        return QuestionRefused(Refusal.COORDINATOR_LOADING, message, {"group": group.name})
    read = topics.intersection(group.named_topics)
    read |= {topic for interest in group.patterns.values() for topic in topics & interest.topics}
    read |= {name.topic for name in _of_topics(group.readers, topics)}
    if not read:
        return None
    first = min(read)
    others = f" and {len(read) - 1} other topics" if len(read) > 1 else ""
    message = (
        f"members of group {group.name} read {first}{others}; stop them, or let them subscribe to other "
        "topics, then delete its offsets"
    )
    return QuestionRefused(Refusal.GROUP_NOT_EMPTY, message, {"group": group.name, "topic": first})


def _too_many(state: ShardState, group: Group) -> QuestionRefused | None:
    if len(group.offset_deletions) < state.limits.deletes_waiting_max:
        return None
    message = (
        f"{len(group.offset_deletions)} deletions of offsets of group {group.name} wait for ZooKeeper "
        "already; try again later"
    )
    return QuestionRefused(Refusal.OVERLOADED, message + "; try again later", {"group": group.name})


def _refuse(state: ShardState, request_id: int, refused: QuestionRefused) -> None:
    state.do(RefuseRequest(request_id, refused.refusal, refused.message, refused.metadata))
