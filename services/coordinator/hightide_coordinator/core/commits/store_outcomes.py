"""The outcomes of stores, and the content of a group that is read again from ZooKeeper (C4, C5)."""

from __future__ import annotations

from msgspec.structs import replace

from hightide_coordinator.core.commits.offset_deletion import answer_offset_deletions
from hightide_coordinator.core.commits.store_building import answer_commits, forget_group
from hightide_coordinator.core.commits.stored_groups import counts_surely, valid_offsets, valid_owners
from hightide_coordinator.core.effects import AnswerDelete, CloseConnection, ReadGroup
from hightide_coordinator.core.events import GroupRead, StoreCommitted, StoreRefused, StoreUnknown
from hightide_coordinator.core.placement.placement import place, place_all, set_owner
from hightide_coordinator.core.placement.unreadable_topics import still_withheld, withhold
from hightide_coordinator.core.state.group import Group, GroupState, StoreInFlight
from hightide_coordinator.core.state.group_changes import backoff_ms, fail_attempt, note_change
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import StoredGroup, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["on_group_read", "on_store_committed", "on_store_failed"]


def on_store_committed(state: ShardState, event: StoreCommitted) -> None:
    """Handle a durable store: members get their orders, and callers their answers."""
    group = state.stores.pop(event.store_id)
    store = group.store
    assert store is not None, group.name
    group.store = None
    group.store_failures = 0
    group.store_not_before_ms = 0
    state.look_at(group)
    if store.deletes:
        _deleted(state, group, store)
        return
    group.is_stored = True
    lost = set()
    for name, committed in store.offsets.items():
        if name in group.voided and (
            committed is None or not counts_surely(state.topics.get(name.topic), name, committed)
        ):
            lost.add(name)  # The topic was deleted during the write.
            continue
        if committed is None:
            group.offsets.pop(name, None)
            group.doubtful.add(name.topic)
        else:
            group.offsets[name] = committed
            state.concern(group, name.topic)
    for name, owner in store.owners.items():
        if name not in group.voided:
            set_owner(group, name, owner)
        if owner is None:
            group.doubtful.add(name.topic)
        group.renewed.discard(name)
        place(group, name)
    for name in store.offsets:
        if name in group.steps:
            place(group, name)
    if lost:
        _take_back(store, lost)
    answer_commits(state, group, store.commits)
    answer_offset_deletions(state, store.offset_deletions)
    for connection_id in store.farewells:
        state.do(CloseConnection(connection_id))


def _take_back(store: StoreInFlight, lost: set[TopicPartition]) -> None:
    """Correct the answers: an offset that was written for a deleted partition is not reported as durable."""
    for request in store.commits:
        request.outcomes = tuple(
            replace(
                outcome,
                refusal=Refusal.UNKNOWN_PARTITION,
                message=f"{outcome.name.topic}/{outcome.name.partition} was deleted while this was written",
            )
            if outcome.refusal is None and outcome.name in lost
            else outcome
            for outcome in request.outcomes
        )


def _deleted(state: ShardState, group: Group, store: StoreInFlight) -> None:
    for name in tuple(group.owners):
        set_owner(group, name, None)
    group.offsets.clear()
    group.is_stored = False
    deletes = store.deletes
    if not group.members and not group.commits:
        deletes, group.deletes = deletes + group.deletes, []  # Later requests are done too.
    for request in deletes:
        state.do(AnswerDelete(request.request_id))
    forgotten, group.offset_deletions = group.offset_deletions, []
    answer_offset_deletions(state, forgotten)  # They went with the group.
    if group.members or group.commits or group.farewells:
        place_all(group, group.target)
    else:
        del state.due_groups[group.name]
        forget_group(state, group)


def on_store_failed(state: ShardState, event: StoreRefused | StoreUnknown) -> None:
    """Handle a store with an unknown result: its content is kept, and the group is read again first."""
    group = state.stores.pop(event.store_id)
    store = group.store
    assert store is not None, group.name
    group.store = None
    group.is_reading = True
    group.store_failures += 1
    group.store_not_before_ms = state.now_ms + backoff_ms(state, group.store_failures)
    for name, told in {**store.positions, **_committed_by_members(group, store)}.items():
        later = group.positions.get(name)
        if name not in group.voided and (later is None or later.offset < told.offset):
            group.positions[name] = told
    if group.positions and not group.positions_due_ms:
        group.positions_due_ms = state.now_ms
    group.commits = store.commits + group.commits
    group.deletes = store.deletes + group.deletes
    group.offset_deletions = store.offset_deletions + group.offset_deletions
    group.farewells = store.farewells + group.farewells
    state.do(ReadGroup(group.name))
    if store.owners and group.members:
        is_refused = isinstance(event, StoreRefused)
        what = (
            "refused, because somebody else had changed the znodes"
            if is_refused
            else "cut off by ZooKeeper, with an unknown outcome"
        )
        fail_attempt(state, group, f"the write of generation {group.generation} was {what}")
    place_all(group, store.owners)
    place_all(group, store.offsets)
    state.look_at(group)


def _committed_by_members(group: Group, store: StoreInFlight) -> dict[TopicPartition, StoredOffset]:
    """Treat what members committed as positions too. A member that leaves meanwhile reported no other
    position if none was further, and its commit does not find it as a member when it is checked again."""
    accepted = {
        commit.name
        for request in store.commits
        if request.member_id
        for commit, outcome in zip(request.commits, request.outcomes, strict=True)
        if outcome.refusal is None
    }
    forward: dict[TopicPartition, StoredOffset] = {}
    for name in accepted:
        committed, durable = store.offsets.get(name), group.offsets.get(name)
        if committed is not None and (durable is None or durable.offset < committed.offset):
            forward[name] = committed
    return forward


def on_group_read(state: ShardState, event: GroupRead) -> None:
    """Take over what ZooKeeper holds. A member that reads what it does not own there is stopped, and the
    partition is assigned again."""
    group = state.groups.get(event.group)
    if group is None or not group.is_reading:
        return
    group.is_reading = False
    group.is_stored = event.stored is not None
    stored = event.stored or StoredGroup()
    # The reader of the group may be able to decode a topic before there is news of it here.
    unknown = {topic for topic in still_withheld(state, group) if topic not in state.topics}
    stored = replace(stored, withheld=stored.withheld | unknown)
    withhold(state, group, stored.withheld)
    offsets, void_offsets = valid_offsets(state, stored)
    owners, void_owners = valid_owners(state, stored)
    # For a topic that is withheld, the earlier knowledge stays.
    offsets |= {name: each for name, each in group.offsets.items() if name.topic in stored.withheld}
    owners |= {name: each for name, each in group.owners.items() if name.topic in stored.withheld}
    group.offsets = offsets
    for name, told in tuple(group.positions.items()):
        if name in offsets and told.offset <= offsets[name].offset:
            del group.positions[name]  # The write whose answer was lost has been done.
    for name in offsets:
        state.concern(group, name.topic)
    group.voided = dict.fromkeys((*void_offsets, *void_owners))
    group.doubtful |= group.concerns
    differing = [name for name in {**group.owners, **owners} if group.owners.get(name) != owners.get(name)]
    for name in differing:
        set_owner(group, name, owners.get(name))
    group.generation = max(group.generation, stored.generation)
    if differing or group.voided:
        group.generation += 1
    place_all(group, {**group.steps, **dict.fromkeys(differing)})
    if differing and group.state is GroupState.STABLE:
        reason = "ZooKeeper says otherwise than this coordinator thought"
        note_change(state, group, RebalanceReason.ZOOKEEPER, reason, is_urgent=True)
    state.look_at(group)
