"""What must hold of groups some time after the last fault: everybody has what is theirs, and goes on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hightide_coordinator.core.state.group import GroupState
from hightide_coordinator.core.values.topic_partition import TopicPartition
from sim.groups.consumer import ConsumerState, SimConsumer
from sim.groups.logs import Log
from sim.groups.orders import GroupOrders
from sim.groups.zookeeper import GroupNode

__all__ = ["check_committed", "check_owned", "topics_of"]


def topics_of(world: GroupOrders, consumer: SimConsumer) -> list[str]:
    """The topics that exist and that a consumer subscribed to."""
    requested = consumer.requested
    if requested.pattern:
        return [name for name in world.topics.by_name if re.fullmatch(requested.pattern, name)]
    return [name for name in requested.topics if name in world.topics.by_name]


def members_of(world: GroupOrders) -> dict[str, list[SimConsumer]]:
    """The consumers that live, by group."""
    groups: dict[str, list[SimConsumer]] = {name: [] for name in world.zookeeper.groups}
    for consumer in world.consumers:
        if consumer.is_alive:
            groups.setdefault(consumer.group, []).append(consumer)
    return groups


def check_owned(world: GroupOrders) -> None:
    """EveryPartitionOwned: by a live consumer that reads it, and by no other; nobody else is named."""
    active = world.active()
    violated = world.checkers.violated
    if active is None or not active.is_active:
        violated("EveryPartitionOwned", "there is no coordinator")
    for name, consumers in members_of(world).items():
        group = active.state.groups.get(name)
        wanted = {log.name: log for log in _logs(world, consumers)}
        node = world.zookeeper.groups.get(name, GroupNode())
        state = GroupState.EMPTY if group is None else group.state
        if state is not (GroupState.STABLE if consumers else GroupState.EMPTY):
            violated("EveryPartitionOwned", f"{name} is {state} ({group and group.reason})")
        if set(node.owners) != set(wanted):
            violated("EveryPartitionOwned", f"{name}: {sorted(node.owners)} are owned of {sorted(wanted)}")
        for consumer in consumers:
            if consumer.state is not ConsumerState.MEMBER or consumer.is_suspended:
                violated("EveryPartitionOwned", f"{consumer} is {consumer.state}")
            _check_readings(world, consumer, node, wanted)


def _logs(world: GroupOrders, consumers: Iterable[SimConsumer]) -> list[Log]:
    topics = {topic for consumer in consumers for topic in topics_of(world, consumer)}
    return [log for log in world.topics.logs() if log.name.topic in topics]


def _check_readings(
    world: GroupOrders, consumer: SimConsumer, node: GroupNode, wanted: dict[TopicPartition, Log]
) -> None:
    mine = {key: owner for key, owner in node.owners.items() if owner.member_id == consumer.member_id}
    if set(mine) != set(consumer.readings):
        world.checkers.violated(
            "EveryPartitionOwned", f"{consumer} owns {sorted(mine)} and reads {sorted(consumer.readings)}"
        )
    for key, reading in consumer.readings.items():
        if reading.log is not wanted[key] or reading.generation != mine[key].generation:
            world.checkers.violated(
                "EveryPartitionOwned", f"{consumer} reads {reading} and owns {wanted[key]} {mine[key]}"
            )


def check_committed(world: GroupOrders) -> None:
    """NoRecordSkipped to the end: all was read, and with auto commit all is committed."""
    for name, consumers in members_of(world).items():
        node = world.zookeeper.groups.get(name, GroupNode())
        for consumer in consumers:
            for key, reading in consumer.readings.items():
                history = world.checkers.group(name).log(reading.log)
                if history.frontier is not None and history.frontier < reading.log.end:
                    world.checkers.violated(
                        "NoRecordSkipped", f"{consumer}: {history.frontier} of {reading.log} was never read"
                    )
                committed = node.offsets.get(key)
                if consumer.requested.auto_commit and (
                    committed is None or committed.offset < reading.settled
                ):
                    world.checkers.violated(
                        "EveryPartitionOwned", f"{consumer}: {reading} is committed up to {committed}"
                    )
