"""One failover as one trace: the steps of V3's "End-to-end latency during a broker failure" as spans.

The spans of steps 1 to 4 are the controller's; brokers add 5 and 6 below `failover.inform_broker`, whose
context travels in gRPC metadata, and in the znodes. The root carries detect_ms, elect_ms, zookeeper_ms and
fan_out_ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hightide_runtime import telemetry
from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import Span, Telemetry

from hightide_controller.core.effects import StoreLeaderAndIsr
from hightide_controller.core.events import StoreCommitted

__all__ = ["FailoverTrace", "Loss"]

_SAMPLE: Final = 10


@dataclass(frozen=True, slots=True)
class Loss:
    """What a failover begins with. Times are wall-clock, in us."""

    reason: str
    """process_died, session_ended, bounced, controlled_shutdown or controller_failover."""
    brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each broker lost; of the controller, where it is one."""
    broke_at_us: int
    noticed_at_us: int


@dataclass(slots=True)
class FailoverTrace:
    """The spans of one failover, from detection until every live broker has acknowledged."""

    cause: str
    clock: Clock
    telemetry: Telemetry
    loss: Loss
    root: Span
    leadership: Span | None = None
    elect_began_us: int = 0
    elected_at_us: int = 0
    stored_at_us: int = 0
    informed_at_us: int = 0
    fan_out_began_us: int = 0
    partitions: int = 0
    sample: list[str] = field(default_factory=list)
    multis: dict[int, Span] = field(default_factory=dict)
    untaken: set[int] = field(default_factory=set)
    """Multis whose fate the core has not taken yet: until then, nobody can say what follows."""
    awaited: dict[int, int] = field(default_factory=dict)
    """Broker id to the sequence whose acknowledgement ends its part."""
    reads: int = 0
    is_finished: bool = False

    @classmethod
    def begin(
        cls, cause: str, loss: Loss, controller_epoch: int, telemetry_: Telemetry, clock: Clock
    ) -> FailoverTrace:
        """Open the root where the loss began, with steps 1 and 2 behind it already."""
        takeover = loss.reason == "controller_failover"
        name = telemetry.CONTROLLER_FAILOVER if takeover else telemetry.FAILOVER
        root = telemetry_.span(name, parent="", start_time_us=loss.broke_at_us)
        root.set("reason", loss.reason)
        root.set("controller_epoch", controller_epoch)
        root.set("broker_ids", ",".join(str(broker_id) for broker_id, _ in loss.brokers))
        root.set("broker_epochs", ",".join(str(broker_epoch) for _, broker_epoch in loss.brokers))
        now_us = clock.wall_us()
        for step, began_us, ended_us in (
            (telemetry.BROKER_DOWN, loss.broke_at_us, loss.noticed_at_us),
            (telemetry.BROKER_WATCHER_TRIGGERED, loss.noticed_at_us, now_us),
        ):
            span = telemetry_.span(step, parent=root.traceparent, start_time_us=began_us)
            span.end(ended_us)
        trace = cls(cause, clock, telemetry_, loss, root, elect_began_us=now_us)
        trace.leadership = telemetry_.span(telemetry.LEADERSHIP_CHANGE, parent=root.traceparent)
        return trace

    @property
    def traceparent(self) -> str:
        """The leadership change, as it stands in the znodes."""
        return self.root.traceparent if self.leadership is None else self.leadership.traceparent

    def decided(self) -> None:
        """The core has said what it wants; from here on ZooKeeper works."""
        self.elected_at_us = self.elected_at_us or self.clock.wall_us()

    def multi_submitted(self, effect: StoreLeaderAndIsr) -> None:
        """A multi is on its way."""
        span = self.telemetry.span(telemetry.ZOOKEEPER_MULTI, parent=self.traceparent)
        span.set("partition_count", len(effect.changes))
        self.multis[effect.store_id] = span

    def multi_answered(self, effect: StoreLeaderAndIsr, outcome: str) -> None:
        """The fate of a multi; what came back is written again, in another one."""
        span = self.multis.pop(effect.store_id)
        self.untaken.add(effect.store_id)
        span.set("outcome", outcome)
        span.end()
        self.stored_at_us = self.clock.wall_us()
        if outcome == StoreCommitted.__name__:
            self._count(effect)

    def _count(self, effect: StoreLeaderAndIsr) -> None:
        self.partitions += len(effect.changes)
        for change in effect.changes[: max(0, _SAMPLE - len(self.sample))]:
            decided = change.decided
            self.sample.append(
                f"{change.name.topic}-{change.name.partition} leader {decided.leader} "
                f"epoch {decided.leader_epoch}"
            )

    def multi_taken(self, store_id: int) -> None:
        """The core is about to take the fate of a multi; what follows from it is seen before the end is."""
        self.untaken.discard(store_id)

    def informing(self, broker_id: int, sequence: int) -> None:
        """A decision waits to be sent to a broker."""
        self.fan_out_began_us = self.fan_out_began_us or self.clock.wall_us()
        self.awaited[broker_id] = sequence

    def acknowledged(self, broker_id: int, sequence: int) -> None:
        """A broker has everything up to a sequence."""
        if self.awaited.get(broker_id, sequence + 1) <= sequence:
            del self.awaited[broker_id]
            self.informed_at_us = self.clock.wall_us()

    def broker_gone(self, broker_id: int) -> None:
        """Nobody waits for this one any more."""
        self.awaited.pop(broker_id, None)

    def finish_if_done(self) -> bool:
        """End the root once nothing is under way for it."""
        if self.multis or self.untaken or self.awaited or self.reads:
            return False
        self.finish()
        return True

    def finish(self) -> None:
        """End the root, with the durations that people ask for."""
        if self.is_finished:
            return
        self.is_finished = True
        for span in self.multis.values():
            span.end()
        decided_at = self.elected_at_us or self.elect_began_us
        stored_at = self.stored_at_us or decided_at
        began = self.fan_out_began_us or stored_at
        informed_at = max(self.informed_at_us, began)
        if self.leadership is not None:
            self.leadership.set("partition_count", self.partitions)
            self.leadership.end(stored_at)
        root = self.root
        root.set("partition_count", self.partitions)
        root.set("partition_sample", "; ".join(self.sample))
        root.set("detect_ms", (self.elect_began_us - self.loss.broke_at_us) / 1000)
        root.set("elect_ms", (decided_at - self.elect_began_us) / 1000)
        root.set("zookeeper_ms", (stored_at - decided_at) / 1000)
        # Brokers hear of the first multi while later ones are still under way.
        root.set("fan_out_ms", (informed_at - began) / 1000)
        root.end(max(informed_at, stored_at))
