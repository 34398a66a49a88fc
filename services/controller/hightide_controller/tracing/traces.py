"""The traces of a controller: `record` observes each step of the core, and adds spans to them.

Events and effects belong to the traces of their causes (`causes`). The work of an effect begins with the step
that returns it, and ends with the event about its outcome, at the time when that came. Failovers and
takeovers, requests about topics, and moves have their own rules for the beginning of traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Telemetry
from msgspec.structs import replace

from hightide_controller.core import events as ev
from hightide_controller.core.effects import (
    Decision,
    Effect,
    ReadStates,
    ReadTopics,
    Resign,
    SendLeaderAndIsr,
    SendStopReplica,
)
from hightide_controller.core.machine import step
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.writes import StoreWrites
from hightide_controller.tracing.causes import CauseNames
from hightide_controller.tracing.control_trace import Life
from hightide_controller.tracing.failovers_begun import FailoverTraces
from hightide_controller.tracing.move_traces import MoveTraces
from hightide_controller.tracing.open_traces import OpenTraces
from hightide_controller.tracing.request_traces import RequestTraces

__all__ = ["ControllerTraces"]


class ControllerTraces:
    """All traces of one shell, on the event loop's thread."""

    def __init__(
        self,
        cluster_id: str,
        controller_id: int,
        telemetry: Telemetry,
        clock: Clock,
        on_failed_over: Callable[[str, float], None] = lambda _reason, _took_s: None,
    ) -> None:
        """`on_failed_over` is called after each failover with its reason and its duration in seconds."""
        self._telemetry = telemetry
        self._clock = clock
        self._open = OpenTraces(clock)
        self._requests = RequestTraces(cluster_id, telemetry, clock, self._open)
        self.causes = CauseNames()
        self.failovers = FailoverTraces(
            cluster_id, controller_id, telemetry, clock, self.causes, self._open, on_failed_over
        )
        self._moves = MoveTraces(cluster_id, telemetry, clock)

    def traceparent_of(self, cause: str) -> str:
        """The traceparent for znodes and gRPC metadata; empty if the cause is not traced."""
        return self._open.traceparent_of(cause) or self._moves.traceparent_of(cause)

    # ---- requests

    def request(self, kind: str, method: str) -> str:
        """A cause for a request that may begin a trace of this kind. The caller calls `answered` at the
        end."""
        if not self._telemetry.enabled:
            return ""
        cause = self.causes.new(kind)
        self._requests.begun(cause, kind, method)
        if kind == span_kinds.REASSIGNMENT:
            self._moves.requested(cause)
        return cause

    def answered(self, cause: str) -> None:
        """Note that the request with this cause has its answer, or that its caller no longer waits."""
        self._requests.answered(cause, self.traceparent_of(cause))
        self._moves.answered(cause)
        self._settle()

    def _settle(self) -> None:
        """End the traces without work under way, and those that last too long."""
        at_us = self._clock.wall_us()
        self.failovers.over(self._open.settle(at_us), at_us)

    # ---- the core

    def record(
        self, state: ClusterState, event: ev.Event, arrived_us: int
    ) -> tuple[ClusterState, Iterable[Effect]]:
        """Take a step of the core, and observe it. The lost brokers are found before the step, because the
        core changes the state in place.

        The shell calls it for each event, with the time at which the event came. Then it performs the
        returned effects, each before it takes the next one from the iterator: an effect of a trace carries
        its cause, and its work begins when it is taken.
        """
        taken_us = self._clock.wall_us()
        self._moves.before(state, event)
        self.failovers.before(state, event, taken_us)
        state, effects = step(state, event)
        if not (effects or self._open.has_any or self._moves.has_any):
            return state, effects
        self._end_work(event, arrived_us, taken_us)
        for trace in self._open.of(getattr(event, "cause", "")):
            trace.decided(self._clock.wall_us())
        return state, self._observed(state, effects)

    def _end_work(self, event: ev.Event, arrived_us: int, taken_us: int) -> None:
        """End the work whose outcome this event is."""
        match event:
            case ev.StoreCommitted(store_id) | ev.StoreRefused(store_id) | ev.StoreUnknown(store_id):
                is_committed = isinstance(event, ev.StoreCommitted)
                self._moves.stored(store_id, arrived_us, is_committed=is_committed)
                self._end_write(store_id, event, arrived_us)
            case ev.TopicStored(request_id) | ev.TopicStoreRefused(request_id):
                self._end_write(f"request {request_id}", event, arrived_us)
            case ev.Fenced(is_write=True):
                for trace in self._open:
                    trace.writes_fenced(ev.Fenced.__name__, arrived_us)
            case ev.StatesRead(cause=cause) | ev.TopicsRead(cause=cause):
                kind = ReadStates if isinstance(event, ev.StatesRead) else ReadTopics
                for trace in self._open.of(cause):
                    trace.read_ended(kind, taken_us)
            case ev.BrokerAcknowledged(broker_id, broker_epoch, sequence):
                self._moves.acknowledged((broker_id, broker_epoch), sequence)
                for trace in self._open:
                    trace.acknowledged((broker_id, broker_epoch), sequence, arrived_us)
            case _:
                pass

    def _end_write(self, key: int | str, event: ev.Event, at_us: int) -> None:
        for trace in self._open:
            trace.write_ended(key, type(event).__name__, at_us)

    def _observed(self, state: ClusterState, effects: tuple[Effect, ...]) -> Iterator[Effect]:
        """The effects to perform. After the last one, traces that are done end."""

        def is_live(life: Life) -> bool:
            return state.is_live(life[0]) and state.brokers[life[0]].broker_epoch == life[1]

        for trace in self._open:
            trace.forget_gone(is_live)
        for effect in effects:
            yield self._begun(effect)
        self._moves.settle(is_live)
        self._settle()

    def _begun(self, effect: Effect) -> Effect:
        """Begin the work of an effect in its traces. Returns the effect to perform, with its cause."""
        match effect:
            case StoreWrites():
                effect = self._moves.marked(effect)
            case SendLeaderAndIsr() | SendStopReplica():
                by_move = self._moves.sends(effect)
                if by_move and not self.traceparent_of(effect.cause):
                    effect = replace(effect, cause=by_move)
            case Resign():
                self.finish_all()
            case _:
                pass
        self._requests.wants(effect)
        for trace in self._open.of(getattr(effect, "cause", "")):
            trace.wants(effect, self._clock.wall_us())
        return effect

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """Note that a broker has acknowledged a LeaderAndISR with these decisions, before the whole
        delivery."""
        at_us = self._clock.wall_us()
        for trace in self._open:
            trace.obeyed(broker_id, decisions, at_us)

    def finish_all(self) -> None:
        """End all traces, because this controller is no longer active, or ends."""
        at_us = self._clock.wall_us()
        self._moves.finish_all()
        self._open.finish_all(at_us)
