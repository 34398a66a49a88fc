"""Counters of one shard for a coordinator's metrics: rebalances, their reasons and durations."""

from __future__ import annotations

from hightide_runtime.telemetry.metric_declarations import Distribution

from hightide_coordinator.core.state.group import Group
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason

__all__ = ["Counters"]


class Counters:
    """One for each shard. Counted on the event loop, read on any thread."""

    def __init__(self) -> None:
        self.rebalances = dict.fromkeys(RebalanceReason, 0)
        self.rebalance_failures = 0
        self.rebalance_s = Distribution()

    def rebalanced(self, group: Group) -> None:
        """Count a rebalance of the group, or an attempt at one, that has ended."""
        if group.failures:
            self.rebalance_failures += 1
        else:
            self.rebalances[group.begun_by] += 1
            self.rebalance_s.record(group.last_rebalance_ms / 1000)
