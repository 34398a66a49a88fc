"""What one shard of a coordinator counts as it goes, for its metrics: rebalances, why, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hightide_runtime.figures import Distribution

from hightide_coordinator.core.group import Group

__all__ = ["REBALANCE_REASONS", "Tallies", "reason_kind"]

_KINDS: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    ("takeover", lambda reason: reason.startswith("this coordinator took over")),
    ("topics", lambda reason: reason.startswith(("topic ", "the partitions of topic "))),
    ("zookeeper", lambda reason: reason.startswith("ZooKeeper ")),
    ("subscription", lambda reason: reason.endswith("subscribes to something else")),
    ("new_process", lambda reason: reason.startswith("instance ")),
    ("joined", lambda reason: reason.endswith(" joined")),
    ("left", lambda reason: reason.endswith(" left")),
    ("declared_dead", lambda reason: " was declared dead: " in reason),
)
REBALANCE_REASONS: Final = (*(kind for kind, _ in _KINDS), "other")


def reason_kind(reason: str) -> str:
    """Which kind of reason a group's sentence gives; there are as many sentences as there are consumers."""
    return next((kind for kind, is_it in _KINDS if is_it(reason)), "other")


class Tallies:
    """One for each shard. Counted on the event loop, read on any thread."""

    def __init__(self) -> None:
        self.rebalances = dict.fromkeys(REBALANCE_REASONS, 0)
        self.rebalance_failures = 0
        self.rebalance_s = Distribution()

    def rebalanced(self, group: Group) -> None:
        """A rebalance of the group, or an attempt at one, has ended."""
        if group.failures:
            self.rebalance_failures += 1
        else:
            self.rebalances[reason_kind(group.reason)] += 1
            self.rebalance_s.record(group.last_rebalance_ms / 1000)
