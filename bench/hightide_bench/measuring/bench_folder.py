"""The folders of benchmarks that start clusters of their own: one run at a time has each."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hightide_cli.dev.cluster import bench_directory
from hightide_local.errors import ClusterError


@contextmanager
def bench_folder() -> Iterator[Path]:
    """Give the folder of benchmarks, empty. What is in it at the end stays until the next one starts.

    Raises ClusterError if another benchmark has it: its cluster would lose its files.
    """
    directory = bench_directory()
    with only_user_of(
        directory,
        f"another benchmark has its cluster in {directory}; wait until it has ended, or measure a running "
        "cluster: --bootstrap HOST:PORT",
    ):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        yield directory


@contextmanager
def only_user_of(directory: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of a folder, a file beside it, within the block. Raises ClusterError with this text if
    another process holds it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(refusal) from None
        yield
