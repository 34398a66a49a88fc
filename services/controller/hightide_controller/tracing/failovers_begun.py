"""Begins the traces of failovers: finds the brokers that an event loses, and the work that a takeover
continues.

The shell reports a failure with its time (`expect`) before it is known whether a broker is lost by it. This
shows when the core is about to take the event, from the core's state of the brokers.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.trace_context import root_traceparent
from hightide_runtime.telemetry.tracing import Attribute, Telemetry
from hightide_runtime.zookeeper.session import ZooKeeperError

from hightide_controller.core import events as ev
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.tracing.causes import CauseNames
from hightide_controller.tracing.control_trace import ControlTrace
from hightide_controller.tracing.open_traces import OpenTraces
from hightide_controller.tracing.span_table import TraceMark
from hightide_controller.zookeeper.store import ActiveController, ControllerStore
from hightide_controller.zookeeper.unfinished_work import (
    LEAVES,
    LOST,
    UnfinishedTrace,
    broker_parts,
    unfinished_work,
)

__all__ = ["FailoverTraces"]

_log = logging.getLogger(__name__)

_EXPECTED_MAX: Final = 1_000
_DRAIN: Final = "controlled_shutdown"
_PAUSED: Final = "pings_unanswered"
_LEAVES_WITHIN_MS: Final = 10_000
"""If a broker ends within this time after its request for a drain, its end belongs to the drain."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """A failure that the shell has noticed. Times are wall-clock microseconds."""

    reason: str
    """process_died, pings_unanswered, session_ended, controlled_shutdown or controller_failover."""
    broke_at_us: int
    noticed_at_us: int
    controller: tuple[int, int] | None
    """The id and the epoch of the lost controller; None if no controller is lost."""

    def marks(self, told_us: int) -> dict[TraceMark, int]:
        """The moments with which the trace begins, if the core takes the event at `told_us`."""
        return {
            TraceMark.BEGAN: self.broke_at_us,
            TraceMark.NOTICED: self.noticed_at_us,
            TraceMark.TOLD: told_us,
        }


@dataclass(frozen=True, slots=True)
class _Drain:
    """The last request of a broker for a drain: its registration, and the time in monotonic milliseconds."""

    broker_epoch: int
    asked_ms: int


@dataclass(frozen=True, slots=True)
class _Election:
    """An election that this controller has won, before the core takes Elected."""

    cause: str
    elected_at_us: int
    unfinished: tuple[UnfinishedTrace, ...]


class FailoverTraces:
    """Begins and ends the traces of failovers. One for each shell, on the event loop's thread."""

    def __init__(
        self,
        cluster_id: str,
        controller_id: int,
        telemetry: Telemetry,
        clock: Clock,
        causes: CauseNames,
        open_traces: OpenTraces,
        on_failed_over: Callable[[str, float], None],
    ) -> None:
        """`on_failed_over` is called after each failover with its reason and its duration in seconds."""
        self._cluster_id = cluster_id
        self._controller_id = controller_id
        self._telemetry = telemetry
        self._clock = clock
        self._causes = causes
        self._open = open_traces
        self._on_failed_over = on_failed_over
        self._expected: OrderedDict[str, _Loss] = OrderedDict()
        """The noticed failures by cause, until the core takes their events."""
        self._drains: dict[int, _Drain] = {}
        self._won: _Election | None = None

    # ---- failures that the shell notices

    def expect(self, reason: str, broke_at_us: int, controller: tuple[int, int] | None = None) -> str:
        """The cause for an event that may be a failover. `broke_at_us` is the wall-clock time of the failure.
        `controller` is the lost controller with its epoch, if one is lost."""
        cause = self._causes.new(reason)
        self._expected[cause] = _Loss(reason, broke_at_us, self._clock.wall_us(), controller)
        if len(self._expected) > _EXPECTED_MAX:
            self._expected.popitem(last=False)
        return cause

    def expect_takeover(self, before: ActiveController | None, broke_at_us: int) -> str:
        """The cause of a campaign; empty for the first election of a cluster, which is no takeover."""
        if before is None:
            return ""
        znode = before.znode
        lost = znode.controller_id, znode.controller_epoch
        return self.expect("controller_failover", broke_at_us, lost)

    async def elected(
        self, cause: str, elected_at_us: int, snapshot: ev.ClusterSnapshot, store: ControllerStore
    ) -> None:
        """Find the unfinished work of the controller before, as far as ZooKeeper shows it. Called when this
        controller was elected and has read everything, before Elected."""
        self._won = _Election(cause, elected_at_us, await self._unfinished(cause, snapshot, store))

    async def _unfinished(
        self, cause: str, snapshot: ev.ClusterSnapshot, store: ControllerStore
    ) -> tuple[UnfinishedTrace, ...]:
        loss = self._expected.get(cause)
        if loss is None or loss.controller is None or not self._telemetry.enabled:
            return ()
        try:
            incarnations = await store.read_incarnations()
        except ZooKeeperError as error:
            _log.warning("traces of the controller before are not looked for: %s", error)
            return ()
        _, lost_epoch = loss.controller
        return unfinished_work(
            self._cluster_id,
            snapshot,
            incarnations,
            store.last_writes.values(),
            lost_epoch,
            loss.broke_at_us // 1000,
        )

    # ---- events

    def before(self, state: ClusterState, event: ev.Event, at_us: int) -> None:
        """Begin a trace if this event loses a broker or the controller. Called before the core takes the
        event."""
        match event:
            case ev.BrokerProcessDied() | ev.ControlledShutdownRequested() | ev.BrokersChanged():
                if isinstance(event, ev.ControlledShutdownRequested):
                    self._note_drain(state, event)
                loss = self._expected.pop(event.cause, None)
                if loss is not None and state.role is Role.ACTIVE:
                    self._fail_over(state, event.cause, loss, _lost_by(state, event), at_us)
            case ev.Elected():
                loss = self._expected.pop(event.cause, None)
                if loss is not None and state.role is Role.CAMPAIGNING:
                    self._take_over(event, loss, at_us)
            case _:
                pass

    def over(self, ended: Iterable[ControlTrace], at_us: int) -> None:
        """Report the failovers among these traces, which have ended."""
        for trace in ended:
            if trace.reason:
                self._on_failed_over(trace.reason, (at_us - trace.began_us) / 1e6)

    # ---- brokers

    def _note_drain(self, state: ClusterState, event: ev.ControlledShutdownRequested) -> None:
        if _is_registered(state, event.broker_id, event.broker_epoch):
            self._drains[event.broker_id] = _Drain(event.broker_epoch, self._clock.monotonic_ms())

    def _leaves(self, broker: ev.Broker) -> bool:
        drain = self._drains.get(broker.broker_id)
        return (
            drain is not None
            and drain.broker_epoch == broker.broker_epoch
            and self._clock.monotonic_ms() - drain.asked_ms <= _LEAVES_WITHIN_MS
        )

    def _fail_over(self, state: ClusterState, cause: str, loss: _Loss, lost: list[int], at_us: int) -> None:
        # The loss of a broker that led no partition and was in no ISR, as after a drain, is no failover.
        lost = [each for each in lost if state.led_by.get(each) or state.in_sync_on.get(each)]
        if not lost or self._open.is_full:
            return
        first = state.brokers[lost[0]]
        # The end of a broker during its drain belongs to the trace of the drain.
        how, reason = (LEAVES, _DRAIN) if self._leaves(first) else (LOST, loss.reason)
        lives = tuple((broker_id, state.brokers[broker_id].broker_epoch) for broker_id in lost)
        leaderless = [name for broker_id in lost for name in state.led_by.get(broker_id, ())]
        trace = self._still_electing(reason)
        if trace is not None:
            # The partitions of this broker are decided with the earlier cause, when its multis are stored.
            trace.join(loss.marks(at_us), reason, lives, leaderless)
        else:
            parts = broker_parts(first, how)
            if reason == _PAUSED:
                # A life that was only paused may be lost again, which is another failover.
                parts = (*parts, loss.broke_at_us)
            trace = ControlTrace(
                span_kinds.FAILOVER,
                root_traceparent(span_kinds.FAILOVER, self._cluster_id, *parts),
                loss.marks(at_us),
                self._telemetry,
                _attributes(reason, state.controller_epoch, first.incarnation),
                lost=lives,
                leaderless=leaderless,
            )
        self._open.add(cause, trace)

    def _still_electing(self, reason: str) -> ControlTrace | None:
        """The failover to which one more loss belongs, because its leaders are not stored yet; None for a
        drain."""
        if reason == _DRAIN:
            return None
        failovers = (trace for trace in self._open if trace.kind == span_kinds.FAILOVER)
        return next((each for each in failovers if each.is_electing and each.reason != _DRAIN), None)

    # ---- controllers

    def _take_over(self, event: ev.Elected, loss: _Loss, at_us: int) -> None:
        """Begin the trace of the takeover, and continue those of the controller before. The continued ones
        come first, so that repeated decisions carry their traceparents."""
        won, self._won = self._won, None
        if won is None or won.cause != event.cause:
            won = _Election(event.cause, 0, ())
        assert loss.controller is not None
        lost_id, lost_epoch = loss.controller
        elected_us = min(max(won.elected_at_us or at_us, loss.noticed_at_us), at_us)
        takeover = ControlTrace(
            span_kinds.CONTROLLER_FAILOVER,
            root_traceparent(span_kinds.CONTROLLER_FAILOVER, self._cluster_id, lost_epoch),
            {**loss.marks(at_us), TraceMark.ELECTED: elected_us},
            self._telemetry,
            {
                **_attributes(loss.reason, event.controller_epoch),
                "controller_id": self._controller_id,
                "lost_controller_id": lost_id,
                "lost_controller_epoch": lost_epoch,
            },
        )
        failovers_first = sorted(won.unfinished, key=lambda work: work.kind != span_kinds.FAILOVER)
        marks = loss.marks(at_us)
        carried_on = [self._carry_on(work, marks, event.controller_epoch) for work in failovers_first]
        self._open.add(event.cause, *carried_on, takeover)

    def _carry_on(
        self, work: UnfinishedTrace, marks: dict[TraceMark, int], controller_epoch: int
    ) -> ControlTrace:
        """Continue the trace of work that the controller before had begun, or should have begun. `marks` are
        those of its loss."""
        attributes: dict[str, Attribute] = {"topic": work.topic, "topic_id": work.topic_id}
        if work.kind == span_kinds.FAILOVER:
            attributes = _attributes("controller_replaced", controller_epoch, work.incarnation)
        return ControlTrace(
            work.kind,
            work.traceparent,
            marks,
            self._telemetry,
            attributes,
            lost=((work.broker_id, -1),) if work.kind == span_kinds.FAILOVER else (),
            leaderless=work.led,
            partition_count=work.partition_count,
            is_carried_on=True,
        )


def _attributes(reason: str, controller_epoch: int, incarnation: int = -1) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"reason": reason, "controller_epoch": controller_epoch}
    return attributes if incarnation < 0 else {**attributes, "incarnation": incarnation}


def _lost_by(
    state: ClusterState, event: ev.BrokerProcessDied | ev.ControlledShutdownRequested | ev.BrokersChanged
) -> list[int]:
    """The ids of the brokers that this event loses."""
    match event:
        case ev.BrokerProcessDied():
            is_live = state.is_live(event.broker_id)
            is_it = is_live and _is_registered(state, event.broker_id, event.broker_epoch)
            return [event.broker_id] if is_it else []
        case ev.ControlledShutdownRequested():
            if event.broker_id in state.shutting_down and not state.led_by.get(event.broker_id):
                return []  # It only asks whether it still leads a partition.
            is_it = _is_registered(state, event.broker_id, event.broker_epoch)
            return [event.broker_id] if is_it else []
        case ev.BrokersChanged():
            standing = {broker.broker_id: broker.broker_epoch for broker in event.brokers}
            return [
                broker.broker_id
                for broker in state.live_brokers()
                if standing.get(broker.broker_id) != broker.broker_epoch
            ]


def _is_registered(state: ClusterState, broker_id: int, broker_epoch: int) -> bool:
    known = state.brokers.get(broker_id)
    return known is not None and known.broker_epoch == broker_epoch
