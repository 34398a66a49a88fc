"""A cluster on this machine: a real ZooKeeper, controllers and brokers, each as its own process."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hightide_local.errors import ClusterError

__all__ = ["ClusterError", "LocalCluster"]


class LocalCluster:
    """A cluster below one directory: ports in cluster.json, logs in logs/, traces in traces/, data in data/.

    Processes are called `zookeeper`, `controller-1`… and `broker-1`…. Everything is synchronous; use it as a
    with-block. No process outlives the one that started it, however that one ends, unless `detached`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        controllers: int = 2,
        session_timeout_ms: int = 4000,
        replica_lag_time_max_ms: int = 10_000,
        broker_arguments: Sequence[str] = (),
        controller_arguments: Sequence[str] = (),
        log_level: str = "INFO",
        detached: bool = False,
    ) -> None:
        raise NotImplementedError

    @property
    def directory(self) -> Path:
        """Where everything of this cluster lies."""
        raise NotImplementedError

    @property
    def bootstrap(self) -> str:
        """host:port of all brokers, separated by commas: what clients are given."""
        raise NotImplementedError

    @property
    def zookeeper(self) -> str:
        """host:port of ZooKeeper."""
        raise NotImplementedError

    @property
    def brokers(self) -> dict[int, str]:
        """host:port of each broker, by id."""
        raise NotImplementedError

    @property
    def controllers(self) -> dict[int, str]:
        """host:port of each controller, by id."""
        raise NotImplementedError

    @property
    def log_directory(self) -> Path:
        """One file a process, <name>.log."""
        raise NotImplementedError

    @property
    def trace_directory(self) -> Path:
        """Spans as JSON lines, one file a process; `traces.read_spans` reads them."""
        raise NotImplementedError

    def data_directory(self, broker_id: int) -> Path:
        """Where a broker keeps its log."""
        raise NotImplementedError

    def start(self, timeout_s: float = 30.0) -> None:
        """Start everything and wait until it is ready. On failure nothing is left running, and the error
        shows the last lines of the log of the process that failed."""
        raise NotImplementedError

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until all processes that run answer, and the active controller knows all running brokers."""
        raise NotImplementedError

    def stop(self) -> None:
        """SIGTERM to brokers and controllers, then ZooKeeper; SIGKILL to what does not end in time."""
        raise NotImplementedError

    def kill(self, name: str) -> float:
        """SIGKILL, and wait until it is gone; the time.time() at which the signal was sent."""
        raise NotImplementedError

    def terminate(self, name: str, timeout_s: float = 30.0) -> float:
        """SIGTERM, and wait until it has ended; the time.time() at which the signal was sent."""
        raise NotImplementedError

    def pause(self, name: str) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""
        raise NotImplementedError

    def resume(self, name: str) -> None:
        """SIGCONT."""
        raise NotImplementedError

    def restart(self, name: str, *, wait: bool = True, timeout_s: float = 30.0) -> None:
        """Start it again (ending it by SIGTERM first where it runs); `wait` until it is ready."""
        raise NotImplementedError

    def running(self) -> dict[str, int]:
        """The pid of each process that runs, by name."""
        raise NotImplementedError

    def active_controller(self, timeout_s: float = 10.0) -> str:
        """The name of the active controller, as the brokers know it; waits until there is one."""
        raise NotImplementedError

    def log_tail(self, name: str, lines: int = 20) -> str:
        """The last lines of a process's log."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Start, and wait until it is ready."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        raise NotImplementedError
