"""All that the coordinator of one shard knows. Only `machine.step` changes it, in place: a coordinator cannot
afford to copy the members of 10,000 groups for each Ping."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hightide_runtime.timer_wheel import TimerWheel

from hightide_coordinator.core.effects import Effect
from hightide_coordinator.core.events import Endpoint
from hightide_coordinator.core.state.group import CommitChecking, Group, PositionChecking, ResetChecking
from hightide_coordinator.core.state.member import Member
from hightide_coordinator.core.state.patterns import TopicPattern
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.registration import TopicFilter
from hightide_coordinator.core.values.topic_partition import Topic

__all__ = ["NEVER_RETURNED_MS", "PatternMatches", "Role", "ShardState"]

NEVER_RETURNED_MS: Final = -(1 << 60)


class Role(Enum):
    """Whether this process is the active coordinator of the shard."""

    STANDBY = auto()
    ACTIVE = auto()


@dataclass(slots=True, eq=False)
class PatternMatches:
    """A pattern that members of some groups subscribed to, and its matches now."""

    pattern: TopicPattern
    topics: set[str]
    groups: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class ShardState:
    """One shard. Read freely; only `core` writes."""

    limits: GroupLimits = field(default_factory=GroupLimits)
    now_ms: int = 0
    """The time of the current event."""
    role: Role = Role.STANDBY
    coordinator_epoch: int = 0
    active_elsewhere: Endpoint | None = None
    topics: dict[str, Topic] = field(default_factory=dict)
    brokers: tuple[Endpoint, ...] = ()
    returned_ms: int = NEVER_RETURNED_MS
    """When a member that was only known from ZooKeeper last returned to this coordinator."""
    groups: dict[str, Group] = field(default_factory=dict)
    connections: dict[int, Member] = field(default_factory=dict)
    """Connection id → the member whose stream it is."""
    member_count: int = 0
    concerned: dict[str, set[str]] = field(default_factory=dict)
    """Topic → groups that read it, or hold offsets or owners of it. A change of the topic may concern
    them."""
    withheld: dict[str, set[str]] = field(default_factory=dict)
    """Topic that could not be decoded → groups that hold data about it and were read without that."""
    patterns: dict[TopicFilter, PatternMatches] = field(default_factory=dict)
    """The subscriptions by pattern: each is matched against a topic once, for all groups."""
    watch_changes: set[str] = field(default_factory=set)
    """Topics that began, or ceased, to concern any group since the last WatchTopics."""

    wheel: TimerWheel[Member | Group] = field(default_factory=TimerWheel)
    due_groups: dict[str, Group] = field(default_factory=dict)
    """Groups whose next step has to be decided at the end of this event."""
    looked_at: set[str] = field(default_factory=set)
    """The groups that the last event was about, deleted ones included: no other group has changed by it."""
    last_store_id: int = 0
    stores: dict[int, Group] = field(default_factory=dict)
    last_look_up_id: int = 0
    look_ups: dict[int, Group] = field(default_factory=dict)
    waiting_bytes: int = 0
    """The memory of the commits that wait for ZooKeeper, of all groups."""
    resets: dict[int, ResetChecking] = field(default_factory=dict)
    """Look-up id → the ResetOffsets whose offsets are being compared with the ends of their partitions."""
    checks: dict[int, CommitChecking] = field(default_factory=dict)
    """Look-up id → the CommitOffsets that waits for it."""
    leaps: dict[int, PositionChecking] = field(default_factory=dict)
    """Look-up id → the position that waits for it."""
    pings: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """The Pings of this tick, by group."""
    dead: dict[str, list[str]] = field(default_factory=dict)
    """The members that were declared dead in this tick, and why, by group."""
    effects: list[Effect] = field(default_factory=list)
    """The effects of this event so far."""

    def do(self, effect: Effect) -> None:
        """Add an effect of this event."""
        self.effects.append(effect)

    def look_at(self, group: Group) -> None:
        """Decide the group's next step at the end of this event."""
        self.due_groups[group.name] = group
        self.looked_at.add(group.name)

    def concern(self, group: Group, topic: str) -> None:
        """Take note that changes of the topic concern the group from now on."""
        if topic in group.concerns:
            return
        group.concerns.add(topic)
        names = self.concerned.get(topic)
        if names is None:
            self.concerned[topic] = {group.name}
            self.watch_changes.add(topic)
        else:
            names.add(group.name)

    def concern_no_more(self, group: Group, topic: str) -> None:
        """Take note that changes of the topic do not concern the group any more."""
        group.concerns.discard(topic)
        for by_topic in (self.concerned, self.withheld):
            names = by_topic.get(topic)
            if names is not None:
                names.discard(group.name)
                if not names:
                    del by_topic[topic]
        if topic not in self.concerned:
            self.watch_changes.add(topic)
