"""The cluster of `hightide dev up`, as the other commands find it."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide_local.cluster import LocalCluster


def the_running_one() -> "LocalCluster | None":
    """Return the development cluster, or None if no broker of one runs.

    Called for every command that was given no address. Where the package of the local cluster is not
    installed (an SDK user's machine), there is no such cluster.
    """
    try:
        from hightide_local.cluster import ClusterError
        from hightide_local.detached import default_directory, find
    except ImportError:
        return None
    try:
        cluster = find(default_directory())
    except ClusterError:
        return None
    return cluster if any(name.startswith("broker-") for name in cluster.running()) else None


def demo_directory() -> Path:
    """Return the demo's directory, beside that of `dev up`, so that its traces can be shown."""
    from hightide_local.detached import default_directory

    return default_directory().parent / "demo"


def bench_directory() -> Path:
    """Return the directory of the cluster that a benchmark starts for itself."""
    from hightide_local.detached import default_directory

    return default_directory().parent / "bench"
