"""The task that drives a core: it makes the calls that the core asks for and passes the answers to it.

Everything runs on the loop that the client was first used on, so the core needs no lock. Each call is a task
of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from hightide import tracing
from hightide.aio.loop_condition import LoopCondition
from hightide.calls.call import STREAM_ENDED, Call, StreamCall, StreamEnded
from hightide.calls.call_reports import CallReports
from hightide.errors import AddressUnreachableError, HightideError
from hightide.transport.driver import (
    REPORT_RAISED,
    DrivenCore,
    DriverOwner,
    earlier,
    now_ms,
    run_callbacks,
)
from hightide.transport.notices import log_notice
from hightide.transport.streams import AioStream
from hightide.transport.transport import AioTransport

log = logging.getLogger("hightide")

_DEFECT: Final = "%s failed; this is a defect of the SDK"


class Driver:
    """The driver of one core, with one task. `changed` is notified whenever the core's state has changed."""

    def __init__(
        self,
        core: DrivenCore,
        transport: AioTransport,
        changed: LoopCondition,
        name: str,
        reporter: tracing.Reporter,
        owner: DriverOwner | None = None,
        reports: CallReports | None = None,
    ) -> None:
        self._core = core
        self._reports = reports
        self._reporter = reporter
        self._is_traced = False
        self._transport = transport
        self._changed = changed
        self._name = name
        self._owner = owner
        self._is_let_go = False
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._calls: dict[Call[Any], asyncio.Task[None]] = {}
        self._streams: dict[StreamCall[Any], AioStream] = {}
        self._poked = asyncio.Event()
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the task, once; called on the loop."""
        if self._task is None:
            self._is_traced = tracing.is_wanted()
            if self._is_traced:
                self._core.be_traced()
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    def poke(self) -> None:
        """Let the core be polled soon. Called on the loop."""
        self._poked.set()

    @property
    def is_started(self) -> bool:
        """Whether the task was ever started."""
        return self._task is not None

    @property
    def is_running(self) -> bool:
        """Whether the task has started and has not ended."""
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        """End the task and drop the calls under way."""
        tasks = [*self._calls.values(), *((self._task,) if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._report(is_last=True)
        self._notify()

    def let_go(self) -> bool:
        """Finish what is unfinished, then end: nobody has the client any more. Called by the garbage
        collector on any thread. Returns whether the loop still runs, so that anything can be finished."""
        self._is_let_go = True
        if not self.is_running or self._task is None:
            return False
        try:
            self._task.get_loop().call_soon_threadsafe(self._poked.set)
        except RuntimeError:
            return False
        return True

    async def _end_alone(self) -> None:
        """Do what `stop` and the closing of the client do otherwise."""
        for call in self._calls.values():
            call.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        self._report(is_last=True)
        await self._transport.close()
        if self._owner is not None:
            self._owner.ended()

    def _report(self, *, is_last: bool = False) -> None:
        while self._core.notices:
            log_notice(self._core.notices.popleft())
        if self._is_traced and (facts := self._core.facts(is_last=is_last)):
            self._reporter.report(facts, now_ms())

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _run(self) -> None:
        try:
            while self.failure is None and not self._is_over:
                await self._turn()
            if self._is_over:
                await self._end_alone()
        except Exception as error:
            log.exception(_DEFECT, self._name)
            self._fail(error)

    def _fail(self, failure: Exception) -> None:
        """End the task, and let nobody wait for what it would have done."""
        self.failure = failure
        self._poked.set()
        with self._changed:
            try:
                if self._owner is not None:
                    self._owner.failed(failure)
            finally:
                callbacks, self._core.callbacks = self._core.callbacks, []
                self._changed.notify_all()
        run_callbacks(callbacks)

    async def _turn(self) -> None:
        self._is_over = self._is_let_go and not self._core.unfinished()
        calls = [] if self._is_over else self._core.poll(now_ms())
        self._report()
        cancelled, self._core.cancelled = self._core.cancelled, []
        callbacks, self._core.callbacks = self._core.callbacks, []
        reports = self._due(calls, cancelled)
        for call in cancelled:
            if call in self._calls:
                self._calls[call].cancel()
        for call in calls:
            self._calls[call] = asyncio.get_running_loop().create_task(self._make(call))
        for stream_call, stream in self._streams.items():
            while stream_call.outbox:
                stream.send(stream_call.outbox.popleft())
        run_callbacks(callbacks)
        run_callbacks(reports, report=REPORT_RAISED)
        self._notify()
        if self._is_over:
            return
        wake_at = self._core.wake_at_ms
        if self._reports is not None:
            wake_at = earlier(wake_at, self._reports.wake_at_ms)
        try:
            async with asyncio.timeout(None if wake_at is None else max(0.0, (wake_at - now_ms()) / 1000)):
                await self._poked.wait()
        except TimeoutError:
            # This is the core's own deadline: it is polled again.
            return
        finally:
            self._poked.clear()

    def _due(self, calls: list[Call[Any]], cancelled: list[Call[Any]]) -> list[Callable[[], object]]:
        """What the program's callbacks are told now."""
        if self._reports is None:
            return []
        for call in cancelled:
            self._reports.given_up(call)
        for call in calls:
            self._reports.began(call, now_ms())
        return self._reports.due(now_ms())

    async def _make(self, call: Call[Any]) -> None:
        outcome: Any
        try:
            if isinstance(call, StreamCall):
                outcome = await self._converse(call)
            else:
                # Not `run`: this task began inside of some span of the program, to which its calls do not
                # belong.
                outcome = call.decode(await self._transport.exchange(call, call.encode()))
        except HightideError as error:
            outcome = error
        except asyncio.CancelledError:
            if self._task is None or self._task.cancelled() or self._task.cancelling():
                raise
            # The core gave this call up, and must learn that it has ended.
            outcome = _given_up(call)
        except Exception as error:
            log.exception(_DEFECT, self._name)
            self._fail(error)
            return
        self._calls.pop(call, None)
        if self._reports is not None:
            self._reports.ended(call, outcome, now_ms())
        self._core.completed(call, outcome, now_ms())
        self._poked.set()

    async def _converse(self, call: StreamCall[Any]) -> StreamEnded:
        """Read a stream to its end. Raises HightideError."""
        stream = self._transport.open(call, call.encode())
        self._streams[call] = stream
        self._poked.set()
        try:
            async for message in stream.messages():
                self._core.completed(call, call.decode(message), now_ms())
                self._poked.set()
        finally:
            self._streams.pop(call, None)
        return STREAM_ENDED


def _given_up(call: Call[Any]) -> HightideError:
    return AddressUnreachableError(f"the call to {call.address} was given up", address=call.address)
