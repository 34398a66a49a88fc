"""A rebalance as one trace: stop, commit, owners, start (consumer coordinator §9.4).

The core says when a rebalance begins and ends. Its steps follow from the orders that are sent, and from the
state of the group after each event. A step that has several rounds begins with the first one and ends with
the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.trace_context import new_root_traceparent
from hightide_runtime.telemetry.tracing import Span, Telemetry

from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.state.shard_state import ShardState

__all__ = ["OPEN_MAX", "RebalanceTraces"]

OPEN_MAX: Final = 100
"""At most so many rebalances are traced at a time. If ten thousand groups lose their coordinator, these are
the first ones."""
_SAMPLE: Final = 10


@dataclass(slots=True)
class _Step:
    """The time from the first round of a step to the last, in wall-clock microseconds; 0 means not yet."""

    began_us: int = 0
    ended_us: int = 0
    is_open: bool = False

    def begin(self, now_us: int) -> None:
        self.began_us = self.began_us or now_us
        self.is_open = True

    def end(self, now_us: int) -> None:
        if self.is_open:
            self.is_open = False
            self.ended_us = now_us


@dataclass(slots=True)
class _Rebalance:
    """A rebalance that is under way, with its span and its steps."""

    span: Span
    began_us: int
    stop: _Step
    owners: _Step
    start: _Step
    store_id: int = -1


class RebalanceTraces:
    """The traces of the rebalances of one shard. `ShardTraces` has one, on the event loop's thread."""

    def __init__(self, telemetry: Telemetry, clock: Clock) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._open: dict[str, _Rebalance] = {}

    def __contains__(self, group_name: str) -> bool:
        return group_name in self._open

    def begun(self, group: Group, parent: str) -> None:
        """Begin the trace of a rebalance, when the core has begun an attempt. `parent` is the traceparent of
        the takeover that caused it, or empty."""
        if not self._telemetry.enabled or group.name in self._open or len(self._open) >= OPEN_MAX:
            return
        name, now_us = span_kinds.GROUP_REBALANCE, self._clock.wall_us()
        if parent:
            span = self._telemetry.span(name, parent=parent, start_time_us=now_us)
        else:
            # The id is random, since a group that is deleted and created again repeats its generations.
            span = self._telemetry.root(name, new_root_traceparent(), start_time_us=now_us)
        span.set("group", group.name)
        span.set("reason", group.reason)
        span.set("partition_count", len(group.steps))
        names = [
            f"{step.topic}-{step.partition}" for step, _ in zip(group.steps, range(_SAMPLE), strict=False)
        ]
        if names:
            span.set("partition_sample", ", ".join(names))
        self._open[group.name] = _Rebalance(span, now_us, _Step(), _Step(), _Step())

    def stopping(self, group_name: str) -> str:
        """Note that a StopFetcher is about to be sent. Returns the traceparent for it, or an empty text."""
        rebalance = self._open.get(group_name)
        if rebalance is None:
            return ""
        rebalance.stop.begin(self._clock.wall_us())
        return rebalance.span.traceparent

    def starting(self, group_name: str) -> str:
        """Note that a StartFetcher is about to be sent. Returns the traceparent for it, or an empty text."""
        rebalance = self._open.get(group_name)
        if rebalance is None:
            return ""
        rebalance.start.begin(self._clock.wall_us())
        return rebalance.span.traceparent

    def storing(self, group_name: str, store_id: int) -> None:
        """Note that owners are about to be written to ZooKeeper."""
        rebalance = self._open.get(group_name)
        if rebalance is not None:
            rebalance.owners.begin(self._clock.wall_us())
            rebalance.store_id = store_id

    def settle(self, state: ShardState) -> None:
        """End the steps that are over, after the core has taken an event. Only the groups of the event
        matter."""
        if not self._open:
            return
        now_us = self._clock.wall_us()
        for name in state.looked_at:
            rebalance = self._open.get(name)
            if rebalance is None:
                continue
            group = state.groups.get(name)
            if group is None or group.state is GroupState.EMPTY:
                self._end(name, group, now_us)
                continue
            if group.open_stops == 0:
                rebalance.stop.end(now_us)
            if len(group.open_orders) == group.open_stops:
                rebalance.start.end(now_us)
            if group.store is None or group.store.store_id != rebalance.store_id:
                rebalance.owners.end(now_us)

    def ended(self, group: Group) -> None:
        """End the trace of a rebalance, when the core has ended an attempt, unless it tries again."""
        if group.failures == 0 or group.state is GroupState.FAILED:
            self._end(group.name, group, self._clock.wall_us())

    def _end(self, group_name: str, group: Group | None, now_us: int) -> None:
        rebalance = self._open.pop(group_name, None)
        if rebalance is None:
            return
        span, stop, owners, start = rebalance.span, rebalance.stop, rebalance.owners, rebalance.start
        for step in (stop, owners, start):
            step.end(now_us)
        self._step(span, span_kinds.REBALANCE_STOP, stop.began_us, stop.ended_us)
        if owners.began_us:
            stopped_us = min(stop.ended_us or rebalance.began_us, owners.began_us)
            self._step(span, span_kinds.REBALANCE_COMMIT, stopped_us, owners.began_us)
        self._step(span, span_kinds.REBALANCE_OWNERS, owners.began_us, owners.ended_us)
        self._step(span, span_kinds.REBALANCE_START, start.began_us, start.ended_us)
        if group is not None:
            span.set("generation", group.generation)
            span.set("members", len(group.members))
            span.set("state", group.state.name)
            span.set("failures", group.failures)
        span.end(now_us)

    def _step(self, parent: Span, name: str, from_us: int, to_us: int) -> None:
        if from_us:
            span = self._telemetry.span(name, parent=parent.traceparent, start_time_us=from_us)
            span.end(max(from_us, to_us))

    def resigned(self) -> None:
        """End all open traces, because another process coordinates the shard, or this one ends."""
        for name in list(self._open):
            self._end(name, None, self._clock.wall_us())
