"""The cluster of `hightide dev up`: it goes on running when the command has ended."""

from dataclasses import dataclass
from pathlib import Path

from hightide_local.cluster import LocalCluster


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
    raise NotImplementedError


def up(directory: Path, *, brokers: int = 3, controllers: int = 2, timeout_s: float = 30.0) -> LocalCluster:
    """Start a detached cluster, or what is missing of the one that is there; ready on return."""
    raise NotImplementedError


def find(directory: Path) -> LocalCluster:
    """The detached cluster of a directory, with whatever of it runs; ClusterError where there is none.

    Its kill, pause, restart… work; leaving it does not stop it.
    """
    raise NotImplementedError


def status(directory: Path) -> list[ProcessStatus]:
    """Each process of the cluster; ClusterError where there is no cluster."""
    raise NotImplementedError


def down(directory: Path, *, delete: bool = False) -> list[str]:
    """Stop it; the names of what was running. `delete` removes the directory as well."""
    raise NotImplementedError
