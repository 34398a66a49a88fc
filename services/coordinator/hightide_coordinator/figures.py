"""The coordinator's metrics: what an operator's alarms look at. Each is a length or a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hightide_runtime.metrics import Metrics

from hightide_coordinator.core.shard_state import Role, ShardState
from hightide_coordinator.shell import Shell

__all__ = ["report_figures"]


def report_figures(metrics: Metrics, shell: Shell) -> None:
    """Say which figures there are; they are read when they are exported. A standby reports zeros."""
    metrics.gauge(
        "hightide.coordinator.streams", "streams of consumers, members or not", lambda: len(shell.streams)
    )
    metrics.gauge(
        "hightide.coordinator.requests_waiting",
        "commits, resets and deletes that are not durable yet",
        lambda: sum(len(shard.requests) for shard in shell.shards),
    )
    for name, description, read in _FIGURES:
        metrics.gauge(f"hightide.coordinator.{name}", description, partial(_sum, read, shell))


def _sum(read: Callable[[ShardState], int], shell: Shell) -> int:
    return sum(read(shard.state) for shard in shell.shards)


_FIGURES: tuple[tuple[str, str, Callable[[ShardState], int]], ...] = (
    ("active_shards", "shards that this process coordinates", lambda state: state.role is Role.ACTIVE),
    ("epoch", "the epoch in which it was last elected", lambda state: state.coordinator_epoch),
    ("groups", "groups, also those without members", lambda state: len(state.groups)),
    ("members", "consumers that are members of a group", lambda state: state.member_count),
    ("stores_in_flight", "groups that ZooKeeper is writing down", lambda state: len(state.stores)),
    ("look_ups_in_flight", "groups that wait for start offsets", lambda state: len(state.look_ups)),
)
