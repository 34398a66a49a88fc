"""The controller's metrics: what an operator's alarms look at. Each is a length or a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hightide_runtime.metrics import Metrics

from hightide_controller.core.cluster_state import ClusterState, Role

__all__ = ["report_figures"]


def report_figures(metrics: Metrics, state: Callable[[], ClusterState]) -> None:
    """Say which figures there are; `state` is asked for when they are exported. A standby reports zeros."""
    for name, description, read in _FIGURES:
        metrics.gauge(f"hightide.controller.{name}", description, partial(_now, read, state))


def _now(read: _Read, state: Callable[[], ClusterState]) -> int:
    return read(state())


_Read = Callable[[ClusterState], int]
_FIGURES: tuple[tuple[str, str, _Read], ...] = (
    ("active", "1 where this controller is the active one", lambda state: state.role is Role.ACTIVE),
    ("epoch", "the epoch in which it was last elected", lambda state: state.controller_epoch),
    ("brokers_registered", "brokers with a session", lambda state: len(state.brokers)),
    ("brokers_dead", "registered brokers whose process is dead", lambda state: len(state.dead)),
    ("topics", "topics", lambda state: len(state.topics)),
    ("partitions", "partitions", lambda state: len(state.partitions)),
    ("partitions_without_leader", "new and offline ones", lambda state: len(state.unled)),
    ("partitions_under_replicated", "ISR smaller than AR", lambda state: len(state.under_replicated)),
    ("partitions_being_written", "decisions on their way to ZooKeeper", lambda state: len(state.storing)),
    ("topics_with_work", "deletions, moves and changes under way", lambda state: len(state.work)),
    ("complaints", "nonsense in ZooKeeper and work that cannot go on", lambda state: len(state.complaints)),
    ("requests_waiting", "requests that are not answered yet", lambda state: len(state.waiters)),
)
