"""RegisterConsumer: a consumer registers for the first time, again, or in place of another process of its
instance (consumer coordinator §7, §10; C5, C7, C10)."""

from __future__ import annotations

from msgspec.structs import replace

from hightide_coordinator.core.effects import CloseConnection, LogSentence, SendRegistered
from hightide_coordinator.core.events import ConsumerRegistered
from hightide_coordinator.core.membership.departures import add_member, break_stream, remove_member
from hightide_coordinator.core.membership.orders import drop_order
from hightide_coordinator.core.placement.placement import place_all, start_reading, stop_reading
from hightide_coordinator.core.placement.subscriptions import is_same_subscription, subscribe, unsubscribe
from hightide_coordinator.core.registration_checks import check_registration
from hightide_coordinator.core.state.descriptions import QuestionRefused, not_active
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.group_changes import note_change
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.member_id import age_of
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import OwnedPartition, Registration

__all__ = ["on_registered"]


def on_registered(state: ShardState, event: ConsumerRegistered) -> None:
    """Accept the consumer, or end its stream with the reason."""
    twice = state.connections.get(event.connection_id)
    if twice is not None:
        message = "a consumer is registered on this stream already; send a goodbye, or open another stream"
        break_stream(state, twice, Refusal.ANSWER_OUT_OF_TURN, message)
        return
    refused = _register(state, event)
    if refused is not None:
        refusal, message = refused.refusal, refused.message
        state.do(CloseConnection(event.connection_id, refusal, message, refused.metadata))


def _register(state: ShardState, event: ConsumerRegistered) -> QuestionRefused | None:
    registration = event.registration
    refused = not_active(state) or _newer_coordinator(state, registration)
    refused = refused or check_registration(state.limits, registration)
    if refused is not None:
        return refused
    name = registration.group
    group = state.groups.get(name)
    if group is None:
        if len(state.groups) >= state.limits.groups_max:
            message = f"there are {state.limits.groups_max} groups already; delete some (`hightide group ls`)"
            return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, {"group": name})
        group = Group(name)
    member = group.members.get(registration.member_id)
    if member is not None:
        return _come_back(state, group, member, event)
    predecessor = group.by_identity.get(f"{registration.instance_id}/") if registration.instance_id else None
    refused = _identity_refusal(group, registration, predecessor)
    if refused is None and predecessor is None and state.member_count >= state.limits.consumers_max:
        message = (
            f"this coordinator has {state.member_count} consumers, the most that it accepts; try again later"
        )
        refused = QuestionRefused(Refusal.OVERLOADED, message, {"group": name})
    return refused or _join(state, group, event, predecessor)


def _newer_coordinator(state: ShardState, registration: Registration) -> QuestionRefused | None:
    """Refuse a consumer that has seen a newer coordinator (C5): it obeys no older one."""
    if registration.seen_coordinator_epoch <= state.coordinator_epoch:
        return None
    message = (
        f"the consumer has seen coordinator epoch {registration.seen_coordinator_epoch}, this coordinator's "
        f"is {state.coordinator_epoch}; look for the newer one"
    )
    epochs = {"coordinator_epoch": str(state.coordinator_epoch)}
    return QuestionRefused(Refusal.STALE_COORDINATOR_EPOCH, message, epochs)


def _identity_refusal(
    group: Group, registration: Registration, predecessor: Member | None
) -> QuestionRefused | None:
    metadata = {"group": group.name, "consumer_id": registration.consumer_id}
    if registration.member_id in group.fenced or _came_before(registration, predecessor):
        message = f"another process took over instance {registration.instance_id!r} of group {group.name}"
        return QuestionRefused(Refusal.FENCED_INSTANCE, message, metadata)
    holder = group.by_consumer.get(registration.consumer_id)
    if holder is not None and holder is not predecessor:
        message = (
            f"consumer id {registration.consumer_id!r} of group {group.name} belongs to another one that is "
            f"alive; choose another id, or none, or wait until that one is declared dead"
        )
        return QuestionRefused(Refusal.CONSUMER_ID_TAKEN, message, metadata)
    return None


def _came_before(registration: Registration, predecessor: Member | None) -> bool:
    """Whether this process had the instance before the one that has it now. After a takeover either of them
    may come first, and ZooKeeper may know of the older one, or of none."""
    if predecessor is None or not registration.member_id:
        return False
    age = age_of(registration.member_id)
    if age is None or predecessor.age is None:
        return predecessor.is_connected
    return age < predecessor.age


def _join(
    state: ShardState, group: Group, event: ConsumerRegistered, predecessor: Member | None
) -> QuestionRefused | None:
    registration = event.registration
    refused = subscribe(state, group, registration)
    if refused is not None:
        return refused
    state.groups[group.name] = group
    consumer_id = registration.consumer_id
    if not consumer_id:
        consumer_id = event.new_consumer_id if predecessor is None else predecessor.consumer_id
    member = Member(
        group=group.name,
        member_id=event.new_member_id,
        consumer_id=consumer_id,
        instance_id=registration.instance_id,
        session_timeout_ms=registration.session_timeout_ms,
        registration=_kept(registration),
        age=age_of(registration.member_id or event.new_member_id),
        heard_ms=state.now_ms,
    )
    if predecessor is None:
        add_member(state, group, member)
        _connect(state, group, member, event.connection_id, ())
        note_change(state, group, RebalanceReason.JOINED, f"consumer {consumer_id} joined")
        return None
    _replace(state, group, predecessor, member)
    _connect(state, group, member, event.connection_id, ())
    place_all(group, group.owned.get(predecessor.member_id, {}))
    return None


def _kept(registration: Registration) -> Registration:
    """The part of a registration that is remembered. Its list of owned partitions is used once, and may have
    a hundred thousand entries."""
    return replace(registration, owned=()) if registration.owned else registration


def _replace(state: ShardState, group: Group, predecessor: Member, member: Member) -> None:
    """Static membership: the new process takes over the place of its predecessor, with its partitions; no
    other member is affected. A new generation begins, because the partitions have a new member as owner."""
    if predecessor.is_connected:
        metadata = {"group": group.name, "instance_id": member.instance_id}
        message = f"another process took over instance {member.instance_id!r} of group {group.name}"
        state.do(CloseConnection(predecessor.connection_id, Refusal.FENCED_INSTANCE, message, metadata))
    before = predecessor.registration
    if before is None:
        state.returned_ms = state.now_ms
    remove_member(state, group, predecessor)
    group.fenced.append(predecessor.member_id)
    group.generation += 1
    add_member(state, group, member)
    # Partitions that should be the instance's, and have no owner yet, waited for nothing while there was no
    # such member.
    place_all(group, group.waiting)
    reason = f"instance {member.instance_id} has a new process, consumer {member.consumer_id}"
    state.do(LogSentence(f"group {group.name}: {reason}"))
    assert member.registration is not None
    if before is not None and not is_same_subscription(before, member.registration):
        reason += ", which subscribes to something else"
        note_change(state, group, RebalanceReason.SUBSCRIPTION, reason)
    elif group.state is GroupState.STABLE:
        group.note_reason(RebalanceReason.NEW_PROCESS, reason)


def _come_back(
    state: ShardState, group: Group, member: Member, event: ConsumerRegistered
) -> QuestionRefused | None:
    """§10: the same consumer on a new stream, after a break or a change of coordinators."""
    registration = event.registration
    before = member.registration
    if registration.instance_id != member.instance_id:
        message = (
            f"member {member.member_id} of group {group.name} has instance id {member.instance_id!r} and "
            f"says {registration.instance_id!r}; register without the member id"
        )
        return QuestionRefused(Refusal.INVALID_REQUEST, message, {"group": group.name})
    refused = subscribe(state, group, registration)
    if refused is not None:
        return refused
    if before is not None:
        unsubscribe(state, group, before)
    if group.missing.pop(member.member_id, None) is not None:
        state.returned_ms = state.now_ms
    member.registration = _kept(registration)
    member.session_timeout_ms = registration.session_timeout_ms
    group.session_timeout_ms = max(group.session_timeout_ms, member.session_timeout_ms)
    retained = _retain(group, member, registration)
    _connect(state, group, member, event.connection_id, retained)
    place_all(
        group, {**group.owned.get(member.member_id, {}), **dict.fromkeys(each.name for each in retained)}
    )
    if before is not None and not is_same_subscription(before, registration):
        reason = f"consumer {member.consumer_id} subscribes to something else"
        note_change(state, group, RebalanceReason.SUBSCRIPTION, reason)
    return None


def _retain(group: Group, member: Member, registration: Registration) -> tuple[OwnedPartition, ...]:
    """The partitions that the consumer says it owns and that ZooKeeper confirms: it keeps them. The consumer
    stops all others without an order."""
    if member.order is not None:
        drop_order(group, member)
    touched = {**member.reading, **member.stops, **member.starts}
    for name in tuple(member.reading):
        stop_reading(group, name, member)
    retained = []
    for claim in dict.fromkeys(registration.owned):
        owner = group.owners.get(claim.name)
        if owner is None or owner.member_id != member.member_id or owner.generation != claim.generation:
            continue
        if claim.name in member.reading or (group.store is not None and claim.name in group.store.owners):
            continue
        start_reading(group, claim.name, member)
        retained.append(claim)
    place_all(group, touched)
    return tuple(retained)


def _connect(
    state: ShardState, group: Group, member: Member, connection_id: int, retained: tuple[OwnedPartition, ...]
) -> None:
    """Begin the stream: its orders count from 1, and its first Ping comes after a third of the session
    timeout."""
    if member.is_connected:
        metadata = {"group": group.name, "member_id": member.member_id}
        message = f"consumer {member.consumer_id} of group {group.name} opened another stream"
        state.do(CloseConnection(member.connection_id, Refusal.SESSION_TIMED_OUT, message, metadata))
        del state.connections[member.connection_id]
    member.connection_id = connection_id
    state.connections[connection_id] = member
    member.sequence = 0
    member.sought.clear()
    member.expired_orders = 0
    member.is_resting = False
    group.resting.pop(member.member_id, None)
    member.heard_ms = state.now_ms
    member.next_ping_ms = state.now_ms + member.ping_interval_ms
    state.wheel.arm(member, member.next_ping_ms)
    state.look_at(group)
    state.do(
        SendRegistered(
            connection_id=connection_id,
            coordinator_epoch=state.coordinator_epoch,
            generation=group.generation,
            member_id=member.member_id,
            consumer_id=member.consumer_id,
            ping_interval_ms=member.ping_interval_ms,
            answer_timeout_ms=member.answer_timeout_ms,
            retained=retained,
        )
    )
