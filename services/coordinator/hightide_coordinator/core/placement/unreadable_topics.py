"""Topics whose znodes cannot be decoded now. Groups with data about them are read again when they can be.

Such a topic must not count as deleted. So the stores do not return owners or offsets of it, but only that
there are some. Once there is news of the topic, those groups are read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from hightide_coordinator.core.effects import ReadGroup
from hightide_coordinator.core.placement.placement import place_all
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.shard_state import ShardState

__all__ = ["note_news", "read_what_is_due", "still_withheld", "withhold"]


def withhold(state: ShardState, group: Group, topics: Iterable[str]) -> None:
    """Take note that the group holds data about these topics, and was read without it."""
    for topic in topics:
        state.withheld.setdefault(topic, set()).add(group.name)
        state.concern(group, topic)


def still_withheld(state: ShardState, group: Group) -> set[str]:
    """The topics of which there was no news since."""
    return {topic for topic, names in state.withheld.items() if group.name in names}


def note_news(state: ShardState, topic: str) -> None:
    """Take note that the topic can be decoded again, or is gone: in both cases its groups have to be read
    again."""
    for name in state.withheld.pop(topic, ()):
        group = state.groups[name]
        group.is_read_due = True
        state.look_at(group)


def read_what_is_due(state: ShardState, group: Group) -> None:
    """Read the group again, after what is being written of it."""
    if not group.is_read_due or group.store is not None or group.is_reading:
        return
    group.is_read_due = False
    group.is_reading = True
    place_all(group, group.steps)
    state.do(ReadGroup(group.name))
