"""The coordinator's metrics: what an operator's alarms look at. Each is a length or a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hightide_runtime.metrics import Metrics

from hightide_coordinator.core.shard_state import Role
from hightide_coordinator.shard import Shard
from hightide_coordinator.shell import Shell

__all__ = ["report_figures"]


def report_figures(metrics: Metrics, shell: Shell) -> None:
    """Say which figures there are; they are read when they are exported. A standby reports zeros."""
    metrics.gauge(
        "hightide.coordinator.streams", "streams of consumers, members or not", lambda: len(shell.streams)
    )
    for name, description, read in _FIGURES:
        metrics.gauge(f"hightide.coordinator.{name}", description, partial(_sum, read, shell))


def _sum(read: Callable[[Shard], int], shell: Shell) -> int:
    return sum(read(shard) for shard in shell.shards)


_FIGURES: tuple[tuple[str, str, Callable[[Shard], int]], ...] = (
    ("active_shards", "shards that it coordinates", lambda shard: shard.state.role is Role.ACTIVE),
    ("epoch", "the epoch in which it was last elected", lambda shard: shard.state.coordinator_epoch),
    ("groups", "groups, also those without members", lambda shard: len(shard.state.groups)),
    ("groups_failed", "groups whose rebalance failed too often", lambda shard: shard.count_failed_groups()),
    ("members", "consumers that are members of a group", lambda shard: shard.state.member_count),
    ("rebalances", "rebalances that ended, since it started", lambda shard: shard.rebalances),
    ("rebalance_failures", "attempts that failed, since it started", lambda shard: shard.rebalance_failures),
    ("consumers_not_reading", "streams that were closed for it", lambda shard: shard.unread_streams.count),
    ("requests_waiting", "commits, resets and deletes under way", lambda shard: len(shard.requests)),
    ("stores_in_flight", "groups that ZooKeeper is writing down", lambda shard: len(shard.state.stores)),
    ("look_ups_in_flight", "groups that wait for start offsets", lambda shard: len(shard.state.look_ups)),
)
