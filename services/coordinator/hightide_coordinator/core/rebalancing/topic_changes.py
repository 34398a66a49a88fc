"""Topics that are created, deleted, grown and shrunk (consumer coordinator §6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hightide_coordinator.core.commits.stored_groups import counts_surely
from hightide_coordinator.core.effects import WatchTopics
from hightide_coordinator.core.events import TopicsChanged
from hightide_coordinator.core.placement.placement import place, set_owner
from hightide_coordinator.core.placement.unreadable_topics import note_news
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.group_changes import note_change
from hightide_coordinator.core.state.shard_state import ShardState
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.core.values.topic_partition import Topic, TopicPartition

__all__ = ["on_topics_changed", "watch_topics"]

_Changes: TypeAlias = Mapping[str, tuple[Topic | None, Topic | None]]
"""Topic → its old and its new state; None: it did not, or does not, exist."""


def on_topics_changed(state: ShardState, event: TopicsChanged) -> None:
    """Handle changed topics. Only groups that a topic concerns are checked: its readers, and those with
    offsets of it; each once, however many topics changed."""
    changes = dict(event.topics)
    if event.is_full:
        changes.update(dict.fromkeys(name for name in state.topics if name not in changes))
    by_group: dict[str, dict[str, tuple[Topic | None, Topic | None]]] = {}
    for name, topic in changes.items():
        before = state.topics.get(name)
        note_news(state, name)
        if topic == before:
            continue
        if topic is None:
            del state.topics[name]
        else:
            state.topics[name] = topic
        if (before is None) != (topic is None):
            _match_patterns(state, name, exists=topic is not None)
        for group_name in state.concerned.get(name, ()):
            by_group.setdefault(group_name, {})[name] = (before, topic)
    for group_name, changed in by_group.items():
        _change(state, state.groups[group_name], changed)


def _match_patterns(state: ShardState, name: str, *, exists: bool) -> None:
    for matches in state.patterns.values():
        if exists and matches.pattern.matches(name):
            matches.topics.add(name)
            for group_name in matches.groups:
                state.concern(state.groups[group_name], name)
        elif name in matches.topics:
            matches.topics.discard(name)
            for group_name in matches.groups:
                state.groups[group_name].doubtful.add(name)


def _change(state: ShardState, group: Group, changed: _Changes) -> None:
    under_way = {} if group.store is None else {**group.store.owners, **group.store.offsets}
    known = {**group.offsets, **group.owners, **group.positions, **group.found, **under_way, **group.asked}
    void = [key for key in known if key.topic in changed and not _goes_on(*changed[key.topic], key)]
    for key in [key for key in group.target if key.topic in changed]:
        _, after = changed[key.topic]
        if after is None or key.partition >= after.partition_count:
            del group.target[
                key
            ]  # A partition that is gone is not assigned, whenever the next target is made.
            place(group, key)
    for key in void:
        _void(group, key, changed[key.topic][1])
    if void:
        group.generation += 1  # No partition is assigned twice in one generation.
        state.look_at(group)
    if not group.members:
        return
    voided = {key.topic for key in void}
    for name, (before, after) in changed.items():
        reason = _what_changed(name, before, after, is_void=name in voided)
        if reason:
            note_change(state, group, RebalanceReason.TOPICS, reason)


def _what_changed(name: str, before: Topic | None, after: Topic | None, *, is_void: bool) -> str:
    """The reason for a rebalance of the group; empty: there is none."""
    if before is None:
        return f"topic {name} was created"
    if after is None:
        return f"topic {name} was deleted"
    if before.topic_id != after.topic_id:
        return f"topic {name} was deleted and created again"
    if is_void or before.partition_count != after.partition_count:
        return (
            f"the partitions of topic {name} changed from {before.partition_count} to {after.partition_count}"
        )
    return ""


def _goes_on(before: Topic | None, after: Topic | None, key: TopicPartition) -> bool:
    """Whether it is the same partition as before: it still exists, and was not removed and added in
    between."""
    if before is None or after is None or before.topic_id != after.topic_id:
        return False
    number = key.partition
    first = after.first_leader_epochs.get(number, 0)
    return number < after.partition_count and first == before.first_leader_epochs.get(number, 0)


def _void(group: Group, key: TopicPartition, after: Topic | None) -> None:
    """Drop commits and owners of a partition that does not exist any more; its reader is stopped.

    An offset stays if it belongs to the new partition: brokers and consumers may have known that before this
    coordinator.
    """
    set_owner(group, key, None)
    if key in group.offsets and not counts_surely(after, key, group.offsets[key]):
        del group.offsets[key]
    if key in group.found and not counts_surely(after, key, group.found[key].committed):
        del group.found[key]
    group.positions.pop(key, None)
    group.asked.pop(key, None)  # The answer may be about the old partition.
    group.voided[key] = None
    if group.store is not None:
        group.store.positions.pop(key, None)
    place(group, key)


def watch_topics(state: ShardState) -> None:
    """Report to the shell which topics concern any group, if that has changed."""
    if state.watch_changes:
        more = frozenset(state.watch_changes & state.concerned.keys())
        state.do(WatchTopics(more, frozenset(state.watch_changes - more)))
        state.watch_changes.clear()
