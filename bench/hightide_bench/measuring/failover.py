"""`bench failover`: ends the leader of all partitions, then the active controller, and measures the waits.

One round creates its topics, writes a record to each partition, and waits until the cluster is idle. Then it
ends the broker that leads all partitions, while clients write to a few of them, and starts it again. Then it
kills the active controller. At last it reads everything back.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from hightide import Admin, Consumer, Delivery, Producer
from hightide_cli.trace.search import broker_failover, controller_failover
from hightide_local.cluster import LocalCluster
from hightide_local.traces.trace_lookup import FailoverSummary, summarise_failover

from hightide_bench.loads.failover_load import row_of
from hightide_bench.loads.load_worker import LoadFailedError, LoadWorker
from hightide_bench.measuring.cluster_resources import (
    ProcessorSeconds,
    idle_figures,
    memory_figures,
    until_quiet,
)
from hightide_bench.measuring.comparison import Comparer, RecordRow
from hightide_bench.measuring.deliveries import DeliveryTimes
from hightide_bench.measuring.partition_spread import Replicas, evenly, partitions_of, spread
from hightide_bench.measuring.statistics import medians
from hightide_bench.measuring.target import LoadTarget

Figures = dict[str, float | None]

STEPS = ("detect_ms", "elect_ms", "zookeeper_ms", "fan_out_ms", "all_led_ms", "first_commit_ms")
LOADED_MAX = 6
"""The number of partitions that clients write to. The others have one record each."""
_COUNTS = ("lost", "duplicated", "client_errors")
_LARGEST = ("unavailable_ms_max", "broker_rss_mb", "controller_rss_mb", "zookeeper_rss_mb")
_STEP_TIMEOUT_S = 120.0
_CALL_TIMEOUT_MS = 60_000
_LOOK_AGAIN_S = 0.2
_TRACE_WAIT_S = 60.0
_COMMIT_WAIT_S = 20.0
_LOAD_GOES_ON_S = 1.0
# A broker's flush.interval.ms and a little more. A broker that was idle for this time has flushed everything.
_FLUSHES_EVERY_S = 32.0
_QUIET_PERCENT = 5.0
_QUIET_WINDOW_S = 4.0
_QUIET_WAIT_S = 180.0
# Short for precise waits. Longer if thousands of partitions fail over, so that the load does not disturb
# them.
_INTERVAL_MS, _INTERVAL_OF_MANY_MS = 2.0, 10.0


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """The plan of each round. `idle_s` is the time for which the idle cluster is measured, 0 for not at all.
    `loaded` is the number of partitions that clients write to."""

    partitions: int
    graceful: bool = False
    idle_s: float = 20.0
    loaded: int = LOADED_MAX

    @property
    def is_large(self) -> bool:
        """Whether far more partitions fail over than clients write to."""
        return self.partitions > 10 * self.loaded

    @property
    def steps(self) -> int:
        """How often a round calls `say`, if there is a second controller."""
        return 6 + self.is_large + bool(self.idle_s)

    @property
    def interval_ms(self) -> float:
        """The time between two records to a loaded partition, which is the precision of the waits."""
        return _INTERVAL_OF_MANY_MS if self.is_large else _INTERVAL_MS


def merged(rounds: Sequence[Figures]) -> Figures:
    """Return the figures of all rounds: sums of the failures, maxima of waits and sizes, else medians."""
    figures = medians(rounds)
    for name in _LARGEST:
        measured = [value for each in rounds if (value := each[name]) is not None]
        figures[name] = max(measured) if measured else None
    for name in _COUNTS:
        figures[name] = sum(each[name] or 0 for each in rounds)
    return figures


def measure_failover(target: LoadTarget, plan: FailoverPlan, say: Callable[[str], None]) -> Figures:
    """Run one round. `say` gets a line of text at the beginning of each step. Raises LoadFailedError if a
    step does not end in time."""
    if target.cluster is None:
        raise LoadFailedError("failover kills a broker: it needs the cluster of `hightide dev up`, or none")
    with Admin(target.bootstrap, timeout_ms=_CALL_TIMEOUT_MS) as admin:
        one_round = _Round(target.cluster, admin, target.bootstrap, plan, say)
        try:
            return one_round.run()
        finally:
            target.delete_topics(one_round.topics)


class _Round:
    """One round on one cluster."""

    def __init__(
        self,
        cluster: LocalCluster,
        admin: Admin,
        bootstrap: str,
        plan: FailoverPlan,
        say: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._bootstrap = bootstrap
        self._plan = plan
        self._say = say
        alive = [broker.broker_id for broker in admin.describe_cluster().brokers if broker.alive]
        if len(alive) < 2:
            raise LoadFailedError(f"a leader can only be replaced among two brokers; {len(alive)} are alive")
        self._victim = min(alive)
        prefix = f"bench-failover-{time.time_ns() // 1_000_000}-{os.getpid()}"
        self._topics = spread(prefix, plan.partitions, alive, self._victim)
        self._loaded = evenly(partitions_of(self._topics), plan.loaded)

    @property
    def topics(self) -> list[str]:
        """The names of its topics. A round that failed may not have created all of them."""
        return list(self._topics)

    def run(self) -> Figures:
        """Run all steps, and return their figures."""
        figures: Figures = {"create_ms": self._create()}
        fill = self._fill()
        figures["settle_s"] = self._settle()
        figures.update(dict.fromkeys(("idle_cpu_percent", "zookeeper_idle_cpu_percent")))
        if self._plan.idle_s:
            self._say(f"idling for {self._plan.idle_s:g} s")
            figures.update(idle_figures(self._cluster, self._plan.idle_s))
        memory = memory_figures(self._cluster)
        figures.update(self._end_the_broker(fill))
        figures["takeover_ms"] = self._kill_the_controller()
        for name, size in memory_figures(self._cluster).items():
            figures[name] = max(size or 0.0, memory[name] or 0.0)
        return figures

    def _create(self) -> float:
        self._say(f"creating {self._plan.partitions} partitions in {len(self._topics)} topics")
        configs = {"min.insync.replicas": str(min(2, len(self._assignment_of_first())))}
        began_s = time.monotonic()
        for name, assignment in self._topics.items():
            self._admin.create_topic(name, assignment=assignment, configs=configs)
        return (time.monotonic() - began_s) * 1000

    def _assignment_of_first(self) -> Replicas:
        return next(iter(self._topics.values()))[0]

    def _fill(self) -> list[RecordRow]:
        """Write a record to each partition, so that each has a log on disk. Return these rows."""
        self._say(f"a record to each of {self._plan.partitions} partitions")
        sent: list[tuple[RecordRow, Delivery]] = []
        with Producer(self._bootstrap, acks="all") as producer:
            for topic, assignment in self._topics.items():
                for partition in range(len(assignment)):
                    value = b"%s-%d" % (topic.encode(), partition)
                    sent.append(
                        (RecordRow(value, value), producer.send(topic, value, value, partition=partition))
                    )
                # One topic at a time, so that no follower falls behind so far that it leaves the ISR.
                producer.flush()
        for _, delivery in sent:
            if (error := delivery.exception(0)) is not None:
                raise LoadFailedError(f"a record could not be written before anything was killed: {error}")
        return [row for row, _ in sent]

    def _settle(self) -> float:
        """Wait until every replica is in sync and every log is flushed. Return the time that this took, in
        seconds.

        Brokers flush each log in the background. This work belongs to the writes before, and would otherwise
        count as the cost of an idle cluster.
        """
        began_s = time.monotonic()
        self._until_all_in_sync()
        if self._plan.is_large:
            self._say(f"{_FLUSHES_EVERY_S:.0f} s or more, until all that is on disk")
            until_quiet(
                self._cluster,
                percent=_QUIET_PERCENT,
                window_s=_QUIET_WINDOW_S,
                quiet_s=_FLUSHES_EVERY_S,
                timeout_s=_QUIET_WAIT_S,
            )
        return time.monotonic() - began_s

    def _end_the_broker(self, fill: Sequence[RecordRow]) -> Figures:
        """End the leader of all partitions under load, start it again, and read everything back."""
        name = f"broker-{self._victim}"
        configuration = {
            "bootstrap": self._bootstrap,
            "partitions": self._loaded,
            "interval_ms": self._plan.interval_ms,
        }
        with LoadWorker("hightide_bench.loads.failover_load", configuration) as load:
            load.wait_until_ready()
            self._say(f"ending {name}, which leads {self._plan.partitions} partitions")
            before = ProcessorSeconds.now(self._cluster)
            ended_at_s = self._cluster.terminate(name) if self._plan.graceful else self._cluster.kill(name)
            ended_at_ms = (time.monotonic() - (time.time() - ended_at_s)) * 1000
            summary = self._broker_trace(ended_at_s)
            used = ProcessorSeconds.now(self._cluster).since(before)
            self._until(self._all_led, f"every partition has a new leader after {name}")
            time.sleep(_LOAD_GOES_ON_S)
            load.stop()
            sent = load.result()
        rejoin_ms = self._bring_back(name)
        times = DeliveryTimes.of(dict(enumerate(sent["acknowledged_ms"])))
        waits = times.longest_waits_ms(ended_at_ms, max(times.latest_ms(), ended_at_ms))
        return {
            **{step: None if summary is None else getattr(summary, step) for step in STEPS},
            "multis_refused": None if summary is None else float(summary.multis_refused),
            "failover_cpu_s": sum(used.values()),
            "unavailable_ms_max": max(waits.values()),
            "unavailable_ms_p50": median(waits.values()),
            "rejoin_ms": rejoin_ms,
            **self._read_back(fill, sent["sent_per_partition"], sent["failed"]),
        }

    def _bring_back(self, name: str) -> float:
        """Start the broker again. Return the milliseconds until every replica is in sync."""
        self._say(f"{name} comes back")
        began_s = time.monotonic()
        self._cluster.restart(name, timeout_s=_STEP_TIMEOUT_S)
        self._until_all_in_sync()
        return (time.monotonic() - began_s) * 1000

    def _kill_the_controller(self) -> float | None:
        """Kill the active controller, and start it again. Return the takeover of the other one in
        milliseconds, from detection until all brokers have its decisions; None if there is no other one, or
        no trace in time."""
        name = self._cluster.active_controller()
        if len(self._cluster.controllers) < 2:
            return None
        self._say(f"killing {name}")
        killed_at_s = self._cluster.kill(name)
        deadline_s = time.monotonic() + _TRACE_WAIT_S
        takeover_ms: float | None = None
        while takeover_ms is None and time.monotonic() < deadline_s:
            time.sleep(_LOOK_AGAIN_S)
            trace = controller_failover(self._cluster.trace_directory, killed_at_s)
            takeover_ms = None if trace is None else summarise_failover(trace, killed_at_s).takeover_ms
        self._cluster.restart(name, timeout_s=_STEP_TIMEOUT_S)
        return takeover_ms

    def _read_back(
        self, fill: Sequence[RecordRow], sent: int, failed: Sequence[tuple[int, int, str]]
    ) -> Figures:
        self._say("reading everything back")
        not_acknowledged = {(place, number) for place, number, _ in failed}
        written = [*fill]
        written += [
            RecordRow(*row_of(place, number))
            for number in range(sent)
            for place in range(len(self._loaded))
            if (place, number) not in not_acknowledged
        ]
        comparer = Comparer(written, [RecordRow(*row_of(*each)) for each in not_acknowledged])
        with Consumer(self._bootstrap, topics=list(self._topics)) as consumer:
            for record in consumer.read_to_end():
                comparer.read_back(RecordRow(record.key, record.value))
        found = comparer.result()
        # Reordered and foreign rows have no figure of their own, but must make the benchmark fail.
        return {
            "lost": float(found.lost),
            "duplicated": float(found.duplicated + found.foreign + found.reordered),
            "client_errors": float(len(failed)),
        }

    def _broker_trace(self, since_s: float) -> FailoverSummary | None:
        """Wait for the trace of the failover that began at `since_s` (wall clock), and return its summary.

        The span of the first commit comes after all others. If it does not come in time, the summary is
        without it. The traces are read seldom, because this costs processor time on the measured machine.
        """
        found: FailoverSummary | None = None
        deadline_s = time.monotonic() + _TRACE_WAIT_S
        while time.monotonic() < deadline_s:
            trace = broker_failover(self._cluster.trace_directory, self._victim, since_s)
            if trace is not None:
                if found is None:
                    deadline_s = time.monotonic() + _COMMIT_WAIT_S
                found = summarise_failover(trace, since_s)
                if found.first_commit_ms is not None:
                    return found
            time.sleep(_LOOK_AGAIN_S)
        return found

    def _all_led(self) -> bool:
        described = self._admin.describe_cluster()
        led = {broker.broker_id: broker.leader_count for broker in described.brokers}
        return not described.offline_partition_count and not led.get(self._victim, 0)

    def _until_all_in_sync(self) -> None:
        self._until(
            lambda: not self._admin.describe_cluster().under_replicated_partition_count,
            "every replica is in sync",
        )

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until this has happened. Raises LoadFailedError after _STEP_TIMEOUT_S."""
        deadline_s = time.monotonic() + _STEP_TIMEOUT_S
        while not happened():
            if time.monotonic() > deadline_s:
                raise LoadFailedError(f"it did not happen within {_STEP_TIMEOUT_S:.0f} s that {what}")
            time.sleep(_LOOK_AGAIN_S)
