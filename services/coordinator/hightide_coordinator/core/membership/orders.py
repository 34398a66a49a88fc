"""StopFetcher and StartFetcher: sending them, and their answers (consumer coordinator §8.2, §9, §11; C1)."""

from __future__ import annotations

from hightide_coordinator.core.effects import Effect, SendStartFetcher, SendStopFetcher, StartPartition
from hightide_coordinator.core.events import FetchersStarted, FetchersStopped
from hightide_coordinator.core.placement.placement import place, place_all, start_reading, stop_reading
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.member import FetcherOrder, Member, OrderKind
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import OwnedPartition
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["drop_order", "on_answered", "send_orders"]


def send_orders(state: ShardState, group: Group) -> None:
    """Send members the orders in their buckets: first what to stop, then what to start, one at a time."""
    while group.to_order:
        _, member = group.to_order.popitem()
        if member.order is not None or not member.is_connected:
            continue  # Checked again when the order is answered, or when the member is back.
        if member.stops:
            state.do(_stop(state, group, member))
        elif member.starts:
            state.do(_start(state, group, member))


def _stop(state: ShardState, group: Group, member: Member) -> Effect:
    names = tuple(member.stops)
    order = _open(state, group, member, OrderKind.STOP, names)
    group.open_stops += 1
    place_all(group, names)
    return SendStopFetcher(
        connection_id=member.connection_id,
        coordinator_epoch=state.coordinator_epoch,
        generation=group.generation,
        sequence=order.sequence,
        partitions=tuple(_owned(group, member, name) for name in names),
    )


def _owned(group: Group, member: Member, name: TopicPartition) -> OwnedPartition:
    owner = member.reading[name]
    return OwnedPartition(name, group.generation if owner is None else owner.generation)


def _start(state: ShardState, group: Group, member: Member) -> Effect:
    names = tuple(member.starts)
    order = _open(state, group, member, OrderKind.START, names)
    for name in names:
        member.unstarted.pop(name, None)
        start_reading(group, name, member)
        place(group, name)
    return SendStartFetcher(
        connection_id=member.connection_id,
        coordinator_epoch=state.coordinator_epoch,
        generation=group.generation,
        sequence=order.sequence,
        partitions=tuple(_start_partition(state, group, name) for name in names),
        brokers=state.brokers,
    )


def _start_partition(state: ShardState, group: Group, name: TopicPartition) -> StartPartition:
    owner = group.owners[name]
    committed = group.offsets.get(name)
    return StartPartition(
        name=name,
        topic_id=state.topics[name.topic].topic_id,
        stream=owner.stream,
        generation=owner.generation,
        offset=-1 if committed is None else committed.offset,
        leader_epoch=-1 if committed is None else committed.leader_epoch,
    )


def _open(
    state: ShardState, group: Group, member: Member, kind: OrderKind, names: tuple[TopicPartition, ...]
) -> FetcherOrder:
    member.sequence += 1
    expires_ms = state.now_ms + member.answer_timeout_ms
    member.order = FetcherOrder(kind, member.sequence, expires_ms, dict.fromkeys(names))
    group.open_orders[member.member_id] = member
    state.wheel.arm(member, expires_ms)
    return member.order


def on_answered(
    state: ShardState, group: Group, member: Member, event: FetchersStopped | FetchersStarted
) -> None:
    """Handle a member that carried out its order. A late answer only counts as a sign of life: its order is
    closed."""
    kind = OrderKind.STOP if isinstance(event, FetchersStopped) else OrderKind.START
    order = member.order
    if order is None or order.kind is not kind:
        return
    if order.sequence != event.sequence:
        return
    drop_order(group, member)
    member.expired_orders = 0
    if kind is OrderKind.STOP:
        for name in order.partitions:
            stop_reading(group, name, member)
        place_all(group, order.partitions)
    if member.stops or member.starts:
        group.to_order[member.member_id] = member
    state.look_at(group)


def drop_order(group: Group, member: Member) -> None:
    """Close the order: it was answered, it expired, or its stream is gone. The caller places its
    partitions."""
    order = member.order
    if order is not None:
        member.order = None
        del group.open_orders[member.member_id]
        if order.kind is OrderKind.STOP:
            group.open_stops -= 1
