"""Spans of the control plane. Off unless OTEL_EXPORTER_OTLP_ENDPOINT or HIGHTIDE_TRACE_DIR is set.

A span's traceparent (W3C) travels in gRPC metadata, by channels opened with `traced=True`, and in the
znode. On the server side it is `current_traceparent()` while the handler runs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeAlias

from hightide_runtime.trace_context import current_traceparent

__all__ = ["Span", "Telemetry", "current_traceparent"]

#: The spans of a failover, after V3 "End-to-end latency during a broker failure".
FAILOVER = "failover"
BROKER_DOWN = "failover.broker_down"  # step 1, controller
BROKER_WATCHER_TRIGGERED = "failover.broker_watcher_triggered"  # step 2, controller
LEADERSHIP_CHANGE = "failover.leadership_change"  # step 3, controller
ZOOKEEPER_MULTI = "failover.zookeeper_multi"  # inside 3, one a multi
INFORM_BROKER = "failover.inform_broker"  # step 4, controller, one a broker
BECOME_LEADER = "failover.become_leader"  # broker, below inform_broker
FOLLOWERS_CONNECT = "failover.followers_connect"  # step 5, the new leader; ends at the first commit
FIRST_COMMIT = "failover.first_commit"  # the moment of the first commit under the new epoch
BECOME_FOLLOWER = "failover.become_follower"  # step 6, broker
TRUNCATE_LOG = "failover.truncate_log"  # inside 6
CONTROLLER_FAILOVER = "controller_failover"  # root: another controller took over

Attribute: TypeAlias = str | int | float | bool


class Span:
    """One span. Ends once, by `end` or by leaving its with-block; it costs nothing when tracing is off."""

    @property
    def traceparent(self) -> str:
        """The span as a W3C traceparent, to be handed on; empty when tracing is off."""
        raise NotImplementedError

    def set(self, name: str, value: Attribute) -> None:
        """Set an attribute."""
        raise NotImplementedError

    def end(self, end_time_us: int | None = None) -> None:
        """End it, now or at a wall-clock time. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Make it the current span of this task, for `traced` channels and for spans started inside."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, with status ERROR and the exception's text where there was one."""
        raise NotImplementedError


class Telemetry:
    """Where a process sends its spans. Mains build one by `set_up` and hand it to the shell."""

    @classmethod
    def set_up(cls, service: str, instance: str) -> "Telemetry":
        """Read the OTEL_* and HIGHTIDE_TRACE_DIR variables. `service`: "broker"; `instance`: its id."""
        raise NotImplementedError

    @classmethod
    def off(cls) -> "Telemetry":
        """No spans at all; for tests."""
        raise NotImplementedError

    @property
    def enabled(self) -> bool:
        """Whether spans go anywhere."""
        raise NotImplementedError

    def span(
        self,
        name: str,
        *,
        parent: str | None = None,
        start_time_us: int | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Span:
        """Start a span, now or at a wall-clock time that has passed.

        `parent` is a traceparent; None means the current span of this task (or what the caller of the RPC
        sent), "" means a new trace. Use it as a with-block, or keep it and call `end`.
        """
        raise NotImplementedError

    @contextmanager
    def within(self, traceparent: str) -> Iterator[None]:
        """Make a span that lives elsewhere (in a znode, in another task) the current one."""
        raise NotImplementedError

    def shut_down(self) -> None:
        """Send what is left. Mains call it last."""
        raise NotImplementedError
