"""Makes the names of files in a folder survive a loss of power."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk.

    Pipelines call it after they rename a file and before Spark commits the micro-batch. Spark does not repeat
    a committed micro-batch, so a name lost after that would not be written again. Raises OSError.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
