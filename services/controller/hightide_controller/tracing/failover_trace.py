"""A failover of a broker, or of a controller, as one trace. Of a broker, its spans are the steps of V3's
"End-to-end latency during a broker failure".

The spans of steps 1 to 4 are the controller's; brokers add 5 and 6 below `inform_broker`, whose context
travels in gRPC metadata, and in the znodes. The root carries the durations that people ask for:

    detect_ms     from the break until the core was told
    elect_ms      from there until the last new decision stood in ZooKeeper
    zookeeper_ms  of that, the time in which a read or a write of ZooKeeper was under way
    fan_out_ms    from the first decision that was sent until every live broker has acknowledged
    all_led_ms    from detection until all that the lost broker led has a leader that has acknowledged
    takeover_ms   of a controller: from detection until every live broker has acknowledged
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Span, Telemetry

from hightide_controller.core.effects import Decision
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.tracing.control_trace import ControlTrace

__all__ = ["FailoverTrace", "Loss", "LossTrace", "TakeoverTrace"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What a failover begins with. Times are wall-clock, in us."""

    reason: str
    """process_died, session_ended, controlled_shutdown or controller_failover."""
    brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each broker lost; of the controller, where it is one."""
    broke_at_us: int
    noticed_at_us: int
    incarnation: int = -1
    """Which life of the broker's process it was; -1: not told."""


class LossTrace(ControlTrace):
    """A trace that began with a loss: it knows how long it took to elect, and how much of that ZooKeeper
    did."""

    def __init__(
        self,
        kind: str,
        traceparent: str,
        loss: Loss,
        controller_epoch: int,
        telemetry: Telemetry,
        clock: Clock,
        *,
        carried_on: bool = False,
    ) -> None:
        super().__init__(kind, traceparent, loss.broke_at_us, telemetry, clock, carried_on=carried_on)
        self.loss = loss
        self._is_carried_on = carried_on
        self._root.set("reason", loss.reason)
        self._root.set("controller_epoch", controller_epoch)
        self._elect_began_us = clock.wall_us()
        self._elected_at_us = 0
        self._zookeeper_us = 0
        self._zookeeper_since_us = 0
        """Since when a request to ZooKeeper is under way; 0 while none is."""

    def decided(self) -> None:
        """The core has said what it wants; from here on ZooKeeper works."""
        self._elected_at_us = self._elected_at_us or self._clock.wall_us()

    def _zookeeper_works(self) -> None:
        self._zookeeper_since_us = self._zookeeper_since_us or self._clock.wall_us()

    def _zookeeper_rests(self) -> None:
        if not self._multis and not self._reads and self._zookeeper_since_us:
            self._zookeeper_us += self._clock.wall_us() - self._zookeeper_since_us
            self._zookeeper_since_us = 0

    @property
    def _all_stored_us(self) -> int:
        return self._stored_at_us or self._elected_at_us or self._elect_began_us

    def _finishing(self, root: Span) -> int:
        stored_us = self._all_stored_us
        # Brokers hear of the first multi while later ones are still under way.
        began_us = self._fan_out_began_us or stored_us
        informed_us = max(self._informed_at_us, began_us)
        root.set("zookeeper_ms", self._zookeeper_us / 1000)
        root.set("fan_out_ms", (informed_us - began_us) / 1000)
        if not self._is_carried_on:
            # What the one that was lost knows better, its own root says, if it came to that.
            root.set("detect_ms", (self._elect_began_us - self.loss.broke_at_us) / 1000)
            root.set("elect_ms", (stored_us - self._elect_began_us) / 1000)
        return max(informed_us, stored_us)


class FailoverTrace(LossTrace):
    """The spans of one failover of a broker, from detection until every live broker has acknowledged."""

    def __init__(
        self,
        traceparent: str,
        loss: Loss,
        controller_epoch: int,
        telemetry: Telemetry,
        clock: Clock,
        leaderless: Iterable[TopicPartition],
        *,
        carried_on: bool,
    ) -> None:
        """For `begin` and `carry_on`. `leaderless`: what the lost brokers led."""
        super().__init__(
            span_kinds.FAILOVER, traceparent, loss, controller_epoch, telemetry, clock, carried_on=carried_on
        )
        self.set_brokers(loss.brokers)
        if loss.incarnation >= 0:
            self._root.set("incarnation", loss.incarnation)
        self._leaderless = set(leaderless) if telemetry.enabled else set[TopicPartition]()
        """What the lost brokers led, until a new leader has acknowledged that it leads it."""
        self._led_at_us = 0
        self._leadership = telemetry.span(span_kinds.LEADERSHIP_CHANGE, parent=self.traceparent)
        self._leadership.set("controller_epoch", controller_epoch)

    @classmethod
    def begin(
        cls,
        traceparent: str,
        loss: Loss,
        controller_epoch: int,
        telemetry: Telemetry,
        clock: Clock,
        leaderless: Iterable[TopicPartition] = (),
    ) -> FailoverTrace:
        """Open the root where the loss began, with steps 1 and 2 behind it already."""
        trace = cls(traceparent, loss, controller_epoch, telemetry, clock, leaderless, carried_on=False)
        trace._steps_to_act(loss, trace._elect_began_us)
        return trace

    @classmethod
    def carry_on(
        cls,
        traceparent: str,
        loss: Loss,
        controller_epoch: int,
        telemetry: Telemetry,
        clock: Clock,
        leaderless: Iterable[TopicPartition] = (),
    ) -> FailoverTrace:
        """Join the trace of a failover that the controller before had in hand, or had yet to begin.

        `loss`: of the broker, at the times of the controller's own.
        """
        trace = cls(traceparent, loss, controller_epoch, telemetry, clock, leaderless, carried_on=True)
        trace.span(span_kinds.CONTROLLER_REPLACED, loss.broke_at_us, trace._elect_began_us)
        return trace

    @property
    def is_electing(self) -> bool:
        """Whether ZooKeeper has yet to answer, or the core to take its answer."""
        return bool(self._multis or self._untaken or self._reads)

    def join(self, loss: Loss, leaderless: Iterable[TopicPartition]) -> None:
        """More brokers are lost before the leaders of the first ones are stored: what follows is one."""
        self.loss = replace(self.loss, brokers=(*self.loss.brokers, *loss.brokers))
        self.set_brokers(self.loss.brokers)
        if self._telemetry.enabled:
            self._leaderless.update(leaderless)
        self._steps_to_act(loss, self._clock.wall_us())

    def _steps_to_act(self, loss: Loss, now_us: int) -> None:
        """Steps 1 and 2, which are behind it already."""
        self.span(span_kinds.BROKER_DOWN, loss.broke_at_us, loss.noticed_at_us, reason=loss.reason)
        self.span(span_kinds.BROKER_WATCHER_TRIGGERED, loss.noticed_at_us, now_us)

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """A broker has acknowledged these decisions; those that it leads by are led now."""
        if not self._leaderless:
            return
        left = len(self._leaderless)
        self._leaderless.difference_update(
            TopicPartition(each.topic, each.partition) for each in decisions if each.leader == broker_id
        )
        if len(self._leaderless) < left:
            self._led_at_us = self._clock.wall_us()

    def _finishing(self, root: Span) -> int:
        self._leadership.set("partition_count", self._partitions)
        self._leadership.end(self._all_stored_us)
        if self._led_at_us:
            root.set("all_led_ms", (self._led_at_us - self._elect_began_us) / 1000)
        return super()._finishing(root)


class TakeoverTrace(LossTrace):
    """The spans of one takeover by this controller, until every live broker has acknowledged."""

    def __init__(
        self,
        traceparent: str,
        loss: Loss,
        controller_id: int,
        controller_epoch: int,
        telemetry: Telemetry,
        clock: Clock,
        elected_at_us: int = 0,
    ) -> None:
        """It was elected, and has read everything, before there was a state to begin a trace with: the root
        opens where the loss began, with these steps behind it already."""
        super().__init__(
            span_kinds.CONTROLLER_FAILOVER, traceparent, loss, controller_epoch, telemetry, clock
        )
        self._loaded_at_us = now_us = self._elect_began_us
        noticed_us = loss.noticed_at_us
        self._root.set("controller_id", controller_id)
        for lost_id, lost_epoch in loss.brokers:
            self._root.set("lost_controller_id", lost_id)
            self._root.set("lost_controller_epoch", lost_epoch)
        elected_us = min(max(elected_at_us or now_us, noticed_us), now_us)
        self.span(span_kinds.CONTROLLER_DETECTION, loss.broke_at_us, noticed_us)
        self.span(span_kinds.CONTROLLER_ELECTION, noticed_us, elected_us)
        self.span(span_kinds.CONTROLLER_LOAD, elected_us, now_us)
        self._elect_began_us, self._zookeeper_us = noticed_us, now_us - noticed_us

    def _finishing(self, root: Span) -> int:
        stored_us = max(self._all_stored_us, self._loaded_at_us)
        self.span(
            span_kinds.CONTROLLER_ADOPT, self._loaded_at_us, stored_us, partition_count=self._partitions
        )
        began_us = self._fan_out_began_us or stored_us
        informed_us = max(self._informed_at_us, began_us)
        self.span(span_kinds.CONTROLLER_FAN_OUT, began_us, informed_us)
        root.set("takeover_ms", (informed_us - self._elect_began_us) / 1000)
        return super()._finishing(root)
