"""The cluster of `hightide dev up`, as the other commands look for it."""

from pathlib import Path


def bootstrap_of_the_running_one() -> str | None:
    """Return the bootstrap address of the running development cluster, None where none runs.

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
    return cluster.bootstrap if any(name.startswith("broker-") for name in cluster.running()) else None


def demo_directory() -> Path:
    """Return where the demo keeps its cluster, beside that of `dev up`, so that its traces can be shown."""
    from hightide_local.detached import default_directory

    return default_directory().parent / "demo"


def bench_directory() -> Path:
    """Return where a benchmark keeps the cluster that it starts for itself."""
    from hightide_local.detached import default_directory

    return default_directory().parent / "bench"
