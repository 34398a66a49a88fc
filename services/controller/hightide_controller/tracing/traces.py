"""What a controller does as traces: `record` takes down each step of the core, and folds it into them.

Each thing that happens goes to the traces of its cause (`causes`): what the core wants begins with the step
that wants it, and ends with the event that brings its fate, at the time at which that came. Failovers and
takeovers, requests about topics, and moves begin traces by rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Telemetry

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
    """One for each shell; belongs to the event loop's thread."""

    def __init__(
        self,
        cluster_id: str,
        controller_id: int,
        telemetry: Telemetry,
        clock: Clock,
        on_failed_over: Callable[[str, float], None] = lambda _reason, _took_s: None,
    ) -> None:
        """`on_failed_over` is told of each failover that is over: why it was, and how long it took."""
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
        """What goes into znodes and gRPC metadata; empty where the cause is not traced."""
        return self._open.traceparent_of(cause) or self._moves.traceparent_of(cause)

    # ---- requests

    def request(self, kind: str, method: str) -> str:
        """The cause for a request that may begin a trace of this kind. Call `answered` last."""
        if not self._telemetry.enabled:
            return ""
        cause = self.causes.new(kind)
        self._requests.begun(cause, kind, method)
        if kind == span_kinds.REASSIGNMENT:
            self._moves.requested(cause)
        return cause

    def answered(self, cause: str) -> None:
        """The request of this cause has its answer, or its caller waits no more."""
        self._requests.answered(cause, self.traceparent_of(cause))
        self._moves.answered(cause)
        self._settle()

    def _settle(self) -> None:
        """End the traces that nothing is under way for, and those that have lasted too long."""
        at_us = self._clock.wall_us()
        self.failovers.over(self._open.settle(at_us), at_us)

    # ---- the core

    def record(
        self, state: ClusterState, event: ev.Event, arrived_us: int
    ) -> tuple[ClusterState, Iterable[Effect]]:
        """Take a step of the core, and take it down: who is lost by it shows in the state before, which the
        core changes in place. The shell calls it for each event, `arrived_us` being when that came, and then
        performs the effects as they are given here, each before it asks for the next: what belongs to a trace
        names it, and what takes time begins now.
        """
        taken_us = self._clock.wall_us()
        self._moves.before(state, event)
        self.failovers.before(state, event, taken_us)
        state, effects = step(state, event)
        if not (effects or self._open.is_anything or self._moves.is_anything):
            return state, effects
        self._end_what_it_tells(event, arrived_us, taken_us)
        for trace in self._open.of(getattr(event, "cause", "")):
            trace.decided(self._clock.wall_us())
        return state, self._wanted(state, effects)

    def _end_what_it_tells(self, event: ev.Event, arrived_us: int, taken_us: int) -> None:
        """What was under way, and has ended with the event."""
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

    def _wanted(self, state: ClusterState, effects: tuple[Effect, ...]) -> Iterator[Effect]:
        """The effects as they are to be performed; then, what is done is ended."""

        def is_live(life: Life) -> bool:
            return state.is_live(life[0]) and state.brokers[life[0]].broker_epoch == life[1]

        for trace in self._open:
            trace.forget_gone(is_live)
        for effect in effects:
            yield self._begun(effect)
        self._moves.settle(is_live)
        self._settle()

    def _begun(self, effect: Effect) -> Effect:
        """What begins with an effect; the same, as it is to be performed."""
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
        """A broker has acknowledged a LeaderAndISR with these decisions, though not yet all of a delivery."""
        at_us = self._clock.wall_us()
        for trace in self._open:
            trace.obeyed(broker_id, decisions, at_us)

    def finish_all(self) -> None:
        """This controller is no longer active, or ends."""
        at_us = self._clock.wall_us()
        self._moves.finish_all()
        self._open.finish_all(at_us)
