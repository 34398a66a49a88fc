"""Invariants of a ShardState that hold between any two events. Tests check them after each event;
O(total)."""

from __future__ import annotations

from hightide_runtime.timer_wheel import NeverDue

from hightide_coordinator.core.placement.placement import heir_of
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.member import OrderKind
from hightide_coordinator.core.state.shard_state import Role, ShardState
from hightide_coordinator.core.values.registration import StoredOffset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["check"]


def check(state: ShardState) -> None:
    """Raise AssertionError that names the violated invariant."""
    if state.role is not Role.ACTIVE:
        assert not state.groups
        assert not state.connections
        assert not state.wheel.order
        return
    assert not state.due_groups, "a group's next step is looked for in the same event"
    assert not state.effects
    assert state.member_count == sum(len(group.members) for group in state.groups.values())
    for connection_id, member in state.connections.items():
        assert member.connection_id == connection_id
        assert state.groups[member.group].members[member.member_id] is member
    _check_concerns(state)
    if not any(group.offsets_waiting for group in state.groups.values()):
        assert state.waiting_bytes == 0
    for group in state.groups.values():
        _check_members(state, group)
        _check_partitions(state, group)
        _check_steps(state, group)
        _check_progress(state, group)


def _check_concerns(state: ShardState) -> None:
    assert not state.watch_changes, "the shell is told in the same event"
    by_topic: dict[str, set[str]] = {}
    for group in state.groups.values():
        for topic in group.concerns:
            by_topic.setdefault(topic, set()).add(group.name)
        read = {*group.named_topics}.union(*(interest.topics for interest in group.patterns.values()))
        assert read <= group.concerns, f"nobody would look at {group.name}"
        for wanted, interest in group.patterns.items():
            assert interest.topics is state.patterns[wanted].topics
            assert group.name in state.patterns[wanted].groups
    assert by_topic == state.concerned
    for matches in state.patterns.values():
        assert matches.groups, f"nobody subscribes to {matches.pattern.wanted}"
        assert matches.topics <= state.topics.keys()


def _check_members(state: ShardState, group: Group) -> None:
    assert (group.state is GroupState.EMPTY) == (not group.members), f"{group.name} is {group.state}"
    assert (group.state is GroupState.RECOVERING) == bool(group.missing), f"{group.name} is {group.state}"
    assert {member.consumer_id for member in group.members.values()} == set(group.by_consumer)
    assert {member.identity for member in group.members.values()} == set(group.by_identity)
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert (member.registration is None) == (member_id in group.missing), member_id
        assert (member.order is not None) == (member_id in group.open_orders), member_id
        assert member.armed_ms != NeverDue, f"nobody will ever look at {member.consumer_id}"
        assert not member.is_connected or state.connections[member.connection_id] is member
        assert member.is_connected or member.order is None, "an order is open on no stream"
        assert member.is_resting == (member_id in group.resting), member_id
        assert set(member.unstarted) <= set(member.reading)
        assert {*member.sought, *member.resets} <= set(group.owned.get(member_id, {}))
    assert set(group.open_orders) <= set(group.members)
    stops = sum(
        1 for member in group.open_orders.values() if member.order and member.order.kind is OrderKind.STOP
    )
    assert group.open_stops == stops


def _check_partitions(state: ShardState, group: Group) -> None:
    owned: dict[str, set[TopicPartition]] = {}
    for name, owner in group.owners.items():
        owned.setdefault(owner.member_id, set()).add(name)
        assert owner.generation <= group.generation, f"{name} was given in a generation to come"
        assert name.topic in state.topics, f"{name} is owned and does not exist"
        assert group.name in state.concerned[name.topic], f"nobody would look at {group.name}"
    assert {member_id: set(names) for member_id, names in group.owned.items()} == owned
    read = [name for member in group.members.values() for name in member.reading]
    assert len(set(read)) == len(read), f"a partition of {group.name} has two readers"
    assert set(group.readers) == set(read)
    for name, member in group.readers.items():
        assert name in member.reading, f"{name} is read by another one than {member.consumer_id}"
    for name, committed in group.offsets.items():
        assert name.topic in state.topics, f"{name} has an offset and does not exist"
        assert committed.topic_id == state.topics[name.topic].topic_id, f"{name}: a namesake's offset"
        _check_forward(group, name, committed)


def _check_forward(group: Group, name: TopicPartition, committed: StoredOffset) -> None:
    told = group.positions.get(name)
    under_way = None if group.store is None else group.store.offsets.get(name)
    if told is not None and not group.is_reading:
        assert told.offset > (under_way or committed).offset, f"{name} would go back"


def _check_steps(state: ShardState, group: Group) -> None:
    buckets = [group.gives, group.asks, group.waiting]
    for member in group.members.values():
        buckets += [member.stops, member.starts]
        waits = (member.stops or member.starts) and member.order is None
        assert not waits, f"{member.consumer_id} is not told what waits for it"
        for name in member.starts:
            owner = group.owners[name]
            assert owner.member_id == member.member_id, f"{name} is started by a stranger"
            assert heir_of(group, name) is member
    waiting = [name for bucket in buckets for name in bucket]
    assert len(set(waiting)) == len(waiting), "a partition waits for two things"
    assert set(waiting) == set(group.steps)
    for name, bucket in group.steps.items():
        assert name in bucket
    assert not group.asks or group.asked or group.state is GroupState.RECOVERING


def _check_progress(state: ShardState, group: Group) -> None:
    """Check that every group that waits will get an event."""
    store = group.store
    waiting = [*group.commits, *(store.commits if store is not None else ())]
    assert group.offsets_waiting == sum(len(request.commits) for request in waiting)
    if store is not None:
        assert state.stores[store.store_id] is group
        assert not group.is_reading
    if group.asked:
        assert group in state.look_ups.values()
    is_awaited = store is not None or group.is_reading
    if group.positions:
        assert group.positions_due_ms, f"the positions of {group.name} would never be written"
    has_requests = group.commits or group.offset_deletions
    if (group.positions or has_requests or group.farewells or group.voided) and not is_awaited:
        assert group.armed_ms != NeverDue, f"what is to be written of {group.name} would never be"
    if group.retry_ms and group.state is not GroupState.RECOVERING:
        assert group.armed_ms != NeverDue, f"no attempt of {group.name} follows the one that failed"
    if group.state is GroupState.GATHERING:
        assert group.is_changed
        assert group.armed_ms != NeverDue
    if group.state is GroupState.STABLE:
        assert not group.gives, f"{group.name} is not stable: {list(group.gives)[:3]}"
    if group.state is GroupState.FAILED:
        assert group.retry_ms or group.is_changed, f"{group.name} has failed for good"
    if group.state is GroupState.REBALANCING:
        _check_going_on(group, is_awaited)


def _check_going_on(group: Group, is_awaited: bool) -> None:
    assert is_awaited or _is_going_on(group), f"{group.name} waits for nothing: {list(group.steps)[:3]}"


def _is_going_on(group: Group) -> bool:
    if group.open_orders or group.asked or group.retry_ms or group.is_changed:
        return True
    if group.gives and group.armed_ms != NeverDue:
        return True
    readers = [group.readers[name] for name in group.waiting if name in group.readers]
    return any(not reader.is_connected for reader in readers)
