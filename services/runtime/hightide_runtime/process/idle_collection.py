"""Collecting garbage while a process is idle, and not in the middle of a burst.

Python's collector starts when so many objects were made, and goes through all that were made since the last
time. A failover of ten thousand partitions makes eighty thousand of them, most of which stay. So it would
start in the middle of the failover, and a broker would stand still for more than a tenth of a second.

So a process looks once a second. What a burst has made is gone through when the burst is over. The thresholds
of `run_process` are for a process that is never idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Final

__all__ = ["IdleCollection", "is_due"]

_LOOK_S: Final = 1.0
_WORTH_IT: Final = 10_000
"""So many objects take a millisecond or two, and are a tenth of what starts the collector by itself."""
_IDLE: Final = 1_000
"""A process that makes fewer in a second, or frees fewer, is idle."""
_MIDDLE_GENERATION: Final = 1


class IdleCollection:
    """The looks of one process. Belongs to its event loop."""

    def __init__(self, look_s: float = _LOOK_S) -> None:
        """Begin. `look_s` is for tests."""
        self._look_s = look_s
        self._task = asyncio.create_task(self._run(), name="idle-collection")

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        before = _made()
        while True:
            await asyncio.sleep(self._look_s)
            if is_due(_made(), before):
                gc.collect(_MIDDLE_GENERATION)
            before = _made()


def is_due(made: int, before: int) -> bool:
    """Whether to collect now. `made` is how many objects were made and not freed since the last collection,
    `before` what it was at the last look."""
    return made >= _WORTH_IT and abs(made - before) < _IDLE


def _made() -> int:
    return gc.get_count()[0]
