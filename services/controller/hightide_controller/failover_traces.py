"""Which failovers and requests are under way, and which event, multi and acknowledgement belongs to which.

A cause is a short text that events carry in and effects carry out of the core; here it leads to traces. It is
one as a rule; a takeover may have more, since it carries on what the lost controller began.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from hightide_runtime import span_kinds
from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import Telemetry
from hightide_runtime.trace_context import current_traceparent, root_traceparent, trace_id_of
from hightide_runtime.zookeeper import ZooKeeperError

from hightide_controller.control_trace import ControlTrace
from hightide_controller.core import events as ev
from hightide_controller.core.cluster_state import ClusterState, Role
from hightide_controller.core.effects import (
    Decision,
    SendLeaderAndIsr,
    SendStopReplica,
    StoreLeaderAndIsr,
    StoreTopic,
)
from hightide_controller.core.writes import StoreWrites
from hightide_controller.failover_trace import FailoverTrace, Loss, TakeoverTrace
from hightide_controller.move_traces import MoveTraces
from hightide_controller.store import ActiveController, ControllerStore
from hightide_controller.topic_trace import Request, TopicTrace, adopted_in
from hightide_controller.unfinished_work import LEAVES, LOST, Unfinished, broker_parts, unfinished_work

__all__ = ["FailoverTraces"]

_log = logging.getLogger(__name__)

_Told = TypeVar("_Told", SendLeaderAndIsr, SendStopReplica)
_EXPECTED_MAX: Final = 1_000
_OPEN_MAX: Final = 100
_DRAIN: Final = "controlled_shutdown"
_LEAVES_WITHIN_MS: Final = 10_000
"""So long after a broker has asked to be drained, its end is part of that: it is how a broker stops."""


class FailoverTraces:
    """One for each shell."""

    def __init__(
        self,
        cluster_id: str,
        controller_id: int,
        telemetry: Telemetry,
        clock: Clock,
        on_failed_over: Callable[[str, float], None] = lambda _reason, _took_s: None,
    ) -> None:
        """`on_failed_over` is told of each failover that is over: why it was, and how long it took."""
        self._on_failed_over = on_failed_over
        self._cluster_id = cluster_id
        self._controller_id = controller_id
        self._telemetry = telemetry
        self._clock = clock
        self._count = 0
        self._expected: OrderedDict[str, Loss] = OrderedDict()
        self._drained: dict[int, tuple[int, int]] = {}
        """The broker epoch with which each broker last asked to be drained, and when, in monotonic ms."""
        self._elected_at_us: dict[str, int] = {}
        self._unfinished: tuple[Unfinished, ...] = ()
        self._requests: dict[str, Request] = {}
        """By cause, until they are answered."""
        self._open: dict[str, list[ControlTrace]] = {}
        self.moves = MoveTraces(cluster_id, telemetry, clock)

    def expect(self, reason: str, broke_at_us: int, lost: tuple[tuple[int, int], ...] = ()) -> str:
        """The cause for an event that may turn out to be a failover once the core looks at it."""
        self._count += 1
        cause = f"{reason}-{self._count}"
        self._expected[cause] = Loss(reason, lost, broke_at_us, self._clock.wall_us())
        if len(self._expected) > _EXPECTED_MAX:
            self._expected.popitem(last=False)
        return cause

    def expect_takeover(self, before: ActiveController | None, broke_at_us: int) -> str:
        """The cause of a campaign; the very first election of a cluster takes nothing over."""
        if before is None:
            return ""
        znode = before.znode
        return self.expect(
            "controller_failover", broke_at_us, ((znode.controller_id, znode.controller_epoch),)
        )

    async def elected(
        self, cause: str, elected_at_us: int, snapshot: ev.Snapshot, store: ControllerStore
    ) -> None:
        """This controller was elected, and has read everything; Elected follows. Finds what the one before
        left undone, as far as ZooKeeper tells."""
        self._elected_at_us, self._unfinished = {cause: elected_at_us}, ()
        loss = self._expected.get(cause)
        if loss is None or not self._telemetry.enabled:
            return
        _, lost_epoch = loss.brokers[0]
        broke_at_ms = loss.broke_at_us // 1000
        try:
            incarnations = await store.read_incarnations()
        except ZooKeeperError as error:
            _log.warning("traces of the controller before are not looked for: %s", error)
            return
        writes = store.last_writes.values()
        self._unfinished = unfinished_work(
            self._cluster_id, snapshot, incarnations, writes, lost_epoch, broke_at_ms
        )

    def before(self, state: ClusterState, event: ev.Event) -> None:
        """The core is about to take this event: open a trace if somebody is lost by it."""
        self.moves.before(state, event)
        match event:
            case ev.BrokerProcessDied():
                lost = [event.broker_id] if _is_that_life(state, event.broker_id, event.broker_epoch) else []
            case ev.ControlledShutdownRequested():
                known = state.brokers.get(event.broker_id)
                lost = [] if known is None or known.broker_epoch != event.broker_epoch else [event.broker_id]
                if lost:
                    self._drained[event.broker_id] = event.broker_epoch, self._clock.monotonic_ms()
                if event.broker_id in state.shutting_down and not state.led_by.get(event.broker_id):
                    lost = []  # It asks once more whether it still leads anything, and follows on.
            case ev.BrokersChanged():
                standing = {broker.broker_id: broker.broker_epoch for broker in event.brokers}
                lost = [
                    broker.broker_id
                    for broker in state.live_brokers()
                    if standing.get(broker.broker_id) != broker.broker_epoch
                ]
            case ev.Elected():
                loss = self._expected.pop(event.cause, None)
                if loss is not None and state.role is Role.CAMPAIGNING:
                    self._begin_takeover(event.cause, loss, event.controller_epoch)
                return
            case ev.StoreCommitted() | ev.StoreRefused() | ev.StoreUnknown():
                for trace in self._all():
                    trace.multi_taken(event.store_id)
                return
            case ev.StatesRead():
                self.read_given_up(event.cause)
                return
            case _:
                return
        loss = self._expected.pop(event.cause, None)
        # A broker that led nothing and was in sync nowhere (it moved out in time) is no failover.
        lost = [b for b in lost if state.led_by.get(b) or state.in_sync_on.get(b)]
        if loss is None or not lost or state.role is not Role.ACTIVE or len(self._open) >= _OPEN_MAX:
            return
        first = state.brokers[lost[0]]
        # What is left of a drain when the broker's process ends is still the drain that began the trace.
        how, reason = (LEAVES, _DRAIN) if self._leaves(first) else (LOST, loss.reason)
        brokers = tuple((broker_id, state.brokers[broker_id].broker_epoch) for broker_id in lost)
        loss = Loss(reason, brokers, loss.broke_at_us, loss.noticed_at_us, first.incarnation)
        leaderless = [name for broker_id in lost for name in state.led_by.get(broker_id, ())]
        begun = self._still_electing(reason)
        if begun is not None:
            # What this one led is decided again when the multis of that one are stored, with their cause.
            begun.join(loss, leaderless)
        else:
            begun = FailoverTrace.begin(
                root_traceparent(span_kinds.FAILOVER, self._cluster_id, *broker_parts(first, how)),
                loss,
                state.controller_epoch,
                self._telemetry,
                self._clock,
                leaderless,
            )
        self._open[event.cause] = [begun]

    def _still_electing(self, reason: str) -> FailoverTrace | None:
        """The failover that one more loss belongs to, since its leaders are not stored yet."""
        if reason == _DRAIN:
            return None
        return next(
            (
                trace
                for trace in self._all()
                if isinstance(trace, FailoverTrace) and trace.is_electing and trace.loss.reason != _DRAIN
            ),
            None,
        )

    def _leaves(self, broker: ev.Broker) -> bool:
        broker_epoch, asked_ms = self._drained.get(broker.broker_id, (-1, 0))
        is_soon = self._clock.monotonic_ms() - asked_ms <= _LEAVES_WITHIN_MS
        return broker_epoch == broker.broker_epoch and is_soon

    def _begin_takeover(self, cause: str, loss: Loss, controller_epoch: int) -> None:
        """What is carried on comes first: its trace is what goes with the decisions that are made again."""
        _, lost_epoch = loss.brokers[0]
        unfinished, self._unfinished = self._unfinished, ()
        traces: list[ControlTrace] = [
            self._carried_on(work, loss, controller_epoch)
            for work in sorted(unfinished, key=lambda work: work.kind != span_kinds.FAILOVER)
        ]
        traces.append(
            TakeoverTrace.begin(
                root_traceparent(span_kinds.CONTROLLER_FAILOVER, self._cluster_id, lost_epoch),
                loss,
                self._controller_id,
                controller_epoch,
                self._telemetry,
                self._clock,
                self._elected_at_us.get(cause, 0),
            )
        )
        self._open[cause] = traces

    def _carried_on(self, work: Unfinished, loss: Loss, controller_epoch: int) -> ControlTrace:
        if work.kind == span_kinds.FAILOVER:
            lost = Loss(
                "controller_replaced",
                ((work.broker_id, -1),),
                loss.broke_at_us,
                loss.noticed_at_us,
                work.incarnation,
            )
            return FailoverTrace.carry_on(
                work.traceparent, lost, controller_epoch, self._telemetry, self._clock, work.led
            )
        return TopicTrace(
            work.kind,
            work.traceparent,
            loss.broke_at_us,
            self._telemetry,
            self._clock,
            topic=work.topic,
            topic_id=work.topic_id,
            partition_count=work.partition_count,
            carried_on=True,
        )

    # ---- requests

    def request(self, kind: str, method: str) -> str:
        """The cause for a request that may begin a trace of this kind. Call `answered` last."""
        if not self._telemetry.enabled:
            return ""
        self._count += 1
        cause = f"{kind}-{self._count}"
        self._requests[cause] = Request(kind, method, self._clock.wall_us(), current_traceparent())
        if kind == span_kinds.REASSIGNMENT:
            self.moves.requested(cause)
        return cause

    def answered(self, cause: str) -> None:
        """The request of this cause has its answer, or its caller waits no more."""
        request = self._requests.pop(cause, None)
        traces = self._open.get(cause, [])
        for trace in traces:
            trace.holds = 0
        traceparent = self.traceparent_of(cause)
        self.moves.answered(cause)
        if request is not None and request.caller:
            span = self._telemetry.span(
                span_kinds.REQUEST,
                parent=request.caller,
                start_time_us=request.began_us,
                attributes={
                    "method": request.method,
                    "trace_id": trace_id_of(traceparent),
                },
            )
            span.end()
        self.settle()

    def storing_topic(self, effect: StoreTopic) -> None:
        """The znodes of a topic that was asked for are about to be created."""
        request = self._requests.get(effect.cause)
        if request is not None and effect.cause not in self._open and len(self._open) < _OPEN_MAX:
            trace = self._topic_trace(request, effect.topic.name, effect.topic.topic_id)
            trace.storing_topic(effect)
            self._open[effect.cause] = [trace]

    def topic_stored(self, effect: StoreTopic, outcome: str) -> None:
        """Their fate."""
        for trace in self._of(effect.cause):
            if isinstance(trace, TopicTrace):
                trace.topic_stored(outcome)

    def _topic_trace(self, request: Request, topic: str, topic_id: str) -> TopicTrace:
        trace = TopicTrace(
            request.kind,
            root_traceparent(request.kind, self._cluster_id, topic_id),
            request.began_us,
            self._telemetry,
            self._clock,
            topic=topic,
            topic_id=topic_id,
        )
        trace.holds = 1
        return trace

    # ---- what follows from a cause

    def decided(self, event: ev.Event) -> None:
        """The core has taken the event."""
        for trace in self._of(getattr(event, "cause", "")):
            trace.decided()

    def traceparent_of(self, cause: str) -> str:
        """What goes into znodes and gRPC metadata; empty where the cause is not traced."""
        traces = self._open.get(cause)
        return traces[0].traceparent if traces else self.moves.traceparent_of(cause)

    def multi_submitted(self, effect: StoreLeaderAndIsr) -> None:
        """A multi is on its way."""
        for trace in self._of(effect.cause):
            trace.multi_submitted(effect)

    def multi_answered(self, effect: StoreLeaderAndIsr, outcome: str) -> None:
        """The fate of a multi is known. The trace may have ended meanwhile, by a resignation."""
        for trace in self._of(effect.cause):
            trace.multi_answered(effect, outcome)

    def writes_submitted(self, effect: StoreWrites) -> StoreWrites:
        """A multi with other writes than leaders is on its way; the same, as it goes to ZooKeeper."""
        effect = self.moves.marked(effect)
        request = self._requests.get(effect.cause)
        begins = effect.cause not in self._open and len(self._open) < _OPEN_MAX
        if request is not None and begins and (adopted := adopted_in(effect)) is not None:
            trace = self._topic_trace(request, adopted.topic_name, adopted.topic_id)
            self._open[effect.cause] = [trace]
        for each in self._of(effect.cause):
            each.writes_submitted(effect)
        return effect

    def writes_answered(self, effect: StoreWrites, outcome: str) -> None:
        """Its fate."""
        self.moves.stored(effect, outcome == ev.StoreCommitted.__name__)
        for trace in self._of(effect.cause):
            trace.writes_answered(effect.store_id, outcome)

    def reading(self, cause: str) -> None:
        """A read begins; it ends when the core takes what was read, or here where it is given up."""
        for trace in self._of(cause):
            trace.read_begun()

    def read_given_up(self, cause: str) -> None:
        """A read that nobody needs any more."""
        for trace in self._of(cause):
            trace.read_ended()

    def informing(self, effect: _Told) -> _Told:
        """A broker is about to be told; the same, as it is handed over."""
        by_move = self.moves.sends(effect)
        for trace in self._of(effect.cause):
            trace.sends(effect)
        if by_move and not self.traceparent_of(effect.cause):
            return replace(effect, cause=by_move)
        return effect

    def acknowledged(self, broker_id: int, sequence: int) -> None:
        """A broker has everything up to a sequence."""
        self.moves.acknowledged(broker_id, sequence)
        for trace in self._all():
            trace.acknowledged(broker_id, sequence)

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """A broker has acknowledged a LeaderAndISR with these decisions."""
        for trace in self._all():
            trace.obeyed(broker_id, decisions)

    def broker_gone(self, broker_id: int) -> None:
        """A broker is not live any more."""
        self.moves.broker_gone(broker_id)
        for trace in self._all():
            trace.broker_gone(broker_id)

    def settle(self) -> None:
        """End the traces that nothing is under way for, and those that have lasted too long."""
        self.moves.settle()
        now_ms = self._clock.monotonic_ms()
        for cause, traces in list(self._open.items()):
            for trace in traces:
                was_finished = trace.is_finished
                if trace.finish_if_done():
                    if not was_finished:
                        self._note_done(trace)
                elif now_ms - trace.began_ms > trace.patience_ms:
                    trace.finish()
            # A trace that goes first stays in its place until all of the cause are done.
            if all(trace.is_finished for trace in traces):
                del self._open[cause]

    def _note_done(self, trace: ControlTrace) -> None:
        if isinstance(trace, FailoverTrace | TakeoverTrace):
            took_us = self._clock.wall_us() - trace.loss.broke_at_us
            self._on_failed_over(trace.loss.reason, took_us / 1e6)

    def finish_all(self) -> None:
        """This controller is no longer active, or ends."""
        self.moves.finish_all()
        for trace in self._all():
            trace.finish()
        self._open.clear()

    def _of(self, cause: str) -> Iterator[ControlTrace]:
        return (trace for trace in self._open.get(cause, ()) if not trace.is_finished)

    def _all(self) -> Iterator[ControlTrace]:
        # Once each: brokers that were lost together are one trace by more than one cause.
        every = dict.fromkeys(trace for traces in self._open.values() for trace in traces)
        return (trace for trace in every if not trace.is_finished)


def _is_that_life(state: ClusterState, broker_id: int, broker_epoch: int) -> bool:
    return state.is_live(broker_id) and state.brokers[broker_id].broker_epoch == broker_epoch
