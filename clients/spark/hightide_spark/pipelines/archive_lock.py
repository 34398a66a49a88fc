"""The lock of an archive, which lets one run at a time work on it: a lock on a file in it, which ends with
its process."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hightide_spark.pipelines.errors import ArchiveBusyError

_LOCK: Final = "_lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other runs out of an archive. The file stays: removing it would let two runs lock two files.

    Raises ArchiveBusyError where another run has it; of other machines only those are seen with which the
    file system shares its locks.
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
