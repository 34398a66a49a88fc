"""A step that a process takes again and again while it runs: a look, a check, a figure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

__all__ = ["RepeatedStep"]

_log = logging.getLogger(__name__)


class RepeatedStep:
    """One step and its pauses. Belongs to the event loop that it is started in."""

    def __init__(self, name: str, interval_s: float, step: Callable[[], Awaitable[None]]) -> None:
        """The pause comes before each step, also before the first. A step that raises is logged under this
        name, and is not the last one."""
        self._name = name
        self._interval_s = interval_s
        self._step = step
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        assert self._task is None, "it is started once"
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def close(self) -> None:
        """Stop, also in the middle of a step. Nothing happens where it was not started."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._step()
            except Exception:  # noqa: BLE001 - the top of a task
                _log.exception("%s failed, and is repeated in %.1f s", self._name, self._interval_s)
