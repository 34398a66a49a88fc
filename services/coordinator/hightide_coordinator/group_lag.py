"""The lag of groups: committed offsets compared with the ends of partitions. Off by default.

A coordinator knows the committed offsets and no ends of logs. With --group-lag-interval-ms it asks the
leaders from time to time, as it does for partitions that begin to be read. The number of groups and
partitions is limited, so that the cost for the cluster does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hightide_runtime.process.repeated_step import RepeatedStep

from hightide_coordinator.core.effects import LookUpOffsets
from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.values.registration import OffsetReset
from hightide_coordinator.core.values.topic_partition import TopicPartition
from hightide_coordinator.offset_lookup import StartOffsets

__all__ = ["GROUPS_MAX", "PARTITIONS_MAX", "GroupLag", "chosen_offsets", "lags_of"]

GROUPS_MAX: Final = 100
PARTITIONS_MAX: Final = 5_000

Offsets = Mapping[str, Mapping[TopicPartition, int]]


class GroupLag:
    """Measures the lag of groups. One for each process; belongs to the event loop's thread. `lags` may be
    read on any thread."""

    def __init__(self, groups: Callable[[], Iterable[Group]], ends: StartOffsets, interval_ms: int) -> None:
        """`groups`: those of this process; `ends` is not shared with look-ups that others wait for."""
        self.lags: Mapping[str, int] = {}
        """Records, by group, as of the last look-up. Groups of which some end was not found are left out."""
        self._groups = groups
        self.ends = ends
        self._is_on = interval_ms > 0
        self._looking = RepeatedStep("the look-up of the lag of groups", interval_ms / 1000, self._measure)
        self._look_ups = 0

    def start(self) -> None:
        """Begin to measure, if that is switched on."""
        if self._is_on:
            self._looking.start()

    async def close(self) -> None:
        """Stop measuring."""
        await self._looking.close()
        await self.ends.close()

    async def _measure(self) -> None:
        self.lags = await self._look_up()

    async def _look_up(self) -> Mapping[str, int]:
        committed = chosen_offsets(self._groups())
        wanted = {name: OffsetReset.LARGEST for offsets in committed.values() for name in offsets}
        if not wanted:
            return {}
        self._look_ups += 1
        found = await self.ends.look_up(LookUpOffsets(self._look_ups, wanted))
        return lags_of(committed, {name: end.offset for name, end in found.found.items()})


def chosen_offsets(groups: Iterable[Group]) -> Offsets:
    """The committed offsets of groups, first of those with members, as many as the limits allow."""
    chosen: dict[str, Mapping[TopicPartition, int]] = {}
    room = PARTITIONS_MAX
    for group in sorted(groups, key=lambda group: (not group.members, group.name)):
        if len(chosen) == GROUPS_MAX:
            break
        if 0 < len(group.offsets) <= room:
            room -= len(group.offsets)
            chosen[group.name] = {name: each.offset for name, each in group.offsets.items()}
    return chosen


def lags_of(committed: Offsets, ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    """Records between committed offsets and the ends, by group. A group with a missing end is left out,
    because a sum without a partition looks like a group that caught up."""
    return {
        group: sum(max(0, ends[name] - offset) for name, offset in offsets.items())
        for group, offsets in committed.items()
        if offsets.keys() <= ends.keys()
    }
