"""Assigning the partitions of a group to its streams: pure functions, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hightide_coordinator.core.assignors.range_assignor import assign_ranges
from hightide_coordinator.core.assignors.round_robin import assign_round_robin
from hightide_coordinator.core.assignors.sticky import assign_sticky
from hightide_coordinator.core.assignors.subscriber import Assignor, StreamId, Subscriber

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignor", "StreamId", "Subscriber", "chosen_assignor"]

DEFAULT_ASSIGNOR: Final = "sticky"
ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"range": assign_ranges, "roundrobin": assign_round_robin, "sticky": assign_sticky}
)
"""The names that a consumer may give when it registers."""


def chosen_assignor(votes: Mapping[str, int]) -> str:
    """The name that most members gave, ties by name; empty names count as the default. `votes` is name →
    number of members; all names are known."""
    counted: dict[str, int] = {}
    for name, count in votes.items():
        counted[name or DEFAULT_ASSIGNOR] = counted.get(name or DEFAULT_ASSIGNOR, 0) + count
    return min(counted, key=lambda name: (-counted[name], name), default=DEFAULT_ASSIGNOR)
