"""The processor time and memory of the processes of a local cluster, by kind of process."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import psutil
from hightide_local.cluster import LocalCluster

from hightide_bench.measuring.processor_time import process_seconds

BYTES_PER_MIB = 1 << 20
KINDS = ("broker", "controller", "coordinator", "zookeeper")


@dataclass(frozen=True, slots=True)
class ProcessorSeconds:
    """The processor seconds of each process up to a moment, user and system together."""

    at_s: float
    by_name: Mapping[str, float]

    @classmethod
    def now(cls, cluster: LocalCluster) -> Self:
        """Read the clocks of all running processes."""
        used = {name: process_seconds(pid) for name, pid in cluster.running().items()}
        return cls(time.monotonic(), used)

    def since(self, earlier: Self) -> dict[str, float]:
        """Return the seconds of each kind of process between two readings; a process that has begun since
        counts with all that it used, one that has ended with nothing."""
        used = dict.fromkeys(KINDS, 0.0)
        for name, seconds in self.by_name.items():
            used[kind_of(name)] += seconds - earlier.by_name.get(name, 0.0)
        return used

    def percent_since(self, earlier: Self) -> dict[str, float]:
        """Return the same as a share of one core."""
        elapsed_s = self.at_s - earlier.at_s
        return {kind: 100 * seconds / elapsed_s for kind, seconds in self.since(earlier).items()}


def idle_figures(cluster: LocalCluster, idle_s: float) -> dict[str, float | None]:
    """Watch a cluster for this long. Returns the share of one core that its services and ZooKeeper use."""
    before = ProcessorSeconds.now(cluster)
    time.sleep(idle_s)
    percent = ProcessorSeconds.now(cluster).percent_since(before)
    return {
        "idle_cpu_percent": percent["broker"] + percent["controller"],
        "zookeeper_idle_cpu_percent": percent["zookeeper"],
    }


def memory_figures(cluster: LocalCluster) -> dict[str, float | None]:
    """Return the resident memory of the largest process of each kind, in MiB."""
    largest: dict[str, float] = {}
    for name, pid in cluster.running().items():
        size = psutil.Process(pid).memory_info().rss / BYTES_PER_MIB
        largest[kind_of(name)] = max(size, largest.get(kind_of(name), 0.0))
    return {f"{kind}_rss_mb": largest.get(kind) for kind in KINDS}


def until_quiet(
    cluster: LocalCluster, *, percent: float, window_s: float, quiet_s: float, timeout_s: float
) -> float:
    """Wait until the services used less than this share of a core for this long. Returns how long it took, in
    seconds.

    If it does not become quiet in time, the caller goes on and measures it as it is.
    """
    return wait_for_quiet(
        lambda: ProcessorSeconds.now(cluster),
        time.sleep,
        percent=percent,
        window_s=window_s,
        quiet_s=quiet_s,
        timeout_s=timeout_s,
    )


def wait_for_quiet(
    read: Callable[[], ProcessorSeconds],
    sleep: Callable[[float], None],
    *,
    percent: float,
    window_s: float,
    quiet_s: float,
    timeout_s: float,
) -> float:
    """Do as `until_quiet` says, with any clock."""
    first = before = read()
    quiet_since_s = first.at_s
    while True:
        sleep(window_s)
        now = read()
        used = now.percent_since(before)
        if used["broker"] + used["controller"] >= percent:
            quiet_since_s = now.at_s
        if now.at_s - quiet_since_s >= quiet_s or now.at_s - first.at_s >= timeout_s:
            return now.at_s - first.at_s
        before = now


def kind_of(name: str) -> str:
    """Return `broker` for `broker-1`, and so on."""
    return name.partition("-")[0]
