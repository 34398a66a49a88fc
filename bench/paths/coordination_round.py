"""One round of `coordination_paths.py`: what a cluster with a controller, or without, needs for each change.

Each step has its own prefix in the figures. A step's `reads`, `writes` and `kb` are what ZooKeeper was asked
meanwhile, by all processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from hightide import Admin, HightideError, Producer, TopicPartition
from hightide_bench.loads.load_worker import LoadFailedError, LoadWorker
from hightide_bench.measuring.cluster_resources import ProcessorSeconds, idle_figures, until_quiet
from hightide_bench.measuring.deliveries import DeliveryTimes
from hightide_bench.measuring.partition_spread import Numbered, Replicas, evenly, partitions_of, spread
from hightide_bench.measuring.statistics import percentile
from hightide_cli.trace.search import broker_failover
from hightide_local.cluster import LocalCluster
from hightide_local.traces.trace_lookup import summarise_failover
from hightide_runtime.znodes.leaders_znodes import StateQueueZnode
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from zookeeper_meter import LeaderWatch, ZooKeeperCounts

Figures = dict[str, float | None]

BROKERS = (1, 2, 3)
VICTIM = 1
"""The broker that leads most."""
SLOW = 3
"""The broker that is slow."""
CONFIGS = {"min.insync.replicas": "2"}
LOADED = 6
"""The partitions that clients write to, of those that the victim leads."""
MANY = 100
"""From so many partitions on, the idle cluster is measured when all logs are on disk."""
MOVED = 10
"""The partitions that are moved together."""
SLOW_S = 0.5
"""How long the slow broker does nothing: less than makes a controller take it for dead."""
SLOW_TOPICS = 50
AT_ONCE = 8
"""The clients that create and delete topics at the same time."""
OUTAGE_S = 10.0
"""How long all controllers are dead."""
_STEP_S = 300.0
_POLL_S = 0.02
_LOOK_AGAIN_S = 0.2
"""Between two questions about all partitions, which cost the more the more there are."""
_LOAD_GOES_ON_S = 1.0
_INTERVAL_MS = 5.0
_TRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a round does. `topics` is the number of topics that are created and deleted one by one; 0 leaves
    out all steps that do not depend on the number of partitions."""

    partitions: int
    topics: int
    idle_s: float


class Round:
    """One round on one new cluster."""

    def __init__(
        self, cluster: LocalCluster, admin: Admin, watch: LeaderWatch, plan: Plan, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._watch = watch
        self._plan = plan
        self._say = say
        self._topics = spread("led", plan.partitions, BROKERS, VICTIM)
        self._followed: dict[str, list[Replicas]] = {"followed": [(2, VICTIM, 3), (3, VICTIM, 2)]}
        self._led = partitions_of(self._topics)

    def run(self) -> Figures:
        """All steps."""
        figures = {**self._create(), **self._idle()}
        figures |= self._lose_the_leader("kill", self._cluster.kill)
        self._bring_back()
        figures |= self._lose_the_leader("stop", self._cluster.terminate)
        if self._plan.topics:
            self._bring_back()
            figures |= self._many_topics()
            figures |= self._move()
            figures |= self._slow_follower()
            figures |= self._no_controller()
        return figures

    # --- steps of so many partitions -----------------------------------------------------------------

    def _create(self) -> Figures:
        self._say(f"creating {self._plan.partitions} partitions")
        with self._measured("create") as figures:
            for name, assignment in self._topics.items():
                self._admin.create_topic(name, assignment=assignment, configs=CONFIGS)
            self._until_led()
        for name, assignment in self._followed.items():
            self._admin.create_topic(name, assignment=assignment, configs=CONFIGS)
        self._fill({**self._topics, **self._followed})
        return figures

    def _fill(self, topics: Mapping[str, list[Replicas]]) -> None:
        """Write a record to each partition, so that each has a log on disk, and wait until all are in
        sync."""
        with Producer(self._cluster.bootstrap, acks="all") as producer:
            for topic, assignment in topics.items():
                sent = [producer.send(topic, b"x", partition=number) for number in range(len(assignment))]
                for each in sent:
                    each.result(timeout_s=_STEP_S)
        self._until(
            lambda: not self._admin.describe_cluster().under_replicated_partition_count, "all in sync"
        )

    def _idle(self) -> Figures:
        counts = ZooKeeperCounts.now(self._cluster.zookeeper)
        figures: Figures = {"watches": float(counts.watches), "znodes": float(counts.znodes)}
        figures |= dict.fromkeys(("idle_cpu_percent", "zookeeper_idle_cpu_percent"))
        figures |= dict.fromkeys(("idle_reads_per_s", "idle_writes_per_s"))
        if self._plan.idle_s:
            self._say(f"idling for {self._plan.idle_s:g} s")
            if self._plan.partitions > MANY:
                until_quiet(self._cluster, percent=5.0, window_s=4.0, quiet_s=32.0, timeout_s=120.0)
            before = ZooKeeperCounts.now(self._cluster.zookeeper)
            figures |= idle_figures(self._cluster, self._plan.idle_s)
            after = ZooKeeperCounts.now(self._cluster.zookeeper)
            for name in ("reads", "writes"):
                asked = after.since(before)[name] or 0.0
                figures[f"idle_{name}_per_s"] = asked / (after.at_s - before.at_s)
        return figures

    def _lose_the_leader(self, step: str, end: Callable[[str], float]) -> Figures:
        """End the broker that leads most, under load."""
        self._say(f"{step} broker-{VICTIM}, which leads {self._plan.partitions} partitions")
        figures: Figures = {}
        with self._loaded(step) as loaded, self._measured(step) as measured:
            self._watch.begin(self._led)
            used = ProcessorSeconds.now(self._cluster)
            ended_at_s = end(f"broker-{VICTIM}")
            ended_at_ms = loaded.begins_at(ended_at_s)
            if not self._watch.until_decided(_STEP_S):
                raise LoadFailedError(f"not every partition has another leader {_STEP_S:.0f} s after {step}")
            figures[f"{step}_cpu_s"] = sum(ProcessorSeconds.now(self._cluster).since(used).values())
            figures[f"{step}_decided_ms"] = self._watch.decided_ms() - ended_at_ms
        figures[f"{step}_detect_ms"] = self._detected_ms(step, ended_at_s, ended_at_ms)
        return figures | measured | loaded.figures

    def _detected_ms(self, step: str, ended_at_s: float, ended_at_ms: float) -> float | None:
        """When it was noticed that the broker is dead: by the controller, as the trace tells; without one,
        when ZooKeeper let the first leader znode go. None for one that said that it stops."""
        if step != "kill":
            return None
        if not self._cluster.controllers:
            return self._watch.first_ms() - ended_at_ms
        deadline_s = time.monotonic() + _TRACE_S
        while time.monotonic() < deadline_s:
            trace = broker_failover(self._cluster.trace_directory, VICTIM, ended_at_s)
            if trace is not None:
                return summarise_failover(trace, ended_at_s).detect_ms
            time.sleep(0.2)
        return None

    def _bring_back(self) -> None:
        """Start the broker again, and wait until it leads what it led."""
        self._cluster.restart(f"broker-{VICTIM}", timeout_s=_STEP_S)
        self._until(
            lambda: not self._admin.describe_cluster().under_replicated_partition_count, "all in sync"
        )
        if self._cluster.controllers:
            self._admin.elect_leaders("preferred")  # Without a controller, leaders give way by themselves.
        self._until_led()

    # --- steps of one size ---------------------------------------------------------------------------

    def _many_topics(self) -> Figures:
        names = [f"many-{number}" for number in range(self._plan.topics)]
        self._say(f"creating and deleting {len(names)} topics, {AT_ONCE} at a time")
        with self._measured("create_topics") as figures:
            took = self._each(names, lambda name: self._admin.create_topic(name, 1, 3))
        figures["create_topics_p50_ms"] = percentile(took, 50)
        with self._measured("delete_topics") as deleted:
            took = self._each(names, lambda name: self._admin.delete_topic(name))
        deleted["delete_topics_p50_ms"] = percentile(took, 50)
        return {**figures, **deleted}

    def _move(self) -> Figures:
        self._say(f"moving {MOVED} partitions")
        topic, assignment = "moved", [(1, 2)] * MOVED
        self._admin.create_topic(topic, assignment=assignment)
        self._fill({topic: list(assignment)})
        with self._measured("move") as figures:
            self._admin.reassign_partitions({TopicPartition(topic, n): (3, 2) for n in range(MOVED)})
            self._until(
                lambda: not self._admin.list_reassignments().reassignments, "everything is moved", _POLL_S
            )
        self._admin.delete_topic(topic)
        return figures

    def _slow_follower(self) -> Figures:
        """A broker does nothing for a while, and topics are created that are to have replicas on it. Its
        queue is a controller's memory, or in ZooKeeper."""
        self._say(f"broker-{SLOW} is slow for {SLOW_S:g} s")
        names = [f"slow-{number}" for number in range(SLOW_TOPICS)]
        with ThreadPoolExecutor(1) as pool, self._measured("slow") as figures:
            self._cluster.pause(f"broker-{SLOW}")
            creating = pool.submit(
                self._each,
                names,
                lambda name: self._admin.create_topic(name, assignment=[(1, 2, SLOW)]),
                SLOW_TOPICS,
            )
            longest = self._longest_queue(SLOW_S)
            self._cluster.resume(f"broker-{SLOW}")
            took = creating.result()
        self._each(names, lambda name: self._admin.delete_topic(name))
        return {
            **figures,
            "slow_create_p50_ms": percentile(took, 50),
            "slow_create_max_ms": max(took),
            "slow_queue_max": longest,
        }

    def _longest_queue(self, seconds: float) -> float | None:
        """The most state changes that waited in the queue of the slow broker; None if it has none."""
        longest: float | None = None
        looker = KazooClient(self._cluster.zookeeper)
        looker.start()
        try:
            ends_at_s = time.monotonic() + seconds
            while time.monotonic() < ends_at_s:
                try:
                    waiting = float(len(looker.get_children(StateQueueZnode.path(SLOW))))
                    longest = max(waiting, longest or 0.0)
                except NoNodeError:
                    pass
                time.sleep(_POLL_S)
        finally:
            looker.stop()
            looker.close()
        return longest

    def _no_controller(self) -> Figures:
        """All controllers are dead, where there are any; then the broker that leads most dies too."""
        names = [f"controller-{number}" for number in self._cluster.controllers]
        self._say("all controllers are dead" if names else "nobody needs a controller")
        figures: Figures = {}
        with self._loaded("no_controller") as loaded:
            for name in names:
                self._cluster.kill(name)
            figures["no_controller_creates"] = float(self._creates_within(3_000))
            self._watch.begin(self._led)
            loaded.begins_at(self._cluster.kill(f"broker-{VICTIM}"))
            is_decided = self._watch.until_decided(OUTAGE_S)
            figures["no_controller_decided"] = float(is_decided)
            for name in names:
                self._cluster.restart(name, wait=False)
            if not self._watch.until_decided(_STEP_S):
                raise LoadFailedError("not every partition has another leader though a controller runs")
        return figures | loaded.figures

    def _creates_within(self, timeout_ms: int) -> bool:
        try:
            with Admin(self._cluster.bootstrap, timeout_ms=timeout_ms) as admin:
                admin.create_topic("while-none-decides", 1, 3)
        except HightideError:
            return False
        return True

    # --- what all steps need -------------------------------------------------------------------------

    @contextmanager
    def _measured(self, step: str) -> Iterator[Figures]:
        """Fills in the milliseconds of the block, and what ZooKeeper was asked meanwhile."""
        figures: Figures = {}
        before = ZooKeeperCounts.now(self._cluster.zookeeper)
        began_s = time.monotonic()
        yield figures
        figures[f"{step}_ms"] = (time.monotonic() - began_s) * 1000
        asked = ZooKeeperCounts.now(self._cluster.zookeeper).since(before)
        figures |= {f"{step}_{name}": value for name, value in asked.items()}

    @contextmanager
    def _loaded(self, step: str) -> Iterator[Load]:
        """Clients write to some partitions during the block, which calls `begins_at`."""
        led, followed = evenly(self._led, LOADED), partitions_of(self._followed)
        configuration = {
            "bootstrap": self._cluster.bootstrap,
            "partitions": [*led, *followed],
            "interval_ms": _INTERVAL_MS,
        }
        load = Load(step, led)
        with LoadWorker("hightide_bench.loads.failover_load", configuration) as worker:
            worker.wait_until_ready()
            yield load
            time.sleep(_LOAD_GOES_ON_S)
            worker.stop()
            sent = worker.result()
        load.take(sent["acknowledged_ms"], len(sent["failed"]))

    def _each(self, names: list[str], work: Callable[[str], object], at_once: int = AT_ONCE) -> list[float]:
        """Do it for each name, some at a time. Returns the milliseconds that each took."""

        def timed(name: str) -> float:
            began_s = time.monotonic()
            work(name)
            return (time.monotonic() - began_s) * 1000

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(timed, names))

    def _until_led(self) -> None:
        def leads_all() -> bool:
            described = self._admin.describe_cluster()
            counts = {broker.broker_id: broker.leader_count for broker in described.brokers}
            return not described.offline_partition_count and counts.get(VICTIM, 0) >= len(self._led)

        self._until(leads_all, f"broker-{VICTIM} leads {len(self._led)} partitions")

    def _until(self, happened: Callable[[], bool], what: str, poll_s: float = _LOOK_AGAIN_S) -> None:
        deadline_s = time.monotonic() + _STEP_S
        while not happened():
            if time.monotonic() > deadline_s:
                raise LoadFailedError(f"it did not happen within {_STEP_S:.0f} s that {what}")
            time.sleep(poll_s)


class Load:
    """The waits of the clients of a step."""

    def __init__(self, step: str, led: list[Numbered]) -> None:
        self._step = step
        self._led = len(led)
        self._began_ms = 0.0
        self.figures: Figures = {}
        """Filled in when the load has ended."""

    def begins_at(self, at_s: float) -> float:
        """Waits count from this moment of the wall clock on. Returns it on the monotonic clock, in ms."""
        self._began_ms = (time.monotonic() - (time.time() - at_s)) * 1000
        return self._began_ms

    def take(self, acknowledged_ms: list[list[float]], failed: int) -> None:
        """The times of acknowledgement by partition: those that the victim led, then those that it
        followed."""
        times = DeliveryTimes.of(dict(enumerate(acknowledged_ms)))
        waits = times.longest_waits_ms(self._began_ms, max(times.latest_ms(), self._began_ms))
        self.figures = {
            f"{self._step}_unavailable_ms": max(wait for place, wait in waits.items() if place < self._led),
            f"{self._step}_followed_unavailable_ms": max(
                wait for place, wait in waits.items() if place >= self._led
            ),
            f"{self._step}_client_errors": float(failed),
        }
