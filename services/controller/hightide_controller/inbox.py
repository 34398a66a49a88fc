"""The events that wait for the core, and for how long each has."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter

from hightide_runtime.figures import Distribution

from hightide_controller.core.events import Event

__all__ = ["Inbox"]


class Inbox(asyncio.Queue[Event]):
    """The queue of one shell; one task takes from it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = Distribution()
        self._put_at: deque[float] = deque()

    def put_nowait(self, event: Event) -> None:
        """Let the core take this event after those that are there."""
        self._put_at.append(perf_counter())
        super().put_nowait(event)

    async def get(self) -> Event:
        """The next event."""
        event = await super().get()
        self.waited_s.record(perf_counter() - self._put_at.popleft())
        return event
