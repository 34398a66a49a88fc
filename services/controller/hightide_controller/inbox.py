"""The events that wait for the core, and how long each has waited."""

from __future__ import annotations

import asyncio
from time import perf_counter

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry.metric_declarations import Distribution

from hightide_controller.core.events import Event

__all__ = ["Inbox"]


class Inbox:
    """The queue of one shell, from which one task takes events. It needs no limit of its own: requests are
    calls under way, which are bounded, and all other events are about what exists in the cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waited_s = Distribution()
        self._events: asyncio.Queue[tuple[float, int, Event]] = asyncio.Queue()

    def __len__(self) -> int:
        return self._events.qsize()

    def put(self, event: Event) -> None:
        """Queue an event for the core."""
        self._events.put_nowait((perf_counter(), self._clock.wall_us(), event))

    async def get(self) -> tuple[Event, int]:
        """The next event, once there is one, and when it came: wall-clock, in us."""
        put_at, arrived_us, event = await self._events.get()
        self.waited_s.record(perf_counter() - put_at)
        return event, arrived_us
