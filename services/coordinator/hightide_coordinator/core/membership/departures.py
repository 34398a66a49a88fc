"""Members that join, return, leave and are lost (consumer coordinator §7, §8, §10; C2, C7, C10)."""

from __future__ import annotations

from hightide_coordinator.core.commits.positions import take_positions
from hightide_coordinator.core.effects import CloseConnection, LogSentence
from hightide_coordinator.core.events import ConnectionLost, ConsumerLeft
from hightide_coordinator.core.membership.orders import drop_order
from hightide_coordinator.core.placement.placement import place_all, stop_reading
from hightide_coordinator.core.placement.subscriptions import unsubscribe
from hightide_coordinator.core.registration_checks import check_positions
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.group_changes import note_change
from hightide_coordinator.core.state.member import NOT_CONNECTED, Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.enumeration import first_few
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.refusals import Refusal

__all__ = [
    "add_member",
    "break_stream",
    "declare_dead",
    "disconnect",
    "on_connection_lost",
    "on_left",
    "remove_member",
    "report_dead",
]


def add_member(state: ShardState, group: Group, member: Member) -> None:
    """Add the member to the group, connected or not."""
    assert member.member_id not in group.members, member.member_id
    assert member.identity not in group.by_identity, member.identity
    group.members[member.member_id] = member
    group.by_consumer[member.consumer_id] = member
    group.by_identity[member.identity] = member
    state.member_count += 1
    group.session_timeout_ms = max(group.session_timeout_ms, member.session_timeout_ms)


def remove_member(state: ShardState, group: Group, member: Member) -> None:
    """Remove the member: its later messages are ignored (C2). Its partitions wait for the next target; the
    caller says whether that needs a rebalance."""
    del group.members[member.member_id]
    del group.by_consumer[member.consumer_id]
    del group.by_identity[member.identity]
    group.missing.pop(member.member_id, None)
    group.to_order.pop(member.member_id, None)
    group.resting.pop(member.member_id, None)
    state.member_count -= 1
    state.connections.pop(member.connection_id, None)
    member.connection_id = NOT_CONNECTED
    drop_order(group, member)
    if member.registration is not None:
        unsubscribe(state, group, member.registration)
    names = {**member.reading, **member.stops, **member.starts, **group.owned.get(member.member_id, {})}
    for name in tuple(member.reading):
        stop_reading(group, name, member)
    place_all(group, names)
    state.look_at(group)


def on_left(state: ShardState, event: ConsumerLeft) -> None:
    """§7, §11: a goodbye. The stream ends with OK when the final positions are durable, and the others need
    not wait for a session timeout. Static members leave for good too."""
    member = state.connections[event.connection_id]
    group = state.groups[member.group]
    wrong = check_positions(event.positions)
    if wrong:
        break_stream(state, member, Refusal.INVALID_REQUEST, wrong)
        return
    take_positions(state, group, member, event.positions)
    remove_member(state, group, member)
    group.farewells.append(event.connection_id)
    reason = f"consumer {member.consumer_id} left"
    note_change(state, group, RebalanceReason.LEFT, reason, is_urgent=True)


def on_connection_lost(state: ShardState, event: ConnectionLost) -> None:
    """§8: the stream broke. The member keeps its partitions until it returns, or is declared dead: after a
    third of its session timeout, or after all of it if it is static."""
    member = state.connections.get(event.connection_id)
    if member is not None:
        disconnect(state, state.groups[member.group], member)


def disconnect(state: ShardState, group: Group, member: Member) -> None:
    """Take note that the member has no stream any more."""
    del state.connections[member.connection_id]
    member.connection_id = NOT_CONNECTED
    grace_ms = member.session_timeout_ms if member.instance_id else member.ping_interval_ms
    member.away_until_ms = state.now_ms + grace_ms
    state.wheel.arm(member, member.away_until_ms)
    names = {**member.stops, **member.starts}
    if member.order is not None:
        names.update(member.order.partitions)
        drop_order(group, member)
    place_all(group, names)
    state.look_at(group)


def break_stream(state: ShardState, member: Member, refusal: Refusal, message: str) -> None:
    """End the stream of a member that sent an impossible message. It may return as after a lost
    connection."""
    group = state.groups[member.group]
    metadata = {"group": group.name, "member_id": member.member_id}
    state.do(CloseConnection(member.connection_id, refusal, message, metadata))
    disconnect(state, group, member)


def declare_dead(state: ShardState, member: Member, why: str) -> None:
    """§8 handleConsumerFailure: the member was silent, or away, for too long. `report_dead` logs it
    afterwards."""
    group = state.groups[member.group]
    sentence = f"consumer {member.consumer_id} of group {group.name} is declared dead: {why}"
    state.dead.setdefault(group.name, []).append(f"{member.consumer_id} ({why})")
    if member.is_connected:
        metadata = {"group": group.name, "member_id": member.member_id}
        message = f"{sentence}; register again"
        state.do(CloseConnection(member.connection_id, Refusal.SESSION_TIMED_OUT, message, metadata))
    remove_member(state, group, member)
    reason = f"consumer {member.consumer_id} was declared dead: {why}"
    note_change(state, group, RebalanceReason.DECLARED_DEAD, reason, is_urgent=True)


def report_dead(state: ShardState) -> None:
    """Log one sentence for each group, because a machine takes thousands of consumers with it."""
    for name, dead in state.dead.items():
        which = "1 consumer" if len(dead) == 1 else f"{len(dead)} consumers"
        verb = "is" if len(dead) == 1 else "are"
        sentence = f"group {name}: {which} {verb} declared dead: {first_few(dead)}"
        state.do(LogSentence(sentence, is_warning=True))
    state.dead.clear()
