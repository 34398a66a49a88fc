"""Which failovers are under way, and which event, multi and acknowledgement belongs to which of them.

A cause is a short text that events carry in and effects carry out of the core; here it leads to a trace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import Telemetry

from hightide_controller.core import events as ev
from hightide_controller.core.cluster_state import ClusterState, Role
from hightide_controller.core.effects import Decision, SendLeaderAndIsr, StoreLeaderAndIsr
from hightide_controller.core.partition import TopicPartition
from hightide_controller.failover_trace import FailoverTrace, Loss
from hightide_controller.store import ActiveController

__all__ = ["FailoverTraces"]

_EXPECTED_MAX: Final = 1_000
_OPEN_MAX: Final = 100
_PATIENCE_MS: Final = 30_000


class FailoverTraces:
    """One for each shell."""

    def __init__(self, telemetry: Telemetry, clock: Clock) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._count = 0
        self._expected: OrderedDict[str, Loss] = OrderedDict()
        self._open: dict[str, FailoverTrace] = {}
        self._began_ms: dict[str, int] = {}

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

    def before(self, state: ClusterState, event: ev.Event) -> None:
        """The core is about to take this event: open a trace if somebody is lost by it."""
        match event:
            case ev.BrokerProcessDied():
                lost = [event.broker_id] if _is_that_life(state, event.broker_id, event.broker_epoch) else []
            case ev.ControlledShutdownRequested():
                known = state.brokers.get(event.broker_id)
                lost = [] if known is None or known.broker_epoch != event.broker_epoch else [event.broker_id]
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
                    self._begin(event.cause, loss, event.controller_epoch)
                return
            case ev.StoreCommitted() | ev.StoreRefused() | ev.StoreUnknown():
                for trace in self._open.values():
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
        if loss is None or not lost or state.role is not Role.ACTIVE:
            return
        brokers = tuple((broker_id, state.brokers[broker_id].broker_epoch) for broker_id in lost)
        self._begin(
            event.cause,
            Loss(loss.reason, brokers, loss.broke_at_us, loss.noticed_at_us),
            state.controller_epoch,
            [name for broker_id in lost for name in state.led_by.get(broker_id, ())],
        )

    def _begin(
        self, cause: str, loss: Loss, controller_epoch: int, leaderless: Iterable[TopicPartition] = ()
    ) -> None:
        if len(self._open) >= _OPEN_MAX:
            return
        trace = FailoverTrace.begin(cause, loss, controller_epoch, self._telemetry, self._clock, leaderless)
        self._open[cause] = trace
        self._began_ms[cause] = self._clock.monotonic_ms()

    def decided(self, event: ev.Event) -> None:
        """The core has taken the event."""
        trace = self._open.get(getattr(event, "cause", ""))
        if trace is not None:
            trace.decided()

    def traceparent_of(self, cause: str) -> str:
        """What goes into znodes and gRPC metadata; empty where the cause is not traced."""
        trace = self._open.get(cause)
        return "" if trace is None else trace.traceparent

    def multi_submitted(self, effect: StoreLeaderAndIsr) -> None:
        """A multi is on its way."""
        trace = self._open.get(effect.cause)
        if trace is not None:
            trace.multi_submitted(effect)

    def multi_answered(self, effect: StoreLeaderAndIsr, outcome: str) -> None:
        """The fate of a multi is known. The trace may have ended meanwhile, by a resignation."""
        trace = self._open.get(effect.cause)
        if trace is not None:
            trace.multi_answered(effect, outcome)

    def reading(self, cause: str) -> None:
        """A read begins; it ends when the core takes what was read, or here where it is given up."""
        trace = self._open.get(cause)
        if trace is not None:
            trace.read_begun()

    def read_given_up(self, cause: str) -> None:
        """A read that nobody needs any more."""
        trace = self._open.get(cause)
        if trace is not None:
            trace.read_ended()

    def informing(self, effect: SendLeaderAndIsr) -> None:
        """A broker is about to be told."""
        trace = self._open.get(effect.cause)
        if trace is not None:
            trace.informing(effect.broker_id, effect.sequence)

    def acknowledged(self, broker_id: int, sequence: int) -> None:
        """A broker has everything up to a sequence."""
        for trace in self._open.values():
            trace.acknowledged(broker_id, sequence)

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """A broker has acknowledged a LeaderAndISR with these decisions."""
        for trace in self._open.values():
            trace.obeyed(broker_id, decisions)

    def broker_gone(self, broker_id: int) -> None:
        """A broker is not live any more."""
        for trace in self._open.values():
            trace.broker_gone(broker_id)

    def settle(self) -> None:
        """End the traces that nothing is under way for, and those that have lasted too long."""
        now_ms = self._clock.monotonic_ms()
        for cause, trace in list(self._open.items()):
            if trace.finish_if_done() or now_ms - self._began_ms[cause] > _PATIENCE_MS:
                trace.finish()
                del self._open[cause], self._began_ms[cause]

    def finish_all(self) -> None:
        """This controller is no longer active, or ends."""
        for trace in self._open.values():
            trace.finish()
        self._open.clear()
        self._began_ms.clear()


def _is_that_life(state: ClusterState, broker_id: int, broker_epoch: int) -> bool:
    return state.is_live(broker_id) and state.brokers[broker_id].broker_epoch == broker_epoch
