"""The thread that drives a core: it makes the calls that the core asks for and passes the answers to it.

Each client has one daemon thread. All events come through one queue: answers (put there by gRPC's threads)
and pokes (put there by the user's). The core is touched only under the client's lock; bytes are encoded and
decoded, and callbacks made, outside of it.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from hightide import tracing
from hightide.calls.call import Call, StreamCall, StreamEnded
from hightide.calls.call_reports import CallReports
from hightide.calls.notice import Notice
from hightide.cluster.leader_waits import Fact
from hightide.errors import HightideError
from hightide.transport.notices import log_notice
from hightide.transport.streams import Stream
from hightide.transport.thread_condition import ThreadCondition
from hightide.transport.transport import Transport

log = logging.getLogger("hightide")

REPORT_RAISED: Final = "on_error or on_statistics raised"

# The outcome of a call, before it is decoded.
Outcome = bytes | StreamEnded | HightideError


class DrivenCore(Protocol):
    """The interface of a core to its driver."""

    wake_at_ms: float | None
    cancelled: list[Call[Any]]
    callbacks: list[Callable[[], object]]
    notices: deque[Notice]

    def be_traced(self) -> None:
        """Note the facts that spans are made of, because spans may be recorded. Called before the first
        poll."""

    def unfinished(self) -> Sequence[object]:
        """What has to end before the driver may, although nobody has the client any more: batches of
        records."""

    def facts(self, *, is_last: bool = False) -> list[Fact]:
        """The facts that spans are made of, each returned once. `is_last`: nothing more is waited for."""

    def poll(self, now_ms: float) -> list[Call[Any]]:
        """The calls to make now."""

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        """A call ended with its decoded answer or a HightideError; of a `StreamCall`, each message that comes
        is an outcome too."""


def now_ms() -> float:
    """The monotonic clock that all cores are given, in milliseconds."""
    return time.monotonic() * 1000.0


class DriverOwner(Protocol):
    """Whoever learns of the end of a driver that nobody stopped."""

    def failed(self, failure: BaseException) -> None:
        """The driver itself failed. Called once, under the client's lock."""

    def ended(self) -> None:
        """The driver was let go, and everything is finished."""


class Driver:
    """The driver of one core, with a thread. `changed` is notified whenever calls have ended."""

    def __init__(
        self,
        core: DrivenCore,
        transport: Transport,
        changed: ThreadCondition,
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
        self._inbox: queue.SimpleQueue[tuple[Call[Any], Outcome] | None] = queue.SimpleQueue()
        self._streams: dict[StreamCall[Any], Stream] = {}
        self._under_way: dict[Call[Any], Any] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._name = name
        self._owner = owner
        self._is_let_go = False
        self.failure: BaseException | None = None
        self.poke = self._poke

    def start(self) -> None:
        """Start the thread, once; called under the client's lock."""
        if self._thread is None:
            self._is_traced = tracing.is_wanted()
            if self._is_traced:
                self._core.be_traced()
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _poke(self) -> None:
        """Let the core be polled soon. Called from any thread."""
        self._inbox.put(None)

    @property
    def is_started(self) -> bool:
        """Whether the thread was ever started."""
        return self._thread is not None

    @property
    def is_running(self) -> bool:
        """Whether the thread has started and has not ended."""
        return self._thread is not None and self.failure is None and not self._stopping

    def stop(self) -> None:
        """End the thread and drop the calls under way. Called once, without the lock."""
        self._stopping = True
        self._inbox.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)
        self._drop_calls()
        if self._is_traced:
            with self._changed:
                facts = self._core.facts(is_last=True)
            self._reporter.report(facts, now_ms())

    def let_go(self) -> None:
        """Finish what is unfinished, then end: nobody has the client any more. It takes no lock, since the
        garbage collector calls it on any thread, whatever that thread holds."""
        self._is_let_go = True
        self._inbox.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, at most so long."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _drop_calls(self) -> None:
        """Give up the calls under way: others may use their connections, which do not end then."""
        for call in list(self._under_way.values()):
            call.cancel()

    def _end_alone(self) -> None:
        """Do what `stop` and the closing of the client do otherwise."""
        self._drop_calls()
        if self._is_traced:
            with self._changed:
                facts = self._core.facts(is_last=True)
            self._reporter.report(facts, now_ms())
        self._transport.close()
        if self._owner is not None:
            self._owner.ended()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception as error:
                log.exception("%s failed; this is a defect of the SDK", self._name)
                self._fail(error)
                return
        if self._is_let_go:
            self._end_alone()

    def _fail(self, failure: Exception) -> None:
        """Let nobody wait for what the thread would have done."""
        self.failure = failure
        with self._changed:
            try:
                if self._owner is not None:
                    self._owner.failed(failure)
            finally:
                callbacks, self._core.callbacks = self._core.callbacks, []
                self._changed.notify_all()
        run_callbacks(callbacks, BaseException)

    def _turn(self) -> None:
        """Wait for an event, or for the core's next deadline, and let the core act on it."""
        outcomes = self._wait()
        with self._changed:
            now = now_ms()
            for call, outcome in outcomes:
                self._forget(call, outcome)
                self._core.completed(call, outcome, now)
            if self._is_let_go and not self._core.unfinished():
                self._stopping = True
            calls = [] if self._stopping else self._core.poll(now)
            for stream_call, stream in self._streams.items():
                while stream_call.outbox:
                    stream.send(stream_call.outbox.popleft())
            cancelled, self._core.cancelled = self._core.cancelled, []
            callbacks, self._core.callbacks = self._core.callbacks, []
            facts = self._core.facts() if self._is_traced else []
            reports = self._due(outcomes, calls, cancelled, now)
            if outcomes:
                self._changed.notify_all()
        while self._core.notices:
            log_notice(self._core.notices.popleft())
        for call in cancelled:
            future = self._under_way.get(call)
            if future is not None:
                future.cancel()
        for call in calls:
            self._start(call)
        if facts:
            self._reporter.report(facts, now_ms())
        run_callbacks(callbacks, BaseException)
        run_callbacks(reports, BaseException, REPORT_RAISED)

    def _due(
        self,
        outcomes: list[tuple[Call[Any], Any]],
        calls: list[Call[Any]],
        cancelled: list[Call[Any]],
        now: float,
    ) -> list[Callable[[], object]]:
        """What the program's callbacks are told now. Called with the lock."""
        if self._reports is None:
            return []
        for call, outcome in outcomes:
            if not isinstance(call, StreamCall) or isinstance(outcome, StreamEnded | HightideError):
                self._reports.ended(call, outcome, now)
        for call in cancelled:
            self._reports.given_up(call)
        for call in calls:
            self._reports.began(call, now)
        return self._reports.due(now)

    def _forget(self, call: Call[Any], outcome: Any) -> None:
        """Drop a call that has ended; a message on a stream does not end it."""
        if not isinstance(call, StreamCall):
            self._under_way.pop(call, None)
        elif isinstance(outcome, StreamEnded | HightideError):
            self._under_way.pop(call, None)
            stream = self._streams.pop(call, None)
            if stream is not None:
                # The outcome may be a message that cannot be read: then the stream must be cancelled at the
                # server.
                stream.cancel()

    def _wait(self) -> list[tuple[Call[Any], Any]]:
        wake_at = self._core.wake_at_ms
        if self._reports is not None:
            wake_at = earlier(wake_at, self._reports.wake_at_ms)
        timeout_s = None if wake_at is None else max(0.0, (wake_at - now_ms()) / 1000.0)
        outcomes: list[tuple[Call[Any], Any]] = []
        try:
            item = self._inbox.get(timeout=timeout_s)
            while True:
                if item is not None:
                    outcomes.append((item[0], decoded(*item)))
                item = self._inbox.get_nowait()
        except queue.Empty:
            return outcomes

    def _start(self, call: Call[Any]) -> None:
        try:
            if isinstance(call, StreamCall):
                self._streams[call] = stream = self._transport.open(call, call.encode(), self._done)
                self._under_way[call] = stream
            else:
                self._under_way[call] = self._transport.start(call, call.encode(), self._done)
        except HightideError as error:
            self._inbox.put((call, error))

    def _done(self, call: Call[Any], outcome: Outcome) -> None:
        self._inbox.put((call, outcome))


def decoded(call: Call[Any], outcome: Outcome) -> Any:
    """The outcome of a call in the form that cores take."""
    if isinstance(outcome, HightideError | StreamEnded):
        return outcome
    try:
        return call.decode(outcome)
    except HightideError as error:
        return error


def earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two times, either of which may be never."""
    return min((each for each in (one, other) if each is not None), default=None)


def run_callbacks(
    callbacks: list[Callable[[], object]],
    caught: type[BaseException] = Exception,
    report: str = "a delivery callback raised",
) -> None:
    """Call callbacks of the program: of deliveries, unless `report` says otherwise. One that raises is
    logged, and affects only itself. On a thread of the SDK not even SystemExit may end more than the
    callback: `caught` is BaseException there."""
    for callback in callbacks:
        try:
            callback()
        except caught:
            log.exception(report)
