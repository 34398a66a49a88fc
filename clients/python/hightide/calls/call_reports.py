"""What the callbacks of a client are told: failures of its calls, and statistics now and then.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`. A driver notes each call that it
begins and that ends, and makes the callbacks that are due, without the client's lock.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final

from hightide.calls.call import Call
from hightide.errors import HightideError, InvalidArgumentError
from hightide.statistics import BrokerStatistics, CallFailure, ClientStatistics, ErrorCallback

StatisticsCallback = Callable[[Any], object]

#: Failures that are alike are reported this often, with their number.
REPORT_INTERVAL_MS: Final = 1_000
#: So many addresses and kinds of errors are told apart: brokers may come and go for ever.
_KINDS_MAX: Final = 1_000
_INTERVAL_MIN_MS: Final = 100
_INTERVAL_MAX_MS: Final = 86_400_000


@dataclass(slots=True)
class _Failures:
    """Failures of calls to one address that are alike."""

    failure: CallFailure
    count: int = 0
    due_ms: float = 0.0


@dataclass(slots=True)
class _Calls:
    """The calls to one address."""

    ended: int = 0
    failures: int = 0
    in_flight: int = 0
    timed: int = 0
    sum_ms: float = 0.0
    max_ms: float = 0.0

    def statistics(self) -> BrokerStatistics:
        """The figures, and those of the interval begin anew."""
        mean_ms = self.sum_ms / self.timed if self.timed else 0.0
        told = BrokerStatistics(self.ended, self.failures, self.in_flight, mean_ms, self.max_ms)
        self.timed, self.sum_ms, self.max_ms = 0, 0.0, 0.0
        return told


@dataclass(frozen=True, slots=True)
class ClientCallbacks:
    """The callbacks that `Producer` and `Consumer` document. Raises InvalidArgumentError."""

    on_error: ErrorCallback | None = None
    on_statistics: StatisticsCallback | None = None
    statistics_interval_ms: int = 60_000

    def __post_init__(self) -> None:
        for name, callback in (("on_error", self.on_error), ("on_statistics", self.on_statistics)):
            if callback is not None and (not callable(callback) or iscoroutinefunction(callback)):
                raise InvalidArgumentError(
                    f"{name} is {callback!r}; it may be a plain function, which may start a task"
                )
        if not _INTERVAL_MIN_MS <= self.statistics_interval_ms <= _INTERVAL_MAX_MS:
            raise InvalidArgumentError(
                f"statistics_interval_ms is {self.statistics_interval_ms}; it may be {_INTERVAL_MIN_MS} to "
                f"{_INTERVAL_MAX_MS}"
            )

    def reports(self, read: Callable[[], ClientStatistics]) -> "CallReports | None":
        """The reports to these callbacks; None if there is no callback. `read` is called with the lock."""
        return None if self.on_error is None and self.on_statistics is None else CallReports(self, read)


class CallReports:
    """The reports of one client. Used by its driver, with the client's lock."""

    def __init__(self, callbacks: ClientCallbacks, read: Callable[[], ClientStatistics]) -> None:
        self._callbacks = callbacks
        self._read = read
        self._calls: dict[str, _Calls] = {}
        self._begun: dict[Call[Any], float] = {}
        self._failures: dict[tuple[str, type[HightideError]], _Failures] = {}
        self._statistics_at_ms: float | None = None

    @property
    def wake_at_ms(self) -> float | None:
        """When something is due; None: not before another call fails."""
        times = [each.due_ms for each in self._failures.values() if each.count]
        if self._statistics_at_ms is not None:
            times.append(self._statistics_at_ms)
        return min(times, default=None)

    def began(self, call: Call[Any], now_ms: float) -> None:
        """Note that a call is made."""
        self._begun[call] = now_ms
        self._calls.setdefault(call.address, _Calls()).in_flight += 1

    def given_up(self, call: Call[Any]) -> None:
        """Note that the client itself gives a call up. How it ends says nothing."""
        if self._begun.pop(call, None) is not None:
            self._calls[call.address].in_flight -= 1

    def ended(self, call: Call[Any], outcome: object, now_ms: float) -> None:
        """Note that a call has ended, with its answer or a HightideError."""
        begun_ms = self._begun.pop(call, None)
        if begun_ms is None:
            return
        calls = self._calls[call.address]
        calls.in_flight -= 1
        calls.ended += 1
        calls.timed += 1
        calls.sum_ms += now_ms - begun_ms
        calls.max_ms = max(calls.max_ms, now_ms - begun_ms)
        if isinstance(outcome, HightideError):
            calls.failures += 1
            self._failed(call, outcome, now_ms)

    def _failed(self, call: Call[Any], error: HightideError, now_ms: float) -> None:
        if self._callbacks.on_error is None:
            return
        kind = (call.address, type(error))
        failures = self._failures.get(kind)
        if failures is None:
            if len(self._failures) >= _KINDS_MAX:
                self._failures = {key: each for key, each in self._failures.items() if each.count}
            if len(self._failures) >= _KINDS_MAX:
                return
            failures = self._failures[kind] = _Failures(CallFailure(error, "", call.address, 0), 0, now_ms)
        method = call.method.value.rpartition("/")[2]
        failures.failure = CallFailure(error, method, call.address, 0)
        failures.count += 1

    def due(self, now_ms: float) -> list[Callable[[], object]]:
        """The callbacks to make now."""
        found: list[Callable[[], object]] = []
        on_error, on_statistics = self._callbacks.on_error, self._callbacks.on_statistics
        for failures in self._failures.values():
            if on_error is not None and failures.count and failures.due_ms <= now_ms:
                found.append(partial(on_error, replace(failures.failure, count=failures.count)))
                failures.count, failures.due_ms = 0, now_ms + REPORT_INTERVAL_MS
        if on_statistics is None:
            return found
        if self._statistics_at_ms is None:
            self._statistics_at_ms = now_ms + self._callbacks.statistics_interval_ms
        elif now_ms >= self._statistics_at_ms:
            self._statistics_at_ms = now_ms + self._callbacks.statistics_interval_ms
            brokers = {address: calls.statistics() for address, calls in self._calls.items()}
            found.append(partial(on_statistics, replace(self._read(), brokers=brokers)))
        return found
