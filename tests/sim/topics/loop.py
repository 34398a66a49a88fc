"""An event loop that runs when it is told to, and whose time is that of the simulation.

Each process of a cluster has one of its own, so that one that is paused stands still as a whole.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

TURNS_MAX: Final = 10_000
"""Of a process without a message, or time that passes: one that goes on for longer never waits."""


class SimLoop(asyncio.SelectorEventLoop):
    """Runs real asyncio code deterministically: nothing waits for the outside, timers follow `now_ms`."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._now_ms = now_ms
        self._turns = 0
        self.faults: list[BaseException] = []
        """What tasks died of."""
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._now_ms() / 1000

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, call: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        assert isinstance(executor, SimThreads)
        return executor.run(call, arguments)

    def settle(self) -> bool:
        """Run until everything waits: for a message, or for a time that has not come. Tells whether anything
        ran."""
        has_work = self._has_work()
        if has_work:
            self._turns = 0
            self._run_until_it_waits()
        if self.faults:
            raise self.faults[0]
        return has_work

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
        self._turns = 0
        while any(not task.done() for task in tasks):
            self.call_soon(self.stop)
            self.run_forever()
        self.close()

    @property
    def due_ms(self) -> int | None:
        """When it has something to do, or a moment before; None if that is never."""
        loop: Any = self
        if loop._ready:
            return self._now_ms()
        first = self._first_timer()
        return None if first is None else int(first.when() * 1000)

    def _run_until_it_waits(self) -> None:
        """As `run_forever`, without what that does for signals, threads and asynchronous generators."""
        loop: Any = self
        asyncio.events._set_running_loop(self)
        try:
            while not loop._stopping:
                self._run_once()
        finally:
            loop._stopping = False
            asyncio.events._set_running_loop(None)

    def _run_once(self) -> None:
        """One turn, as of any loop, but for the wait: nothing comes from outside, and the loop stops where it
        would wait for something."""
        loop: Any = self
        ready, scheduled = loop._ready, loop._scheduled
        if scheduled:
            now_s = self.time()
            while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= now_s):
                handle = heapq.heappop(scheduled)
                handle._scheduled = False
                if handle._cancelled:
                    loop._timer_cancelled_count -= 1
                else:
                    ready.append(handle)
        if not ready:
            loop._stopping = True
            return
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise AssertionError(f"it never waits: {asyncio.all_tasks(self)}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _has_work(self) -> bool:
        loop: Any = self
        if loop._ready:
            return True
        first = self._first_timer()
        return first is not None and first.when() <= self._now_ms() / 1000

    def _first_timer(self) -> asyncio.TimerHandle | None:
        loop: Any = self
        scheduled = loop._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
            loop._timer_cancelled_count -= 1
        return scheduled[0] if scheduled else None

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.faults.append(error)


class SimThreads(Executor):
    """Threads that wait for a disk: what they are given runs one after the other, on the process's loop.

    `latency_s` is asked how long each call takes.
    """

    def __init__(self, loop: SimLoop, latency_s: Callable[[], float]) -> None:
        self._loop = loop
        self._latency_s = latency_s
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._busy = False
        self._is_stopped = self._is_held = False

    def stop(self) -> None:
        """They stand still: nothing that waits for them gets on. What is under way ends with them."""
        self._is_stopped = True

    def go_on(self) -> None:
        """As if nothing had been."""
        self._is_stopped = False
        if self._is_held:
            self._is_held = False
            self._begin()

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Run it at once: who asks does not wait for it, or waits in its thread."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            done.set_exception(error)
        return done

    def run(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Run it when those before it are done."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((future, call, arguments))
        if not self._busy:
            self._begin()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What waits still runs, unless it is cancelled."""
        if cancel_futures:
            for future, _, _ in self._waiting:
                future.cancel()

    def _begin(self) -> None:
        self._busy = True
        latency_s = self._latency_s()
        if latency_s:
            self._loop.call_later(latency_s, self._run_first)
        else:
            self._loop.call_soon(self._run_first)

    def _run_first(self) -> None:
        if self._is_stopped:
            self._is_held = True
            return
        future, call, arguments = self._waiting.popleft()
        if not future.cancelled():
            try:
                result = call(*arguments)
            except Exception as error:  # noqa: BLE001 - whoever asked gets it
                future.set_exception(error)
            else:
                future.set_result(result)
        self._busy = False
        if self._waiting:
            self._begin()
