"""Topics that do not concern a group any more: it gets no changes of them, and topics that concern no group
are not watched."""

from __future__ import annotations

from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.state.shard_state import ShardState

__all__ = ["drop_concerns"]


def drop_concerns(state: ShardState, group: Group) -> None:
    """Check the topics in doubt; O(partitions), so it is called where as much is done anyway, or when the
    group has come to rest. Not while a store is under way, which may be about such a topic."""
    if group.store is not None or group.is_reading or group.is_read_due:
        return
    doubtful, group.doubtful = group.doubtful & group.concerns, set()
    doubtful -= group.named_topics.keys()
    for interest in group.patterns.values():
        doubtful -= interest.topics
    doubtful = {topic for topic in doubtful if group.name not in state.withheld.get(topic, ())}
    for lasting in (group.offsets, group.owners, group.positions, group.voided):
        if doubtful:
            doubtful.difference_update([name.topic for name in lasting])
    moving = {name.topic for names in (group.steps, group.readers) for name in names} if doubtful else set()
    group.doubtful = doubtful & moving
    gone = doubtful - moving
    if not gone:
        return
    for topic in gone:
        state.concern_no_more(group, topic)
    # No event would say if they became another topic's.
    for kept in (group.asked, group.found, group.begun):
        for name in [name for name in kept if name.topic in gone]:
            del kept[name]
