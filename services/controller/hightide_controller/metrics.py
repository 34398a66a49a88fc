"""The controller's metrics: those for an operator's alerts, and how long its work takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hightide_runtime.telemetry.metric_declarations import Measure, Readings, counter, gauge, histogram

from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import PartitionState
from hightide_controller.counters import ELECTION_REASONS, Counters
from hightide_controller.inbox import Inbox

__all__ = ["METRICS", "controller_readings"]

_MIN_ISR: Final = "min.insync.replicas"
_P: Final = "hightide.controller"

METRICS = (
    gauge(f"{_P}.active", "{controller}", "1 where this controller is the active one, else 0"),
    gauge(f"{_P}.epoch", "{epoch}", "the controller epoch in which it was last elected"),
    gauge(f"{_P}.brokers_registered", "{broker}", "brokers with a session"),
    gauge(f"{_P}.brokers_dead", "{broker}", "registered brokers whose process is dead"),
    gauge(
        f"{_P}.brokers_silent", "{broker}",
        "live brokers that do not acknowledge what they are told: others lead what they can",
    ),
    gauge(
        f"{_P}.undelivered_age", "s",
        "how long at most a live broker has acknowledged nothing of what it was told",
    ),
    gauge(f"{_P}.topics", "{topic}", "topics"),
    gauge(f"{_P}.partitions", "{partition}", "partitions"),
    gauge(f"{_P}.partitions_without_leader", "{partition}", "new and offline partitions"),
    gauge(f"{_P}.partitions_offline", "{partition}", "partitions of which no in-sync replica is alive"),
    gauge(f"{_P}.partitions_under_replicated", "{partition}", "partitions whose ISR is smaller than AR"),
    gauge(
        f"{_P}.partitions_under_min_isr", "{partition}",
        "partitions whose ISR is smaller than their topic's min.insync.replicas: acks=all is refused; "
        "of topics that set none, brokers tell (hightide.broker.partitions_under_min_isr)",
    ),
    gauge(f"{_P}.partitions_being_written", "{partition}", "decisions on their way to ZooKeeper"),
    gauge(f"{_P}.topics_with_work", "{topic}", "deletions, moves and changes under way"),
    gauge(f"{_P}.complaints", "{complaint}", "nonsense in ZooKeeper and work that cannot go on"),
    gauge(f"{_P}.requests_waiting", "{request}", "requests that are not answered yet"),
    counter(
        f"{_P}.elections", "{election}",
        "partitions that were given a leader, or a new leader epoch: " + ", ".join(ELECTION_REASONS),
        "reason",
    ),
    counter(f"{_P}.unclean_elections", "{election}", "elections of a replica that was not in the ISR"),
    counter(f"{_P}.partitions_gone_offline", "{partition}", "partitions that lost their last leader"),
    counter(
        f"{_P}.quota.mutations_refused", "{request}",
        "requests that were refused since their callers had created and deleted too many partitions",
    ),
    gauge(f"{_P}.events_queued", "{event}", "events that wait for the controller"),
    histogram(f"{_P}.event_queue.duration", "s", "how long an event waited"),
    histogram(f"{_P}.event.duration", "s", "how long the controller worked on an event"),
    histogram(
        f"{_P}.failover.duration", "s",
        "from the break of a broker or a controller until every live broker had acknowledged the decisions",
        "reason",
    ),
)  # fmt: skip


def controller_readings(
    state: Callable[[], ClusterState], inbox: Inbox, counters: Counters, longest_owed_ms: Callable[[], int]
) -> Measure:
    """The readings for `Metrics.report` with `METRICS`. A standby reports zeros for what it need not know."""

    def measure() -> Readings:
        now = state()
        return {f"{_P}.{name}": value for name, value in _lengths(now).items()} | {
            f"{_P}.undelivered_age": longest_owed_ms() / 1000,
            f"{_P}.partitions_offline": _count_offline(now),
            f"{_P}.partitions_under_min_isr": _count_under_min_isr(now),
            f"{_P}.elections": {(reason,): count for reason, count in tuple(counters.elections.items())},
            f"{_P}.unclean_elections": counters.unclean_elections,
            f"{_P}.partitions_gone_offline": counters.gone_offline,
            f"{_P}.quota.mutations_refused": counters.mutations_refused,
            f"{_P}.events_queued": len(inbox),
            f"{_P}.event_queue.duration": inbox.waited_s,
            f"{_P}.event.duration": counters.event_s,
            f"{_P}.failover.duration": {
                (reason,): took for reason, took in tuple(counters.failover_s.items())
            },
        }

    return measure


def _lengths(state: ClusterState) -> dict[str, int]:
    return {
        "active": int(state.role is Role.ACTIVE),
        "epoch": state.controller_epoch,
        "brokers_registered": len(state.brokers),
        "brokers_dead": len(state.dead),
        "brokers_silent": len(state.silent),
        "topics": len(state.topics),
        "partitions": len(state.partitions),
        "partitions_without_leader": len(state.unled),
        "partitions_under_replicated": len(state.under_replicated),
        "partitions_being_written": len(state.storing),
        "topics_with_work": len(state.work),
        "complaints": len(state.complaints),
        "requests_waiting": len(state.waiters),
    }


def _count_offline(state: ClusterState) -> int:
    """Count the offline partitions among those without a leader, which are few."""
    found = (state.partitions.get(name) for name in tuple(state.unled))
    return sum(each is not None and each.state is PartitionState.OFFLINE for each in found)


def _count_under_min_isr(state: ClusterState) -> int:
    """Count the partitions with fewer in-sync replicas than their topic requires. Only under-replicated
    partitions are checked: no topic requires more in-sync replicas than it has replicas, so no others can be
    below. They are few."""
    count = 0
    for name in tuple(state.under_replicated):
        partition, topic = state.partitions.get(name), state.topics.get(name.topic)
        if partition is None or topic is None or partition.leader_and_isr is None:
            continue  # It was removed during the count.
        needed = topic.configs.get(_MIN_ISR, "")
        count += needed.isdecimal() and len(partition.leader_and_isr.isr) < int(needed)
    return count
