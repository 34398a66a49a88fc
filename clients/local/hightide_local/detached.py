"""The cluster of `hightide dev up`: it goes on running when the command has ended."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_state_path

from hightide_local.cluster import ClusterError, FirstPorts, LocalCluster
from hightide_local.layout import ClusterLayout

#: What clients try by default, and neighbours of it.
FIRST_PORTS = FirstPorts(zookeeper=2181, broker=9092, controller=9192, coordinator=9292)


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of a detached cluster; `pid` is 0 where it does not run."""

    name: str
    address: str
    pid: int

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.pid != 0


def default_directory() -> Path:
    """Where `dev up` keeps its cluster unless told otherwise: below platformdirs' user_state_dir."""
    return user_state_path("hightide", appauthor=False) / "dev"


def up(
    directory: Path,
    *,
    brokers: int = 3,
    controllers: int = 2,
    coordinators: int = 0,
    timeout_s: float = 60.0,
) -> LocalCluster:
    """Start a detached cluster, or what is missing of the one that is there; ready on return.

    Raises ClusterError, also where a cluster of another shape runs in the directory.
    """
    layout = ClusterLayout.load(directory)
    if layout is not None:
        asked = (brokers, controllers, coordinators)
        there = (len(layout.brokers), len(layout.controllers), len(layout.coordinators))
        if asked != there and any(process.running for process in status(directory)):
            raise ClusterError(
                f"a cluster of {there[0]} brokers, {there[1]} controllers and {there[2]} coordinators "
                f"runs in {directory}; `hightide dev down` stops it"
            )
    cluster = LocalCluster(
        directory,
        brokers=brokers,
        controllers=controllers,
        coordinators=coordinators,
        detached=True,
        first_ports=FIRST_PORTS,
    )
    cluster.start(timeout_s)
    return cluster


def find(directory: Path) -> LocalCluster:
    """The detached cluster of a directory, with whatever of it runs; ClusterError where there is none.

    Its kill, pause, restart… work; leaving it does not stop it.
    """
    layout = ClusterLayout.load(directory)
    if layout is None:
        raise ClusterError(f"there is no cluster in {directory}; `hightide dev up` starts one")
    return LocalCluster(
        directory,
        brokers=len(layout.brokers),
        controllers=len(layout.controllers),
        coordinators=len(layout.coordinators),
        detached=True,
    )


def status(directory: Path) -> list[ProcessStatus]:
    """Each process of the cluster; ClusterError where there is no cluster."""
    cluster = find(directory)
    pids = cluster.running()
    return [ProcessStatus(name, cluster.address_of(name), pids.get(name, 0)) for name in cluster.names]


def down(directory: Path, *, delete: bool = False) -> list[str]:
    """Stop it; the names of what was running. `delete` removes the directory as well."""
    cluster = find(directory)
    running = list(cluster.running())
    cluster.stop()
    if delete:
        shutil.rmtree(cluster.directory)
    return running
