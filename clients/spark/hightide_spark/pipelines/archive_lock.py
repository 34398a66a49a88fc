"""The lock of an archive: one run at a time works on it. It is a lock on a file, which ends with its
process."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hightide_spark.pipelines.errors import ArchiveBusyError

_LOCK: Final = "_lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of an archive within the block. The file stays, since without it two runs could lock two
    different files.

    Raises ArchiveBusyError if another run holds the lock. A run on another machine is only noticed if the
    file system shares locks with it.
    """
    with (directory / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ArchiveBusyError(
                f"{directory}: another run of `hightide pipeline archive` works on it; wait until it has "
                "ended, or end it"
            ) from error
        yield
