"""An event loop that runs when it is told to, and whose time is that of the simulation.

Each process of a cluster has one of its own, so that one that is paused stands still as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class SimLoop(asyncio.SelectorEventLoop):
    """Runs real asyncio code deterministically: nothing waits for the outside, timers follow `now_ms`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._now_ms = now_ms
        self.faults: list[BaseException] = []
        """What tasks died of."""
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._now_ms() / 1000

    def settle(self) -> None:
        """Run until everything waits: for a message, or for a time that has not come."""
        while self._has_work():
            self.call_soon(self.stop)
            self.run_forever()
        if self.faults:
            raise self.faults[0]

    def after(self, pause_s: float) -> asyncio.Future[None]:
        """Done when so much of the simulation's time has passed."""
        passed: asyncio.Future[None] = self.create_future()

        def settle() -> None:
            if not passed.cancelled():
                passed.set_result(None)

        self.call_later(pause_s, settle)
        return passed

    def end(self) -> None:
        """The process dies: its tasks go with it."""
        self.set_exception_handler(lambda _, __: None)
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        while any(not task.done() for task in tasks):
            self.call_soon(self.stop)
            self.run_forever()
        self.close()

    def _has_work(self) -> bool:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0].cancelled():
            self.call_soon(self.stop)
            self.run_forever()
        due = bool(scheduled) and scheduled[0].when() <= self.time()
        return bool(self._ready) or due  # type: ignore[attr-defined]

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.faults.append(error)
