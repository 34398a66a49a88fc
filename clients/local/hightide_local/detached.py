"""The cluster of `hightide dev up`, which runs on when the command has ended."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hightide_runtime.znodes.coordination_znode import Coordination
from platformdirs import user_state_path

from hightide_local.cluster import ClusterError, FirstPorts, LocalCluster
from hightide_local.layout import ClusterLayout, controllers_wanted

_OF_A_PROCESS: Final = re.compile(
    r"(?:(?:broker|controller|coordinator)(?:-\d+)+|network|zookeeper)(?:\.\w+)*"
)
#: The names that a cluster gives to what it makes, by the folder below its directory.
_MADE: Final = {
    "certificates": re.compile(
        r"(?:ca|(?:broker|client|controller|coordinator|zookeeper)-[^.]+)\.(?:crt|key)"
    ),
    "data": _OF_A_PROCESS,
    "logs": _OF_A_PROCESS,
    "traces": _OF_A_PROCESS,
    "zookeeper": re.compile(r"data|key_store\.pem|zoo\.cfg"),
}
#: The ports that clients try by default. Further processes take the next ones.
FIRST_PORTS = FirstPorts(zookeeper=2181, broker=9092, controller=9192, coordinator=9292)


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of a detached cluster. `pid` is None if it does not run."""

    name: str
    address: str
    pid: int | None

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.pid is not None


def default_directory() -> Path:
    """The default directory of the cluster of `dev up`, below platformdirs' user_state_dir."""
    return user_state_path("hightide", appauthor=False) / "dev"


def up(
    directory: Path,
    *,
    brokers: int = 3,
    controllers: int | None = None,
    coordinators: int = 0,
    tls: bool = False,
    coordination: Coordination = Coordination.CONTROLLER,
    timeout_s: float = 60.0,
) -> LocalCluster:
    """Start a detached cluster, or the missing processes of a running one. It is ready when this returns.

    Raises ClusterError, also if a cluster with other numbers of processes, or one with TLS where this has
    none, runs in the directory.
    """
    controllers = controllers_wanted(brokers, controllers, coordinators, coordination)
    layout = ClusterLayout.load(directory)
    if layout is not None:
        wanted = (brokers, controllers, coordinators, tls)
        existing = (len(layout.brokers), len(layout.controllers), len(layout.coordinators), layout.tls)
        if wanted != existing and any(process.running for process in status(directory)):
            raise ClusterError(
                f"a cluster of {existing[0]} brokers, {existing[1]} controllers and {existing[2]} "
                f"coordinators {'with' if layout.tls else 'without'} TLS runs in {directory}; "
                "`hightide dev down` stops it"
            )
    cluster = LocalCluster(
        directory,
        brokers=brokers,
        controllers=controllers,
        coordinators=coordinators,
        tls=tls,
        coordination=coordination,
        detached=True,
        first_ports=FIRST_PORTS,
    )
    cluster.start(timeout_s)
    return cluster


def find(directory: Path) -> LocalCluster:
    """The detached cluster of a directory, whose processes may run or not. Raises ClusterError if there is
    none.

    The caller can kill, pause and restart its processes. They run on when the caller ends.
    """
    layout = ClusterLayout.load(directory)
    if layout is None:
        raise ClusterError(f"there is no cluster in {directory}; `hightide dev up` starts one")
    return LocalCluster(
        directory,
        brokers=len(layout.brokers),
        controllers=len(layout.controllers),
        coordinators=len(layout.coordinators),
        tls=layout.tls,
        coordination=layout.coordination,
        detached=True,
    )


def status(directory: Path) -> list[ProcessStatus]:
    """The states of the processes of a directory's cluster. Raises ClusterError if there is none."""
    cluster = find(directory)
    pids = cluster.running()
    return [ProcessStatus(name, cluster.address_of(name), pids.get(name)) for name in cluster.names]


def down(directory: Path, *, delete: bool = False) -> list[str]:
    """Stop the cluster of a directory. Return the names of the processes that ran. With `delete`, remove the
    files of the cluster, too, and the directory if it has no others. Raises ClusterError if there is no
    cluster."""
    cluster = find(directory)
    running = list(cluster.running())
    cluster.stop()
    if delete:
        _delete(cluster)
    return running


def _delete(cluster: LocalCluster) -> None:
    """Delete what a stopped cluster has made, and the directories in which nothing else is: a user may have
    named one with files of his own, also below `data` or `logs`. Raises OSError."""
    for name, of_the_cluster in _MADE.items():
        folder = cluster.directory / name
        if not folder.is_dir():
            continue
        for path in list(folder.iterdir()):
            if of_the_cluster.fullmatch(path.name):
                _remove(path)
        _remove_if_empty(folder)
    for name in (".lock", "cluster.json"):
        (cluster.directory / name).unlink(missing_ok=True)
    _remove_if_empty(cluster.directory)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _remove_if_empty(directory: Path) -> None:
    # A user may have linked `data` to another disk.
    if not directory.is_symlink() and not any(directory.iterdir()):
        directory.rmdir()
