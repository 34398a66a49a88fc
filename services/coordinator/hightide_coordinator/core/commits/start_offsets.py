"""Finding where a partition starts if the group has no committed offset. Brokers are asked, and the answer is
durable before any member reads, so that a consumer that starts at the end and dies skips nothing (decided in
§9)."""

from __future__ import annotations

from msgspec.structs import replace

from hightide_coordinator.core.commits.stored_groups import counts, identity_in
from hightide_coordinator.core.effects import LookUpOffsets
from hightide_coordinator.core.events import OffsetsLookedUp
from hightide_coordinator.core.placement.placement import heir_of, place_all
from hightide_coordinator.core.state.group import Group, GroupState, StartAsked, StartFound
from hightide_coordinator.core.state.group_changes import fail_attempt
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.registration import OffsetReset
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["ask_for_starts", "on_starts_found"]


def ask_for_starts(state: ShardState, group: Group) -> None:
    """Look up everything that the group waits for, one look-up at a time."""
    if not group.asks or group.asked or group.state is GroupState.RECOVERING:
        return
    names = tuple(group.asks)
    resets: dict[TopicPartition, OffsetReset] = {}
    for name in names:
        heir = heir_of(group, name)
        if heir is not None:
            resets[name] = heir.offset_reset
    state.last_look_up_id += 1
    group.asked = {name: StartAsked(state.last_look_up_id, reset) for name, reset in resets.items()}
    place_all(group, names)
    if resets:
        state.look_ups[state.last_look_up_id] = group
        new = _new_partitions(state, group) if OffsetReset.LARGEST in resets.values() else frozenset()
        wanted = {name: OffsetReset.SMALLEST if name in new else reset for name, reset in resets.items()}
        state.do(LookUpOffsets(state.last_look_up_id, wanted))


def _new_partitions(state: ShardState, group: Group) -> frozenset[TopicPartition]:
    """The partitions that were added to their topics since the group began to read these. The group begins at
    their first record, whatever else it prefers, because all their records were written since then. Their
    numbers are above all partitions with a committed offset, or that the group set out to read.
    O(partitions), once for each look-up."""
    begun = {
        name: identity
        for name, identity in group.begun.items()
        if name not in group.offsets and identity == identity_in(state, name)
    }
    highest: dict[str, int] = {}
    for name in (*group.offsets, *begun):
        highest[name.topic] = max(highest.get(name.topic, -1), name.partition)
    uncommitted = [name for name in group.target if name not in group.offsets]
    new = frozenset(name for name in uncommitted if 0 <= highest.get(name.topic, -1) < name.partition)
    for name in uncommitted:
        identity = identity_in(state, name)
        if name not in new and identity is not None:
            begun[name] = identity
    group.begun = begun
    return new


def on_starts_found(state: ShardState, event: OffsetsLookedUp) -> None:
    """Go on with the partitions that were found. A later attempt assigns the others, which hold up
    nothing."""
    group = state.look_ups.pop(event.look_up_id)
    if state.groups.get(group.name) is not group:
        return  # Its last member left meanwhile, and it was forgotten.
    asked = {name: each for name, each in group.asked.items() if each.look_up_id == event.look_up_id}
    for name in asked:
        del group.asked[name]
    is_failed = False
    for name, start in asked.items():
        topic = state.topics.get(name.topic)
        found = event.found.get(name)
        if found is not None and topic is not None:
            # It was asked for this partition: of an earlier one, the question would be forgotten.
            first = topic.first_leader_epochs.get(name.partition, 0)
            found = replace(found, first_leader_epoch=first)
        if found is not None and topic is not None and counts(topic, name, found):
            group.found[name] = StartFound(found, start.offset_reset)
        elif name in group.target:
            group.failed_partitions[name] = event.failed.get(name, "the answer is about another partition")
            # A partition that is gone is no failure, and is not in the next target.
            is_failed = is_failed or (topic is not None and name.partition < topic.partition_count)
    place_all(group, asked)
    state.look_at(group)
    if is_failed:
        name, why = next(iter(group.failed_partitions.items()))
        reason = (
            f"the start offsets of {len(group.failed_partitions)} partitions cannot be found, the first is "
            f"{name.topic}/{name.partition}: {why}"
        )
        fail_attempt(state, group, reason)
