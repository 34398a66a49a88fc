"""`bench groups`: runs thousands of consumers on one coordinator, each with a real stream. It measures their
cost, and the times when consumers join and leave and when the coordinator dies.

It starts a cluster of its own: one broker, one controller, two coordinators. All groups read one topic, which
has as many partitions as a group has members.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psutil
from hightide import Admin
from hightide_local.cluster import LocalCluster

from hightide_bench.loads.load_worker import LoadFailedError, LoadWorker
from hightide_bench.measuring.cluster_resources import ProcessorSeconds
from hightide_bench.measuring.group_watch import GroupWatch
from hightide_bench.measuring.processor_time import process_seconds
from hightide_bench.measuring.statistics import medians
from hightide_bench.measuring.target import own_cluster

Figures = dict[str, float | None]

_STEP_TIMEOUT_S = 180.0
_LOOK_AGAIN_S = 0.1
_CALL_TIMEOUT_MS = 60_000
#: The coordinator admits this many consumers more, so that one more can join.
_ROOM: Final = 100
_SETTLED_S = 2.0
_FULL_GROUP = "bench-full"


@dataclass(frozen=True, slots=True)
class GroupsPlan:
    """The plan of a run. `consumers` is a multiple of `groups`. `rounds` is how often one consumer leaves and
    one joins. `processes` run the consumers."""

    consumers: int
    groups: int
    session_timeout_ms: int = 10_000
    steady_s: float = 20.0
    moving_percent: int = 20
    streams_per_connection: int = 1
    rounds: int = 3
    processes: int = 2

    @property
    def members_each(self) -> int:
        """The number of members of a group, and of partitions of the topic."""
        return self.consumers // self.groups

    @property
    def steps(self) -> int:
        """How often a run calls `say`."""
        return 6 + self.rounds


def measure_groups(plan: GroupsPlan, say: Callable[[str], None]) -> Figures:
    """Run the benchmark on a new cluster. `say` gets a line of text at the beginning of each step. Raises
    LoadFailedError if a step does not end in time, or if a partition has no reader or more than one."""
    say("starting a cluster of 1 broker, 1 controller and 2 coordinators")
    arguments = ("--consumers-max", str(plan.consumers + _ROOM))
    with (
        own_cluster(brokers=1, controllers=1, coordinators=2, coordinator_arguments=arguments) as cluster,
        _load(cluster, plan) as workers,
        GroupWatch(cluster) as watch,
    ):
        return _Run(cluster, plan, workers, watch, say).run()


@contextmanager
def _load(cluster: LocalCluster, plan: GroupsPlan) -> Iterator[list[LoadWorker]]:
    topic = f"bench-groups-{os.getpid()}"
    with Admin(cluster.bootstrap, timeout_ms=_CALL_TIMEOUT_MS) as admin:
        admin.create_topic(topic, partitions=plan.members_each, replication_factor=1)
    configuration = {
        "bootstrap": cluster.bootstrap,
        "topic": topic,
        "session_timeout_ms": plan.session_timeout_ms,
        "moving_percent": plan.moving_percent,
        "streams_per_connection": plan.streams_per_connection,
    }
    with ExitStack() as stack:
        workers = [
            stack.enter_context(LoadWorker("hightide_bench.loads.group_load", configuration))
            for _ in range(plan.processes)
        ]
        for worker in workers:
            worker.wait_until_ready()
        yield workers
        for worker in workers:
            worker.stop()


class _Run:
    """One run on one cluster."""

    def __init__(
        self,
        cluster: LocalCluster,
        plan: GroupsPlan,
        workers: Sequence[LoadWorker],
        watch: GroupWatch,
        say: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._workers = workers
        self._watch = watch
        self._say = say
        self._members = {
            f"bench-{number}": [
                f"consumer-{place:05d}" for place in range(number, plan.consumers, plan.groups)
            ]
            for number in range(plan.groups)
        }
        self._place: dict[str, int] = {}

    def run(self) -> Figures:
        """Run all steps, and return their figures."""
        figures = self._join_all()
        figures.update(self._be_steady(figures.pop("rss_before_bytes") or 0))
        changes = [self._change_one(number) for number in range(self._plan.rounds)]
        figures.update(medians(changes))
        figures.update(self._kill_the_coordinator())
        figures.update(self._move_everything())
        refused = sum((Counter(each["refused"]) for each in self._ask_all("tell")), Counter[str]())
        if refused:
            self._say(f"refused: {dict(refused)}")
        figures["client_errors"] = float(refused.total())
        return figures

    # ---- steps

    def _join_all(self) -> Figures:
        plan = self._plan
        self._say(f"{plan.consumers} consumers join {plan.groups} groups")
        figures: Figures = {"rss_before_bytes": float(self._coordinator_rss())}
        before = self._processor_seconds()
        for group, consumers in self._members.items():
            self._join(group, consumers, "sticky")
        self._until(lambda: self._are_stable(self._members), "every group is stable")
        used = _since(before, self._processor_seconds())
        totals = self._totals()
        figures["join_ms"] = 1000 * (totals["last_answer_s"] - totals["first_registration_s"])
        figures["join_core_s"] = used["coordinator"]
        self._check_cover(self._members)
        return figures

    def _be_steady(self, rss_before_bytes: float) -> Figures:
        plan = self._plan
        time.sleep(_SETTLED_S)
        self._say(f"{plan.steady_s:g} s of Pings, {plan.moving_percent} % of the consumers move on")
        self._ask_all("forget")
        began_s, before = time.monotonic(), self._processor_seconds()
        time.sleep(plan.steady_s)
        used = _since(before, self._processor_seconds())
        elapsed_s = time.monotonic() - began_s
        totals = self._totals()
        if totals["breaks"]:
            raise LoadFailedError(f"{totals['breaks']} streams broke while nothing happened")
        return {
            "steady_core_percent": 100 * used["coordinator"] / elapsed_s,
            "steady_client_percent": 100 * used["clients"] / elapsed_s,
            "steady_zookeeper_percent": 100 * used["zookeeper"] / elapsed_s,
            "pings_per_s": totals["pings"] / elapsed_s,
            "bytes_per_consumer": (self._coordinator_rss() - rss_before_bytes) / plan.consumers,
        }

    def _change_one(self, number: int) -> Figures:
        """Let one consumer of one group leave, then let another one join. `heard` are those that got a
        message."""
        group = f"bench-{number % self._plan.groups}"
        leaving = self._members[group][0]
        self._say(f"{leaving} leaves {group}, another one joins it")
        self._ask_all("forget")
        self._leave([leaving])
        left = self._changed(group, self._members[group][1:])
        self._ask_all("forget")
        coming = f"consumer-new-{number}"
        self._join(group, [coming], "sticky", place=self._place.pop(leaving))
        self._members[group] = [*self._members[group][1:], coming]
        joined = self._changed(group, self._members[group])
        others = [each for each in joined["heard"] if each != coming]
        return {
            "leave_ms": 1000 * (left["last_answer_s"] - left["began_s"]) if left["heard_count"] else 0.0,
            "leave_disturbed": float(left["heard_count"]),
            "joined_ms": 1000 * (joined["last_answer_s"] - joined["first_registration_s"]),
            "join_disturbed": float(len(others)),
        }

    def _kill_the_coordinator(self) -> Figures:
        name = self._cluster.active_coordinator()
        self._say(f"killing {name}")
        reading = sum(map(len, self._reading().values()))
        epoch = max(each["coordinator_epoch"] for each in self._ask_all("tell"))
        self._ask_all("forget")
        before = self._processor_seconds()
        killed_at_s = time.monotonic() - (time.time() - self._cluster.kill(name))
        self._until(
            lambda: self._are_all_confirmed(epoch),
            f"every consumer is registered again after {name}",
        )
        totals = self._totals()
        self._until(lambda: self._are_stable(self._members), "every group is stable again")
        used = _since(before, self._processor_seconds())
        self._check_cover(self._members)
        if totals["partitions"] != reading:
            found = totals["partitions"]
            raise LoadFailedError(f"{found} partitions are read after the failover, not {reading}")
        self._cluster.restart(name)
        return {
            "failover_ms": 1000 * (max(totals["last_confirmed_s"], totals["last_answer_s"]) - killed_at_s),
            "failover_core_s": used["coordinator"],
            "failover_client_s": used["clients"],
            "failover_stopped": float(totals["stopped"]),
            "failover_look_ups": float(totals["look_ups"]),
            "failover_attempts": float(totals["attempts"]),
        }

    def _move_everything(self) -> Figures:
        """Let the members of one group join a new one with the assignor `range`. Then let one more join whose
        name is the first, so that every partition moves by one member."""
        group, consumers = next(iter(self._members.items()))
        self._say(f"{len(consumers)} consumers leave {group} and join {_FULL_GROUP}")
        self._leave(consumers)
        del self._members[group]
        places = [self._place.pop(consumer) for consumer in consumers]
        movers = [f"mover-{number:05d}" for number in range(len(places))]
        self._join(_FULL_GROUP, movers, "range", places=places)
        self._members[_FULL_GROUP] = movers
        self._until(lambda: self._are_stable(self._members), f"{_FULL_GROUP} is stable")
        self._say(f"every partition of {_FULL_GROUP} moves")
        self._ask_all("forget")
        before = self._processor_seconds()
        self._join(_FULL_GROUP, ["a-mover"], "range", place=places[0])
        self._members[_FULL_GROUP] = ["a-mover", *movers]
        totals = self._changed(_FULL_GROUP, self._members[_FULL_GROUP])
        used = _since(before, self._processor_seconds())
        self._check_cover(self._members)
        return {
            "rebalance_ms": 1000 * (totals["last_answer_s"] - totals["first_registration_s"]),
            "rebalance_moved": float(totals["started"]),
            "rebalance_core_s": used["coordinator"],
            "rebalance_client_s": used["clients"],
            "rebalance_zookeeper_s": used["zookeeper"],
        }

    # ---- orders to the load

    def _join(
        self,
        group: str,
        consumers: Sequence[str],
        assignor: str,
        *,
        place: int | None = None,
        places: Sequence[int] | None = None,
    ) -> None:
        """Let consumers register. A consumer's place, a number, chooses its process and connection. It is
        `place`, or one of `places`, or the number at the end of its name."""
        if places is None:
            places = [place] if place is not None else [int(each.rpartition("-")[2]) for each in consumers]
        shares: list[dict[str, int]] = [{} for _ in self._workers]
        for consumer, number in zip(consumers, places, strict=True):
            self._place[consumer] = number
            shares[self._worker_of(number)][consumer] = number
        for worker, share in zip(self._workers, shares, strict=True):
            if share:
                worker.ask("join", group=group, consumers=share, assignor=assignor)

    def _leave(self, consumers: Sequence[str]) -> None:
        for index, worker in enumerate(self._workers):
            leaving = [each for each in consumers if self._worker_of(self._place[each]) == index]
            if leaving:
                worker.ask("leave", consumers=leaving)

    def _worker_of(self, place: int) -> int:
        # Consumers that share a connection must be in the same process.
        return place // self._plan.streams_per_connection % len(self._workers)

    def _ask_all(self, what: str) -> list[dict[str, Any]]:
        return [worker.ask(what) for worker in self._workers]

    def _totals(self) -> dict[str, Any]:
        """The notes of all consumers since the last order `forget`, together. Times are seconds of the
        monotonic clock."""
        every = self._ask_all("tell")
        begun = [each["first_registration_s"] for each in every if each["first_registration_s"]]
        left = [each["left_s"] for each in every if each["left_s"]]
        together: dict[str, Any] = {
            "first_registration_s": min(begun, default=0.0),
            "began_s": min(left, default=0.0),
            "heard": [name for each in every for name in each["heard"]],
        }
        for key in ("last_answer_s", "last_confirmed_s"):
            together[key] = max(each[key] for each in every)
        for key in (
            "members",
            "confirmed",
            "partitions",
            "heard_count",
            "stopped",
            "started",
            "pings",
            "breaks",
            "look_ups",
            "attempts",
        ):
            together[key] = sum(each[key] for each in every)
        return together

    def _reading(self) -> dict[str, list[int]]:
        """The partitions that each group reads, each as often as it is read."""
        reading: dict[str, list[int]] = {}
        for each in self._ask_all("reading"):
            for group, partitions in each["reading"].items():
                reading.setdefault(group, []).extend(partitions)
        return reading

    # ---- conditions

    def _are_stable(self, groups: Mapping[str, Sequence[str]]) -> bool:
        listings = self._watch.listings()
        return all(
            name in listings and listings[name].is_stable and listings[name].member_count == len(members)
            for name, members in groups.items()
        )

    def _are_all_confirmed(self, since_epoch: int) -> bool:
        """Whether a coordinator with a later epoch has confirmed every consumer. Before they notice its end,
        consumers still count as confirmed by the old one."""
        notes = self._ask_all("tell")
        confirmed: int = sum(each["confirmed"] for each in notes)
        return confirmed == self._plan.consumers and all(
            each["coordinator_epoch"] > since_epoch for each in notes
        )

    def _changed(self, group: str, members: Sequence[str]) -> dict[str, Any]:
        """Wait until the group is stable with these members, and return the totals."""
        self._until(lambda: self._are_stable({group: members}), f"{group} is stable with {len(members)}")
        return self._totals()

    def _check_cover(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Raise LoadFailedError if a group does not read each partition exactly once."""
        reading = self._reading()
        for name in groups:
            if sorted(reading.get(name, ())) != list(range(self._plan.members_each)):
                raise LoadFailedError(
                    f"group {name} reads {len(reading.get(name, ()))} partitions ({len(set(reading[name]))} "
                    f"different ones), not each of {self._plan.members_each} once"
                )

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until this has happened. Raises LoadFailedError after _STEP_TIMEOUT_S."""
        deadline_s = time.monotonic() + _STEP_TIMEOUT_S
        while not happened():
            if time.monotonic() > deadline_s:
                raise LoadFailedError(f"it did not happen within {_STEP_TIMEOUT_S:.0f} s that {what}")
            time.sleep(_LOOK_AGAIN_S)

    # ---- resources

    def _processor_seconds(self) -> dict[str, float]:
        """The processor seconds of each process of the cluster by name, and of the load's as `clients-N`."""
        used = dict(ProcessorSeconds.now(self._cluster).by_name)
        for number, worker in enumerate(self._workers):
            used[f"clients-{number}"] = process_seconds(worker.pid)
        return used

    def _coordinator_rss(self) -> int:
        pid = self._cluster.running()[self._cluster.active_coordinator()]
        return int(psutil.Process(pid).memory_info().rss)


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """The processor seconds between two readings, by kind of process. The standby coordinator, which is idle,
    counts with the active one."""
    used: Counter[str] = Counter()
    for name, seconds in now.items():
        used[name.partition("-")[0]] += seconds - before.get(name, 0.0)  # type: ignore[assignment]
    return dict(used)
