"""The coordinator's metrics: those for an operator's alerts, and how long its work takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hightide_runtime.telemetry.metric_declarations import (
    Distribution,
    Measure,
    Readings,
    counter,
    gauge,
    histogram,
)

from hightide_coordinator.core.state.shard_state import Role
from hightide_coordinator.core.values.rebalance_reason import RebalanceReason
from hightide_coordinator.group_lag import GROUPS_MAX, PARTITIONS_MAX
from hightide_coordinator.shard import Shard
from hightide_coordinator.shell import CoordinatorShell

__all__ = ["METRICS", "coordinator_readings"]

_P: Final = "hightide.coordinator"

METRICS = (
    gauge(f"{_P}.streams", "{stream}", "streams of consumers, members or not"),
    gauge(f"{_P}.active_shards", "{shard}", "shards of the groups that it coordinates"),
    gauge(f"{_P}.epoch", "{epoch}", "the coordinator epoch of its last election for the shard", "shard"),
    gauge(f"{_P}.groups", "{group}", "groups, also those without members"),
    gauge(f"{_P}.groups_failed", "{group}", "groups whose rebalance failed too often in a row"),
    gauge(f"{_P}.members", "{member}", "consumers that are members of a group"),
    counter(
        f"{_P}.rebalances", "{rebalance}",
        "rebalances that were completed, by what they began with: " + ", ".join(RebalanceReason),
        "reason",
    ),
    counter(f"{_P}.rebalance_failures", "{attempt}", "attempts that failed and were repeated"),
    histogram(f"{_P}.rebalance.duration", "s", "from the first order to the last answer"),
    counter(f"{_P}.consumers_not_reading", "{stream}", "streams closed that nobody read"),
    gauge(f"{_P}.requests_waiting", "{request}", "commits, resets and deletes under way"),
    gauge(f"{_P}.stores_in_flight", "{group}", "groups that ZooKeeper is writing down"),
    gauge(f"{_P}.look_ups_in_flight", "{group}", "groups that wait for start offsets"),
    gauge(
        f"{_P}.group_lag", "{record}",
        "records between what a group has committed and the high watermarks, as last looked up; only with "
        f"--group-lag-interval-ms, and of at most {GROUPS_MAX} groups and {PARTITIONS_MAX} partitions",
        "group",
    ),
)  # fmt: skip


def coordinator_readings(shell: CoordinatorShell) -> Measure:
    """The readings for `Metrics.report` with `METRICS`. A standby reports zeros."""

    def measure() -> Readings:
        shards = shell.shards
        lengths = {f"{_P}.{name}": sum(read(shard) for shard in shards) for name, read in _LENGTHS.items()}
        return lengths | {
            f"{_P}.streams": len(shell.streams),
            f"{_P}.epoch": {(str(shard.shard),): shard.state.coordinator_epoch for shard in shards},
            f"{_P}.rebalances": {
                (reason.value,): sum(shard.counters.rebalances[reason] for shard in shards)
                for reason in RebalanceReason
            },
            f"{_P}.rebalance.duration": Distribution.of_all([shard.counters.rebalance_s for shard in shards]),
            f"{_P}.group_lag": {(group,): lag for group, lag in shell.group_lag.lags.items()},
        }

    return measure


_LENGTHS: Final[dict[str, Callable[[Shard], int]]] = {
    "active_shards": lambda shard: shard.state.role is Role.ACTIVE,
    "groups": lambda shard: len(shard.state.groups),
    "groups_failed": lambda shard: shard.count_failed_groups(),
    "members": lambda shard: shard.state.member_count,
    "rebalance_failures": lambda shard: shard.counters.rebalance_failures,
    "consumers_not_reading": lambda shard: shard.unread_streams.count,
    "requests_waiting": lambda shard: len(shard.requests),
    "stores_in_flight": lambda shard: len(shard.state.stores),
    "look_ups_in_flight": lambda shard: len(shard.state.look_ups),
}
