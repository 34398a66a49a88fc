"""Who wants to read what, and how it is shared out (consumer coordinator §6, §7, §9 step 1)."""

from __future__ import annotations

from collections.abc import Mapping

from hightide_coordinator.core.assignors import ASSIGNORS, StreamId, Subscriber, chosen_assignor
from hightide_coordinator.core.group import Group, PatternInterest
from hightide_coordinator.core.member import Member, identity_of
from hightide_coordinator.core.patterns import compile_pattern
from hightide_coordinator.core.registration import Registration
from hightide_coordinator.core.shard_state import ShardState
from hightide_coordinator.core.topic_partition import TopicPartition

__all__ = ["compute_target", "is_same_subscription", "subscribe", "target_of_owners", "unsubscribe"]


def is_same_subscription(left: Registration, right: Registration) -> bool:
    """Whether nothing that partitions are shared out by is different."""
    return (
        left.topics == right.topics
        and left.pattern == right.pattern
        and left.pattern_streams == right.pattern_streams
        and left.assignor == right.assignor
    )


def subscribe(state: ShardState, group: Group, registration: Registration) -> None:
    """A member wants this. Raises patterns.InvalidPattern; then nothing has changed."""
    if registration.pattern:
        interest = group.patterns.get(registration.pattern)
        if interest is None:
            pattern = compile_pattern(registration.pattern, state.limits.pattern_characters_max)
            interest = PatternInterest(pattern, set(pattern.matching(state.topics)))
            group.patterns[registration.pattern] = interest
            state.pattern_groups.add(group.name)
            for topic in interest.topics:
                state.concern(group, topic)
        interest.member_count += 1
    for topic in registration.topics:
        count = group.named_topics.get(topic, 0)
        group.named_topics[topic] = count + 1
        if not count:
            state.concern(group, topic)
    group.assignors[registration.assignor] = group.assignors.get(registration.assignor, 0) + 1


def unsubscribe(state: ShardState, group: Group, registration: Registration) -> None:
    """A member that wanted this is gone, or wants something else."""
    if registration.pattern:
        interest = group.patterns[registration.pattern]
        interest.member_count -= 1
        if not interest.member_count:
            del group.patterns[registration.pattern]
            if not group.patterns:
                state.pattern_groups.discard(group.name)
    for topic in registration.topics:
        group.named_topics[topic] -= 1
        if not group.named_topics[topic]:
            del group.named_topics[topic]
    group.assignors[registration.assignor] -= 1
    if not group.assignors[registration.assignor]:
        del group.assignors[registration.assignor]


def compute_target(state: ShardState, group: Group) -> dict[TopicPartition, StreamId]:
    """Whose each partition should be (§9 step 1). O(members + partitions), once a rebalance."""
    topics = set(group.named_topics)
    for interest in group.patterns.values():
        topics |= interest.topics
    partitions = {
        topic: state.topics[topic].partition_count for topic in sorted(topics) if topic in state.topics
    }
    current: dict[TopicPartition, StreamId] = {}
    for name, owner in group.owners.items():
        identity = identity_of(owner.consumer_id, owner.instance_id)
        if identity in group.by_identity:
            current[name] = StreamId(identity, owner.stream)
    group.assignor = chosen_assignor(group.assignors)
    return ASSIGNORS[group.assignor](_subscribers(group), partitions, current)


def target_of_owners(group: Group) -> dict[TopicPartition, StreamId]:
    """What a new coordinator wishes for until it knows the members: that everything stays (§10)."""
    return {
        name: StreamId(identity_of(owner.consumer_id, owner.instance_id), owner.stream)
        for name, owner in group.owners.items()
    }


def _subscribers(group: Group) -> list[Subscriber]:
    by_pattern: dict[tuple[str, int], dict[str, int]] = {}
    return [
        Subscriber(member.identity, _streams(group, member, by_pattern)) for member in group.members.values()
    ]


def _streams(
    group: Group, member: Member, by_pattern: dict[tuple[str, int], dict[str, int]]
) -> Mapping[str, int]:
    registration = member.registration
    assert registration is not None, f"{member.consumer_id} of {group.name} has not come back yet"
    if not registration.pattern:
        return registration.topics
    key = (registration.pattern, registration.pattern_streams)
    streams = by_pattern.get(key)
    if streams is None:
        topics = group.patterns[registration.pattern].topics
        streams = by_pattern[key] = dict.fromkeys(topics, registration.pattern_streams)
    return streams
