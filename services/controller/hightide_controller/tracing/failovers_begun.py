"""When a trace of a failover begins: who is lost by an event, and what a takeover carries on.

The shell says what it has noticed, and when it broke (`expect`), before it knows whether anybody is lost by
it: that shows when the core is about to take the event, by what it knows of the brokers.
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
_LEAVES_WITHIN_MS: Final = 10_000
"""So long after a broker has asked to be drained, its end is part of that: it is how a broker stops."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """What the shell has noticed. Times are wall-clock, in us."""

    reason: str
    """process_died, session_ended, controlled_shutdown or controller_failover."""
    broke_at_us: int
    noticed_at_us: int
    controller: tuple[int, int] | None
    """The id and the epoch of the controller that is lost, where one is."""

    def marks(self, told_us: int) -> dict[TraceMark, int]:
        """With which a trace begins whose core is told then."""
        return {
            TraceMark.BEGAN: self.broke_at_us,
            TraceMark.NOTICED: self.noticed_at_us,
            TraceMark.TOLD: told_us,
        }


@dataclass(frozen=True, slots=True)
class _Drain:
    """That a registration of a broker has asked to be drained, and when it last did, in monotonic ms."""

    broker_epoch: int
    asked_ms: int


@dataclass(frozen=True, slots=True)
class _Election:
    """One that this controller has won, and of which the core is about to be told."""

    cause: str
    elected_at_us: int
    unfinished: tuple[UnfinishedTrace, ...]


class FailoverTraces:
    """One for each shell; belongs to the event loop's thread."""

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
        """`on_failed_over` is told of each failover that is over: why it was, and how long it took."""
        self._cluster_id = cluster_id
        self._controller_id = controller_id
        self._telemetry = telemetry
        self._clock = clock
        self._causes = causes
        self._open = open_traces
        self._on_failed_over = on_failed_over
        self._expected: OrderedDict[str, _Loss] = OrderedDict()
        """By cause, until the core is about to take the event."""
        self._drains: dict[int, _Drain] = {}
        self._won: _Election | None = None

    # ---- what the shell notices

    def expect(self, reason: str, broke_at_us: int, controller: tuple[int, int] | None = None) -> str:
        """The cause for an event that may turn out to be a failover once the core looks at it. `controller`:
        the one that is lost, and its epoch, where one is."""
        cause = self._causes.new(reason)
        self._expected[cause] = _Loss(reason, broke_at_us, self._clock.wall_us(), controller)
        if len(self._expected) > _EXPECTED_MAX:
            self._expected.popitem(last=False)
        return cause

    def expect_takeover(self, before: ActiveController | None, broke_at_us: int) -> str:
        """The cause of a campaign; the very first election of a cluster takes nothing over."""
        if before is None:
            return ""
        znode = before.znode
        lost = znode.controller_id, znode.controller_epoch
        return self.expect("controller_failover", broke_at_us, lost)

    async def elected(
        self, cause: str, elected_at_us: int, snapshot: ev.ClusterSnapshot, store: ControllerStore
    ) -> None:
        """This controller was elected, and has read everything; Elected follows. Finds what the one before
        left undone, as far as ZooKeeper tells."""
        self._won = _Election(cause, elected_at_us, await self._left_undone(cause, snapshot, store))

    async def _left_undone(
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

    # ---- what the core is about to take

    def before(self, state: ClusterState, event: ev.Event, at_us: int) -> None:
        """The core is about to take this event: open a trace if somebody is lost by it."""
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
        """Nothing is under way any more for these traces."""
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
        # A broker that led nothing and was in sync nowhere (it moved out in time) is no failover.
        lost = [each for each in lost if state.led_by.get(each) or state.in_sync_on.get(each)]
        if not lost or self._open.is_full:
            return
        first = state.brokers[lost[0]]
        # What is left of a drain when the broker's process ends is still the drain that began the trace.
        how, reason = (LEAVES, _DRAIN) if self._leaves(first) else (LOST, loss.reason)
        lives = tuple((broker_id, state.brokers[broker_id].broker_epoch) for broker_id in lost)
        leaderless = [name for broker_id in lost for name in state.led_by.get(broker_id, ())]
        trace = self._still_electing(reason)
        if trace is not None:
            # What this one led is decided again when the multis of that one are stored, with their cause.
            trace.join(loss.marks(at_us), reason, lives, leaderless)
        else:
            trace = ControlTrace(
                span_kinds.FAILOVER,
                root_traceparent(span_kinds.FAILOVER, self._cluster_id, *broker_parts(first, how)),
                loss.marks(at_us),
                self._telemetry,
                _attributes(reason, state.controller_epoch, first.incarnation),
                lost=lives,
                leaderless=leaderless,
            )
        self._open.add(cause, trace)

    def _still_electing(self, reason: str) -> ControlTrace | None:
        """The failover that one more loss belongs to, since its leaders are not stored yet."""
        if reason == _DRAIN:
            return None
        failovers = (trace for trace in self._open if trace.kind == span_kinds.FAILOVER)
        return next((each for each in failovers if each.is_electing and each.reason != _DRAIN), None)

    # ---- controllers

    def _take_over(self, event: ev.Elected, loss: _Loss, at_us: int) -> None:
        """What is carried on comes first: its trace is what goes with the decisions that are made again. It
        was elected, and has read everything, before there was a state to begin a trace with."""
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
        """Join the trace of what the controller before had in hand, or had yet to begin. `marks`: of its own
        loss."""
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
    told: dict[str, Attribute] = {"reason": reason, "controller_epoch": controller_epoch}
    return told if incarnation < 0 else {**told, "incarnation": incarnation}


def _lost_by(
    state: ClusterState, event: ev.BrokerProcessDied | ev.ControlledShutdownRequested | ev.BrokersChanged
) -> list[int]:
    """The brokers that leave, or have left, by this event."""
    match event:
        case ev.BrokerProcessDied():
            is_live = state.is_live(event.broker_id)
            is_it = is_live and _is_registered(state, event.broker_id, event.broker_epoch)
            return [event.broker_id] if is_it else []
        case ev.ControlledShutdownRequested():
            if event.broker_id in state.shutting_down and not state.led_by.get(event.broker_id):
                return []  # It asks once more whether it still leads anything, and follows on.
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
