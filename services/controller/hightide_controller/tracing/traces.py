"""What a controller does as traces: the one door by which the shell says what it is about to do and has done.

Each thing that happens goes to the traces of its cause (`causes`). Failovers and takeovers, requests about
topics, and moves begin traces by rules of their own; what follows from a cause is the same for all but moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Telemetry

from hightide_controller.core import events as ev
from hightide_controller.core.effects import (
    Decision,
    SendLeaderAndIsr,
    SendStopReplica,
    StoreLeaderAndIsr,
    StoreTopic,
)
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.writes import StoreWrites
from hightide_controller.tracing.causes import Causes
from hightide_controller.tracing.failovers_begun import FailoverTraces
from hightide_controller.tracing.move_traces import MoveTraces
from hightide_controller.tracing.open_traces import OpenTraces
from hightide_controller.tracing.request_traces import RequestTraces

__all__ = ["ControllerTraces"]

_Told = TypeVar("_Told", SendLeaderAndIsr, SendStopReplica)


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
        self._open = OpenTraces(clock)
        self._requests = RequestTraces(cluster_id, telemetry, clock, self._open)
        self.causes = Causes()
        self.failovers = FailoverTraces(
            cluster_id, controller_id, telemetry, clock, self.causes, self._open, on_failed_over
        )
        self.moves = MoveTraces(cluster_id, telemetry, clock)

    # ---- requests

    def request(self, kind: str, method: str) -> str:
        """The cause for a request that may begin a trace of this kind. Call `answered` last."""
        if not self._telemetry.enabled:
            return ""
        cause = self.causes.new(kind)
        self._requests.begun(cause, kind, method)
        if kind == span_kinds.REASSIGNMENT:
            self.moves.requested(cause)
        return cause

    def answered(self, cause: str) -> None:
        """The request of this cause has its answer, or its caller waits no more."""
        self._requests.answered(cause, self.traceparent_of(cause))
        self.moves.answered(cause)
        self.settle()

    # ---- the core

    def before(self, state: ClusterState, event: ev.Event) -> None:
        """The core is about to take this event."""
        self.moves.before(state, event)
        self.failovers.before(state, event)
        match event:
            case ev.StoreCommitted() | ev.StoreRefused() | ev.StoreUnknown():
                for trace in self._open:
                    trace.multi_taken(event.store_id)
            case ev.StatesRead():
                self.read_given_up(event.cause)
            case _:
                pass

    def decided(self, event: ev.Event) -> None:
        """The core has taken the event."""
        for trace in self._open.of(getattr(event, "cause", "")):
            trace.decided()

    def traceparent_of(self, cause: str) -> str:
        """What goes into znodes and gRPC metadata; empty where the cause is not traced."""
        return self._open.traceparent_of(cause) or self.moves.traceparent_of(cause)

    # ---- ZooKeeper

    def multi_submitted(self, effect: StoreLeaderAndIsr) -> None:
        """A multi is on its way."""
        for trace in self._open.of(effect.cause):
            trace.multi_submitted(effect)

    def multi_answered(self, effect: StoreLeaderAndIsr, outcome: str) -> None:
        """The fate of a multi is known. The trace may have ended meanwhile, by a resignation."""
        for trace in self._open.of(effect.cause):
            trace.multi_answered(effect, outcome)

    def writes_submitted(self, effect: StoreWrites) -> StoreWrites:
        """A multi with other writes than leaders is on its way; the same, as it goes to ZooKeeper."""
        effect = self.moves.marked(effect)
        self._requests.storing(effect)
        for trace in self._open.of(effect.cause):
            trace.writes_submitted(effect)
        return effect

    def writes_answered(self, effect: StoreWrites, outcome: str) -> None:
        """Its fate."""
        self.moves.stored(effect, outcome == ev.StoreCommitted.__name__)
        for trace in self._open.of(effect.cause):
            trace.writes_answered(effect.store_id, outcome)

    def storing_topic(self, effect: StoreTopic) -> None:
        """The znodes of a topic that was asked for are about to be created."""
        self._requests.storing_topic(effect)

    def topic_stored(self, effect: StoreTopic, outcome: str) -> None:
        """Their fate."""
        self._requests.topic_stored(effect, outcome)

    def reading(self, cause: str) -> None:
        """A read begins; it ends when the core takes what was read, or here where it is given up."""
        for trace in self._open.of(cause):
            trace.read_begun()

    def read_given_up(self, cause: str) -> None:
        """A read that nobody needs any more."""
        for trace in self._open.of(cause):
            trace.read_ended()

    # ---- brokers

    def informing(self, effect: _Told) -> _Told:
        """A broker is about to be told; the same, as it is handed over."""
        by_move = self.moves.sends(effect)
        for trace in self._open.of(effect.cause):
            trace.sends(effect)
        if by_move and not self.traceparent_of(effect.cause):
            return replace(effect, cause=by_move)
        return effect

    def acknowledged(self, broker_id: int, sequence: int) -> None:
        """A broker has everything up to a sequence."""
        self.moves.acknowledged(broker_id, sequence)
        for trace in self._open:
            trace.acknowledged(broker_id, sequence)

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """A broker has acknowledged a LeaderAndISR with these decisions."""
        for trace in self._open:
            trace.obeyed(broker_id, decisions)

    def broker_gone(self, broker_id: int) -> None:
        """A broker is not live any more."""
        self.moves.broker_gone(broker_id)
        for trace in self._open:
            trace.broker_gone(broker_id)

    # ---- the end

    def settle(self) -> None:
        """End the traces that nothing is under way for, and those that have lasted too long."""
        self.moves.settle()
        self.failovers.over(self._open.settle())

    def finish_all(self) -> None:
        """This controller is no longer active, or ends."""
        self.moves.finish_all()
        self._open.finish_all()
