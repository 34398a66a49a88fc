"""Where a partition starts of which the group has committed nothing: asked of the brokers, and made durable
before anybody reads, so that a consumer that starts at the end and dies skips nothing (decided in §9)."""

from __future__ import annotations

from hightide_coordinator.core.effects import LookUpOffsets
from hightide_coordinator.core.events import OffsetsLookedUp
from hightide_coordinator.core.group import Group, GroupState
from hightide_coordinator.core.group_changes import fail_attempt
from hightide_coordinator.core.placement import heir_of, place_all
from hightide_coordinator.core.registration import OffsetReset
from hightide_coordinator.core.shard_state import ShardState
from hightide_coordinator.core.stored_groups import counts
from hightide_coordinator.core.topic_partition import TopicPartition

__all__ = ["ask_for_starts", "on_starts_found"]


def ask_for_starts(state: ShardState, group: Group) -> None:
    """Ask for all that the group waits for, one look-up at a time."""
    if not group.asks or group.asked or group.state is GroupState.RECOVERING:
        return
    names = tuple(group.asks)
    wanted: dict[TopicPartition, OffsetReset] = {}
    for name in names:
        heir = heir_of(group, name)
        if heir is not None:
            wanted[name] = heir.offset_reset
    state.last_look_up_id += 1
    group.asked = dict.fromkeys(wanted, state.last_look_up_id)
    place_all(group, names)
    if wanted:
        state.look_ups[state.last_look_up_id] = group
        state.do(LookUpOffsets(state.last_look_up_id, wanted))


def on_starts_found(state: ShardState, event: OffsetsLookedUp) -> None:
    """Those found go on; those that were not are given out by a later attempt, and hold nothing else up."""
    group = state.look_ups.pop(event.look_up_id)
    if state.groups.get(group.name) is not group:
        return  # Its last member left meanwhile, and it was forgotten.
    asked = [name for name, look_up_id in group.asked.items() if look_up_id == event.look_up_id]
    for name in asked:
        del group.asked[name]
    is_failed = False
    for name in asked:
        topic = state.topics.get(name.topic)
        found = event.found.get(name)
        if found is not None and topic is not None and counts(topic, name, found):
            group.found[name] = found
        elif name in group.target:
            group.failed_partitions[name] = event.failed.get(name, "the answer is about another partition")
            # What is gone is no failure, and is in the next target no more.
            is_failed = is_failed or (topic is not None and name.partition < topic.partition_count)
    place_all(group, asked)
    state.look_at(group)
    if is_failed:
        name, why = next(iter(group.failed_partitions.items()))
        reason = (
            f"where to start cannot be found for {len(group.failed_partitions)} partitions, "
            f"the first is {name.topic}/{name.partition}: {why}"
        )
        fail_attempt(state, group, reason)
