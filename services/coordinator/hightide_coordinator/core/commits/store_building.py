"""Building the next store of a group: owners, start offsets, positions and commits; one store at a time
(consumer coordinator §9 step 4.3 and 4.6, §4; C2, C4)."""

from __future__ import annotations

from hightide_coordinator.core.commits.commit_fences import refusal_of
from hightide_coordinator.core.commits.offset_deletion import answer_offset_deletions, delete_offsets
from hightide_coordinator.core.commits.waiting_commits import note_answered
from hightide_coordinator.core.effects import (
    AnswerCommit,
    AnswerDelete,
    AnswerReset,
    CloseConnection,
    ItemOutcome,
    RefuseRequest,
    StoreGroup,
)
from hightide_coordinator.core.placement.placement import heir_of, place
from hightide_coordinator.core.state.group import CommitWaiting, Group, GroupState, StoreInFlight
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import PartitionOwner, StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["answer_commits", "forget_group", "store_what_is_due"]

_GIVING_STATES = frozenset({GroupState.REBALANCING, GroupState.FAILED, GroupState.EMPTY})


def store_what_is_due(state: ShardState, group: Group) -> None:
    """Build the group's next store, if there is something to store and no store is under way."""
    if group.store is not None or group.is_reading or state.now_ms < group.store_not_before_ms:
        return
    gives = _may_give(state, group)
    is_flush_due = 0 < group.positions_due_ms <= state.now_ms
    has_requests = group.commits or group.offset_deletions
    if not (gives or is_flush_due or group.farewells or has_requests or group.voided):
        if group.deletes:
            _delete(state, group)
        return
    state.last_store_id += 1
    store = StoreInFlight(state.last_store_id)
    if gives or is_flush_due or group.farewells:
        store.positions, group.positions = group.positions, {}
        group.positions_due_ms = 0
        store.offsets.update(store.positions)
        store.farewells, group.farewells = group.farewells, []
    _void(group, store)
    if gives:
        _give(state, group, store)
    _commit(state, group, store)
    delete_offsets(state, group, store)
    if not store.owners and not store.offsets:
        _answer_at_once(state, group, store)
        return
    group.store = store
    _place_given(state, group, store)
    _ask_for(state, group, store)


def _ask_for(state: ShardState, group: Group, store: StoreInFlight) -> None:
    state.stores[store.store_id] = group
    state.do(
        StoreGroup(
            store_id=store.store_id,
            group=group.name,
            coordinator_epoch=state.coordinator_epoch,
            generation=group.generation,
            session_timeout_ms=group.session_timeout_ms,
            owners=store.owners,
            offsets=store.offsets,
            delete_group=bool(store.deletes),
        )
    )


def _may_give(state: ShardState, group: Group) -> bool:
    if not group.gives or group.state not in _GIVING_STATES:
        return False
    return not group.open_stops or state.now_ms >= group.gives_not_before_ms


def _give(state: ShardState, group: Group, store: StoreInFlight) -> None:
    """Add the next owners, and the start offsets of partitions without a committed one."""
    if any(_is_given_again(group, name) for name in group.gives):
        group.generation += 1
    for name in tuple(group.gives):
        wanted = group.target.get(name)
        heir = heir_of(group, name)
        if wanted is None:
            store.owners[name] = None
            continue
        if heir is None:
            place(group, name)  # The member is gone; the next target will know.
            continue
        found = group.found.get(name)
        if found is not None and found.offset_reset is not heir.offset_reset:
            del group.found[name]  # Of the intended owner before this one.
            place(group, name)
            state.look_at(group)
            if name not in group.gives:
                continue
            found = None
        topic = state.topics[name.topic]
        store.owners[name] = PartitionOwner(
            member_id=heir.member_id,
            consumer_id=heir.consumer_id,
            instance_id=heir.instance_id,
            stream=wanted.stream,
            generation=group.generation,
            topic_id=topic.topic_id,
            first_leader_epoch=topic.first_leader_epochs.get(name.partition, 0),
        )
        group.found.pop(name, None)
        if found is not None and name not in group.offsets and store.offsets.get(name) is None:
            store.offsets[name] = found.committed


def _is_given_again(group: Group, name: TopicPartition) -> bool:
    """Whether another member got it in this generation: one that died, and whose place a new member with its
    name took before another target was needed. No two members have the same partition in one generation."""
    owner, heir = group.owners.get(name), heir_of(group, name)
    return (
        owner is not None
        and heir is not None
        and owner.generation == group.generation
        and owner.member_id != heir.member_id
    )


def _place_given(state: ShardState, group: Group, store: StoreInFlight) -> None:
    """Place the partitions in the store: they wait for it (C4)."""
    group.gives_not_before_ms = state.now_ms + state.limits.join_window_ms
    for name in store.owners:
        place(group, name)


def _void(group: Group, store: StoreInFlight) -> None:
    for name in group.voided:
        store.owners[name] = None
        if name not in group.offsets:
            store.offsets.setdefault(name, None)
    group.voided = {}


def _commit(state: ShardState, group: Group, store: StoreInFlight) -> None:
    """Add commits. Each is checked against the current owners. Partitions that this store gives away are
    already stopped, so the last positions of their old owners go with it (C2)."""
    group.commits, waiting = [], group.commits
    explicit: dict[TopicPartition, StoredOffset] = {}
    for request in waiting:
        outcomes = []
        for commit in request.commits:
            name = commit.name
            before = explicit.get(name) or group.offsets.get(name)
            previous = -1 if before is None else before.offset
            refused = refusal_of(state, group, request, commit, previous)
            if refused is not None:
                outcomes.append(ItemOutcome(name, refused[0], refused[1], previous))
                continue
            topic = state.topics[name.topic]
            first = topic.first_leader_epochs.get(name.partition, 0)
            committed = StoredOffset(
                commit.offset, commit.leader_epoch, topic.topic_id, commit.metadata, first
            )
            explicit[name] = committed
            state.concern(group, name.topic)
            told = store.positions.get(name) or group.positions.get(name)
            if told is None or told.offset <= commit.offset or commit.is_reset or request.is_reset:
                store.offsets[name] = committed
                store.positions.pop(name, None)
                group.positions.pop(name, None)
            elif name in group.positions:
                # The member has reported a higher offset already. This answer holds only if that one is
                # durable.
                store.offsets[name] = store.positions[name] = group.positions.pop(name)
            outcomes.append(ItemOutcome(name, previous_offset=previous))
        request.outcomes = tuple(outcomes)
        store.commits.append(request)


def _answer_at_once(state: ShardState, group: Group, store: StoreInFlight) -> None:
    """Answer a store without writes."""
    answer_commits(state, group, store.commits)
    answer_offset_deletions(state, store.offset_deletions)
    for connection_id in store.farewells:
        state.do(CloseConnection(connection_id))


def answer_commits(state: ShardState, group: Group, commits: list[CommitWaiting]) -> None:
    """Answer commits: everything that was not refused is durable."""
    note_answered(state, group, commits)
    for request in commits:
        if request.is_reset:
            state.do(AnswerReset(request.request_id, request.outcomes))
        else:
            state.do(AnswerCommit(request.request_id, request.outcomes))


def _delete(state: ShardState, group: Group) -> None:
    if group.members:
        for request in group.deletes:
            message = f"group {group.name} has {len(group.members)} members; stop them, then delete it"
            metadata = {"group": group.name}
            state.do(RefuseRequest(request.request_id, Refusal.GROUP_NOT_EMPTY, message, metadata))
        group.deletes = []
        return
    if not group.is_stored:
        for request in group.deletes:
            state.do(AnswerDelete(request.request_id))
        group.deletes = []
        forget_group(state, group)
        return
    state.last_store_id += 1
    group.positions = {}
    group.positions_due_ms = 0
    store = StoreInFlight(state.last_store_id, deletes=group.deletes)
    group.deletes = []
    group.store = store
    _ask_for(state, group, store)


def forget_group(state: ShardState, group: Group) -> None:
    """Forget a group that is gone, or that was never stored and has no members any more."""
    assert not group.members, group.name
    assert group.store is None, group.name
    state.groups.pop(group.name, None)
    for topic in tuple(group.concerns):
        state.concern_no_more(group, topic)
