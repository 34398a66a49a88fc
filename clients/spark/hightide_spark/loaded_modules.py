"""Keeps what Spark's Python processes have loaded out of garbage collection.

Spark lets a worker collect all garbage after each task (`pyspark/daemon.py`). A collection looks at every
object of every module, which took two fifths of the processor time of a worker that reads. Modules stay for
the life of a process, so no garbage is to be found among them.
"""

import gc
import sys

_frozen_count = 0


def freeze_modules() -> None:
    """Let the garbage collector ignore all objects that exist now, if modules were loaded since the last
    call. Called in Spark's workers and the driver's processes, before the parts of the data source are
    imported, and after those of a client."""
    global _frozen_count
    if len(sys.modules) > _frozen_count:
        gc.freeze()
        _frozen_count = len(sys.modules)
