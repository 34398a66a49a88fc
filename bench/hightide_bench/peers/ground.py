"""The folder in which both clusters keep their data, so that both use the same disk."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hightide_local.detached import default_directory
from hightide_local.errors import ClusterError

from hightide_bench.measuring.bench_folder import only_user_of

BYTES_PER_GB: Final = 1_000_000_000
_NAME: Final = "hightide-peers"
#: Per system: 6 partitions of 256 MiB and a segment of 64 MiB more, three times; half as much again until a
#: broker looks for what retention lets go; and as much of the topic before, which is deleted.
_SENT_GB: Final = 2 * 3 * 6 * (256 + 64) * (1 << 20) * 2.5 / BYTES_PER_GB
#: A topic that is read is there three times in each system. Arrow and records are read from one after the
#: other.
_COPIES_READ: Final = 2 * 3


def disk_bytes(size_mb: int) -> int:
    """Return the most disk that a run takes, with topics of this size to read."""
    return round((_SENT_GB + _COPIES_READ * size_mb / 1000) * BYTES_PER_GB)


def default_parent() -> Path:
    """Return where the folder is if the user names no other disk."""
    return default_directory().parent


@contextmanager
def ground(parent: Path, needed_bytes: int) -> Iterator[Path]:
    """Give an empty folder of this run below `parent`, which is deleted after the block. What an earlier run
    left, because it was killed, is deleted first.

    Raises ClusterError if another run uses it, or if the disk has too little room.
    """
    directory = parent.resolve() / _NAME
    with only_user_of(directory, f"another `bench peers` runs in {directory}; choose another --directory"):
        shutil.rmtree(directory, ignore_errors=True)
        free_bytes = shutil.disk_usage(parent).free
        if free_bytes < needed_bytes:
            raise ClusterError(
                f"{parent} has {free_bytes / BYTES_PER_GB:.1f} GB free, and this run may take "
                f"{needed_bytes / BYTES_PER_GB:.1f} GB; choose another --directory, or a smaller --size-mb"
            )
        directory.mkdir()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
