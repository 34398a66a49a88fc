"""Subscriptions of members, and the assignment that follows (consumer coordinator §6, §7, §9 step 1)."""

from __future__ import annotations

from collections.abc import Mapping

from hightide_coordinator.core.assignors import ASSIGNORS, StreamId, Subscriber, chosen_assignor
from hightide_coordinator.core.state.descriptions import QuestionRefused
from hightide_coordinator.core.state.group import Group, PatternInterest
from hightide_coordinator.core.state.member import Member, identity_of
from hightide_coordinator.core.state.patterns import InvalidPattern, compile_pattern
from hightide_coordinator.core.state.shard_state import PatternMatches, ShardState
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.core.values.registration import Registration, TopicFilter
from hightide_coordinator.core.values.topic_partition import TopicPartition

__all__ = ["compute_target", "is_same_subscription", "subscribe", "target_of_owners", "unsubscribe"]


def is_same_subscription(left: Registration, right: Registration) -> bool:
    """Whether the two are equal in everything on which the assignment depends."""
    return (
        left.topics == right.topics
        and left.pattern == right.pattern
        and left.exclude == right.exclude
        and left.pattern_streams == right.pattern_streams
        and left.assignor == right.assignor
    )


def subscribe(state: ShardState, group: Group, registration: Registration) -> QuestionRefused | None:
    """Add a member's subscription. If it is refused, nothing has changed."""
    if registration.pattern:
        interest = group.patterns.get(registration.filter)
        if interest is None:
            matches = _matches_of(state, group, registration.filter)
            if isinstance(matches, QuestionRefused):
                return matches
            matches.groups.add(group.name)
            interest = group.patterns[registration.filter] = PatternInterest(matches.topics)
            for topic in interest.topics:
                state.concern(group, topic)
        interest.member_count += 1
    for topic in registration.topics:
        count = group.named_topics.get(topic, 0)
        group.named_topics[topic] = count + 1
        if not count:
            state.concern(group, topic)
    group.assignors[registration.assignor] = group.assignors.get(registration.assignor, 0) + 1
    return None


def _matches_of(state: ShardState, group: Group, wanted: TopicFilter) -> PatternMatches | QuestionRefused:
    """The topics that match a pattern which is new to the group. This takes time for each topic, and each
    later topic takes time for each pattern, so their number is limited."""
    limits = state.limits
    metadata = {"group": group.name}
    if len(group.patterns) >= limits.patterns_per_group_max:
        message = (
            f"members of group {group.name} subscribe to {len(group.patterns)} different patterns, and a "
            f"group may have {limits.patterns_per_group_max}; let them use the same ones"
        )
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, metadata)
    matches = state.patterns.get(wanted)
    if matches is not None:
        return matches
    if len(state.patterns) >= limits.patterns_max:
        message = (
            f"consumers subscribe to {len(state.patterns)} different patterns, which are all that this "
            f"coordinator takes; name topics, or use a pattern that others of group {group.name} use"
        )
        return QuestionRefused(Refusal.LIMIT_EXCEEDED, message, metadata)
    try:
        pattern = compile_pattern(wanted, limits.pattern_characters_max)
    except InvalidPattern as error:
        return QuestionRefused(Refusal.INVALID_PATTERN, str(error), metadata)
    matches = state.patterns[wanted] = PatternMatches(pattern, set(pattern.matching(state.topics)))
    return matches


def unsubscribe(state: ShardState, group: Group, registration: Registration) -> None:
    """Remove the subscription of a member that is gone, or that has another one now."""
    if registration.pattern:
        interest = group.patterns[registration.filter]
        interest.member_count -= 1
        if not interest.member_count:
            del group.patterns[registration.filter]
            group.doubtful |= interest.topics
            matches = state.patterns[registration.filter]
            matches.groups.discard(group.name)
            if not matches.groups:
                del state.patterns[registration.filter]
    for topic in registration.topics:
        group.named_topics[topic] -= 1
        if not group.named_topics[topic]:
            del group.named_topics[topic]
            group.doubtful.add(topic)
    group.assignors[registration.assignor] -= 1
    if not group.assignors[registration.assignor]:
        del group.assignors[registration.assignor]


def compute_target(state: ShardState, group: Group) -> dict[TopicPartition, StreamId]:
    """Assign all partitions (§9 step 1). O(members + partitions), once for each rebalance."""
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
    """The target of a new coordinator until it knows the members: everything stays (§10)."""
    return {
        name: StreamId(identity_of(owner.consumer_id, owner.instance_id), owner.stream)
        for name, owner in group.owners.items()
    }


def _subscribers(group: Group) -> list[Subscriber]:
    by_pattern: dict[tuple[TopicFilter, int], dict[str, int]] = {}
    return [
        Subscriber(member.identity, _streams(group, member, by_pattern)) for member in group.members.values()
    ]


def _streams(
    group: Group, member: Member, by_pattern: dict[tuple[TopicFilter, int], dict[str, int]]
) -> Mapping[str, int]:
    registration = member.registration
    assert registration is not None, f"{member.consumer_id} of {group.name} has not come back yet"
    if not registration.pattern:
        return registration.topics
    key = (registration.filter, registration.pattern_streams)
    streams = by_pattern.get(key)
    if streams is None:
        topics = group.patterns[registration.filter].topics
        streams = by_pattern[key] = dict.fromkeys(topics, registration.pattern_streams)
    return streams
