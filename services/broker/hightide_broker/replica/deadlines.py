"""One timer for all replicas. Only replicas whose core has a deadline cost anything.

When a deadline moves later, its entry stays in the heap. The timer finds the replica too early and puts it
back. So a busy partition, whose deadline moves with every fetch, costs one comparison.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from typing import Final

from hightide_runtime.clock import Clock

from hightide_broker.core.isr import next_deadline_ms
from hightide_broker.replica.held_replicas import HostedReplica

log = logging.getLogger(__name__)

PAUSE_MS: Final = 20


class Deadlines:
    """Calls `on_due` for each replica whose `next_deadline_ms` has come. On the event loop's thread."""

    def __init__(self, clock: Clock, on_due: Callable[[HostedReplica], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._heap: list[tuple[int, int, HostedReplica]] = []
        self._pushed = 0
        self._rang_ms = -PAUSE_MS
        self._timer: asyncio.TimerHandle | None = None

    def note(self, replica: HostedReplica) -> None:
        """Take note that the replica's state changed. Called by the shell after each step of a leader."""
        deadline = next_deadline_ms(replica.state)
        if deadline is None:
            return
        # A replica that was just checked is left alone for a moment, whatever its core says.
        deadline = max(deadline, self._rang_ms + PAUSE_MS)
        if replica.deadline_ms is None or deadline < replica.deadline_ms:
            self._push(deadline, replica)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()

    def _push(self, deadline_ms: int, replica: HostedReplica) -> None:
        replica.deadline_ms = deadline_ms
        self._pushed += 1
        heapq.heappush(self._heap, (deadline_ms, self._pushed, replica))
        if self._heap[0][2] is replica:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = max(0, self._heap[0][0] - self._clock.monotonic_ms())
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._rang_ms = self._clock.monotonic_ms()
        due: list[HostedReplica] = []
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, _, replica = heapq.heappop(self._heap)
            if replica.deadline_ms == deadline_ms:
                replica.deadline_ms = None
                due.append(replica)
        for replica in due:
            actual = next_deadline_ms(replica.state)
            if actual is not None and actual > now_ms:
                self._push(actual, replica)
            elif actual is not None:
                try:
                    self._on_due(replica)
                except Exception:
                    # The top of a callback: no other replica may lose its timer over this one.
                    log.exception("%s: at its deadline", replica)
        if self._heap and self._timer is None:
            self._arm()
