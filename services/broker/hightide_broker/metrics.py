"""The broker's metrics: throughput, replication, and the state of its disks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.serving.answer_budget import AnswerBudget
from hightide_runtime.serving.fair_limit import FairLimit
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.telemetry.metric_declarations import (
    Measure,
    Reading,
    Readings,
    counter,
    gauge,
    histogram,
)

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.core.fetch_session import LeaderSessions
from hightide_broker.core.replica import UNKNOWN_OFFSET, Leading, Role
from hightide_broker.data.fetch import FetchHandler
from hightide_broker.directories.healing import ReplicaHealing
from hightide_broker.directories.log_directories import LogDirectories
from hightide_broker.directories.scrub import ReplicaScrub
from hightide_broker.replica.counters import OTHER_TOPICS, TOPICS_MAX, Counters
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import ReplicaShell
from hightide_broker.replication.comparison import LeaderComparison
from hightide_broker.replication.fetchers import Fetchers
from hightide_broker.replication.isr_store import IsrStore

__all__ = ["METRICS", "MeasuredParts", "broker_readings", "survey"]

_P: Final = "hightide.broker"
_FEW: Final = 500
"""Replicas after which other tasks of the event loop run, while thousands are read."""
_BY_TOPIC: Final = f"; of the first {TOPICS_MAX} topics, the others together as {OTHER_TOPICS}"

METRICS = (
    counter(f"{_P}.received", "By", "batches that producers sent and that were appended"),
    counter(f"{_P}.received_records", "{record}", "the records in them"),
    counter(f"{_P}.sent", "By", "batches that consumers were sent"),
    counter(f"{_P}.sent_records", "{record}", "the records in them"),
    counter(f"{_P}.topic.received", "By", f"received, by topic{_BY_TOPIC}", "topic"),
    counter(f"{_P}.topic.received_records", "{record}", f"received, by topic{_BY_TOPIC}", "topic"),
    counter(f"{_P}.topic.sent", "By", f"sent, by topic{_BY_TOPIC}", "topic"),
    counter(f"{_P}.topic.sent_records", "{record}", f"sent, by topic{_BY_TOPIC}", "topic"),
    counter(f"{_P}.replicated_in", "By", "batches copied from leaders"),
    counter(f"{_P}.replicated_in_records", "{record}", "the records in them"),
    counter(f"{_P}.replicated_out", "By", "batches sent to followers"),
    counter(
        f"{_P}.refusals", "{partition}",
        "partitions of produces and fetches that were refused, by operation and code of the error catalogue",
        "operation", "error.type",
    ),
    gauge(f"{_P}.replicas", "{replica}", "replicas that it holds"),
    gauge(f"{_P}.leaders", "{partition}", "partitions that it leads"),
    gauge(
        f"{_P}.partitions_under_replicated", "{partition}",
        "partitions that it leads whose ISR is smaller than AR",
    ),
    gauge(
        f"{_P}.partitions_under_min_isr", "{partition}",
        "partitions that it leads whose ISR is smaller than min.insync.replicas: acks=all is refused",
    ),
    gauge(f"{_P}.replicas_without_leader", "{replica}", "replicas of partitions that nobody leads"),
    gauge(f"{_P}.replicas_failed", "{replica}", "replicas in a data directory that failed"),
    gauge(f"{_P}.replicas_damaged", "{replica}", "replicas with batches that are not what was written"),
    gauge(
        f"{_P}.replicas_differing", "{replica}",
        "replicas with batches that are whole, and other ones than their leader has",
    ),
    gauge(
        f"{_P}.replicas_diverged", "{replica}",
        "replicas that keep committed records which their leader lacks, and follow nobody",
    ),
    counter(f"{_P}.damage_found", "{replica}", "how often a replica turned out to be damaged"),
    counter(f"{_P}.replicas_mended", "{replica}", "how often a damaged replica was made whole"),
    counter(f"{_P}.scrubbed", "By", "batches at rest that were read and checked"),
    counter(f"{_P}.compared", "By", "batches at rest on followers that were compared with their leaders"),
    gauge(f"{_P}.replicas_not_copied", "{replica}", "replicas whose copying fails, and is tried again"),
    gauge(
        f"{_P}.replica_lag_max", "{record}",
        "how many records the follower that is furthest behind lacks, of the partitions that it leads",
    ),
    counter(f"{_P}.isr_shrinks", "{change}", "ISRs from which it took a follower, as their leader"),
    counter(f"{_P}.isr_expansions", "{change}", "ISRs into which it let a follower, as their leader"),
    counter(f"{_P}.leaderships_begun", "{partition}", "leader epochs in which it began to lead"),
    counter(f"{_P}.leaderships_lost", "{partition}", "leader epochs in which it led and others lead now"),
    counter(f"{_P}.truncations", "{truncation}", "logs that were cut where their leader's parts from them"),
    counter(f"{_P}.truncated_records", "{record}", "the records that were cut off; not committed, as a rule"),
    gauge(f"{_P}.log.size", "By", "logs of all replicas"),
    gauge(f"{_P}.log_directories", "{directory}", "data directories, by state: online or failed", "state"),
    gauge(f"{_P}.log_directory.free", "By", "room that the broker may still use, by --data-dir", "directory"),
    histogram(f"{_P}.fsync.duration", "s", "one fsync of a log"),
    gauge(f"{_P}.produces_waiting", "{partition}", "appended, and not in all in-sync replicas yet"),
    gauge(f"{_P}.produce_in_flight", "By", "batches of produces that are not answered yet"),
    gauge(
        f"{_P}.answers_unread", "By", "answers that have not left yet: their clients do not read", "plane"
    ),
    counter(f"{_P}.answers_delayed", "{call}", "fetches that waited for room for their answers", "plane"),
    counter(f"{_P}.answers_refused", "{call}", "answers for which there was no room", "plane"),
    counter(
        f"{_P}.quota.taken", "By", "batches that callers produced or fetched who have a quota for that",
        "operation",
    ),
    counter(
        f"{_P}.quota.held", "s",
        "how long calls were held since their callers had used up their quota, together", "operation",
    ),
    counter(f"{_P}.quota.calls_held", "{call}", "calls that were held so", "operation"),
    gauge(f"{_P}.fetches_waiting", "{call}", "fetches of consumers that wait for records"),
    gauge(f"{_P}.replica_fetches_waiting", "{call}", "fetches of followers that wait for records"),
    gauge(f"{_P}.fetch_sessions", "{session}", "followers that copy from it"),
    gauge(f"{_P}.fetchers", "{broker}", "leaders that it copies from"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasuredParts:
    """The parts of a broker from which the metrics are read."""

    replicas: HostedReplicas
    directories: LogDirectories
    shell: ReplicaShell
    isr_store: IsrStore
    fetchers: Fetchers
    fetching: FetchHandler
    sessions: LeaderSessions[PartitionKey]
    in_flight: FairLimit
    quotas: LiveQuotas
    answers: Mapping[Plane, AnswerBudget]
    healing: ReplicaHealing
    scrub: ReplicaScrub
    comparison: LeaderComparison


@dataclass(slots=True)
class ReplicaSurvey:
    """Metrics that need a look at each replica."""

    replicas: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    without_leader: int = 0
    failed: int = 0
    diverged: int = 0
    lag_max: int = 0
    size_bytes: int = 0
    produces_waiting: int = 0

    def add(self, replica: HostedReplica) -> None:
        """Add one more replica. Its state is frozen, so any thread may read it."""
        state = replica.state
        self.replicas += 1
        self.size_bytes += replica.log.size_bytes
        self.produces_waiting += len(replica.acks)
        self.without_leader += state.role is Role.OFFLINE
        self.failed += state.role is Role.FAILED
        self.diverged += state.role is Role.DIVERGED
        leading = state.leading
        if leading is not None:
            self.leaders += 1
            in_sync = len(leading.isr.isr)
            self.under_replicated += in_sync < len(state.decision.replicas)
            self.under_min_isr += in_sync < state.settings.min_insync_replicas
            self.lag_max = max(self.lag_max, _lag(leading, state.log_end_offset))


def broker_readings(measured: MeasuredParts) -> Measure:
    """What `Metrics.report` takes with `METRICS`."""

    def measure() -> Readings:
        replicas = tuple(measured.replicas)
        counters = measured.shell.counters
        counters.keep_topics(frozenset(replica.topic for replica in replicas))
        readings: dict[str, Reading] = {
            **_moved(counters),
            **_replicated(survey(replicas), counters, measured),
            **_waiting(measured),
            **_answers(measured.answers),
            **_quotas(measured.quotas),
            **_disks(measured.directories),
        }
        return {f"{_P}.{name}": reading for name, reading in readings.items()}

    return measure


def survey(replicas: Iterable[HostedReplica]) -> ReplicaSurvey:
    """Read each replica on the exporter's thread: this takes a microsecond each."""
    found = ReplicaSurvey()
    for done, replica in enumerate(replicas, start=1):
        found.add(replica)
        if done % _FEW == 0:
            time.sleep(0)  # Otherwise this thread would keep the interpreter for 5 ms at a time.
    return found


def _lag(leading: Leading, log_end_offset: int) -> int:
    known = [each.log_end_offset for each in leading.progress if each.log_end_offset != UNKNOWN_OFFSET]
    return max(0, log_end_offset - min(known)) if known else 0


def _moved(counters: Counters) -> Readings:
    topics = tuple(counters.topics.items())
    return {
        "received": counters.received.size_bytes,
        "received_records": counters.received.records,
        "sent": counters.sent.size_bytes,
        "sent_records": counters.sent.records,
        "topic.received": {(topic,): flow.received.size_bytes for topic, flow in topics},
        "topic.received_records": {(topic,): flow.received.records for topic, flow in topics},
        "topic.sent": {(topic,): flow.sent.size_bytes for topic, flow in topics},
        "topic.sent_records": {(topic,): flow.sent.records for topic, flow in topics},
        "replicated_in": counters.replicated_in.size_bytes,
        "replicated_in_records": counters.replicated_in.records,
        "replicated_out": counters.replicated_out_bytes,
        "refusals": dict(tuple(counters.refusals.items())),
    }


def _replicated(found: ReplicaSurvey, counters: Counters, measured: MeasuredParts) -> Readings:
    return {
        "replicas": found.replicas,
        "leaders": found.leaders,
        "partitions_under_replicated": found.under_replicated,
        "partitions_under_min_isr": found.under_min_isr,
        "replicas_without_leader": found.without_leader,
        "replicas_failed": found.failed,
        "replicas_damaged": measured.healing.damaged_count,
        "replicas_differing": measured.comparison.differing_count,
        "replicas_diverged": found.diverged,
        "damage_found": measured.healing.found,
        "replicas_mended": measured.healing.healed,
        "scrubbed": measured.scrub.checked_bytes,
        "compared": measured.comparison.compared_bytes,
        "replicas_not_copied": measured.fetchers.count_failed(),
        "replica_lag_max": found.lag_max,
        "isr_shrinks": measured.isr_store.shrinks,
        "isr_expansions": measured.isr_store.expansions,
        "leaderships_begun": counters.leaderships_begun,
        "leaderships_lost": counters.leaderships_lost,
        "truncations": counters.truncations,
        "truncated_records": counters.truncated_records,
        "log.size": found.size_bytes,
        "produces_waiting": found.produces_waiting,
    }


def _waiting(measured: MeasuredParts) -> Readings:
    return {
        "fsync.duration": measured.shell.counters.fsync_s,
        "produce_in_flight": measured.in_flight.taken,
        "fetches_waiting": measured.fetching.waiting_count,
        "replica_fetches_waiting": len(measured.shell.parked_rounds),
        "fetch_sessions": len(measured.sessions),
        "fetchers": measured.fetchers.leader_count,
    }


def _answers(budgets: Mapping[Plane, AnswerBudget]) -> Readings:
    return {
        "answers_unread": {(plane.value,): budget.taken for plane, budget in budgets.items()},
        "answers_delayed": {(plane.value,): budget.waits for plane, budget in budgets.items()},
        "answers_refused": {(plane.value,): budget.refusals for plane, budget in budgets.items()},
    }


def _quotas(quotas: LiveQuotas) -> Readings:
    kinds = {("produce",): quotas.producing, ("fetch",): quotas.fetching}
    return {
        "quota.taken": {labels: counts.taken for labels, counts in kinds.items()},
        "quota.held": {labels: counts.held_s for labels, counts in kinds.items()},
        "quota.calls_held": {labels: counts.calls_held for labels, counts in kinds.items()},
    }


def _disks(directories: LogDirectories) -> Readings:
    free: dict[tuple[str, ...], int] = {}
    for directory in directories.online:
        with suppress(OSError):
            disk = os.statvfs(directory.path)
            free[directory.path,] = disk.f_bavail * disk.f_frsize
    states: dict[tuple[str, ...], int] = {
        ("online",): len(directories.online),
        ("failed",): len(directories.offline),
    }
    return {"log_directories": states, "log_directory.free": free}
