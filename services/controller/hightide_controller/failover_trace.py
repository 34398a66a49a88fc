"""One failover as one trace: the steps of V3's "End-to-end latency during a broker failure" as spans.

The spans of steps 1 to 4 are the controller's; brokers add 5 and 6 below `inform_broker`, whose
context travels in gRPC metadata, and in the znodes. The root carries the durations that people ask for:

    detect_ms     from the break until the core was told
    elect_ms      from there until the last new decision stood in ZooKeeper
    zookeeper_ms  of that, the time in which a read or a write of ZooKeeper was under way
    fan_out_ms    from the first decision that was sent until every live broker has acknowledged
    all_led_ms    from detection until all that the lost broker led has a leader that has acknowledged
    takeover_ms   of a controller: from detection until every live broker has acknowledged
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hightide_runtime import telemetry
from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import Span, Telemetry

from hightide_controller.core.effects import Decision, StoreLeaderAndIsr
from hightide_controller.core.events import StoreCommitted
from hightide_controller.core.partition import TopicPartition

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
    leaderless: set[TopicPartition] = field(default_factory=set)
    """What the lost brokers led, until a new leader has acknowledged that it leads it."""
    led_at_us: int = 0
    zookeeper_us: int = 0
    zookeeper_since_us: int = 0
    """Since when a request to ZooKeeper is under way; 0 while none is."""
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
        cls,
        cause: str,
        loss: Loss,
        controller_epoch: int,
        telemetry_: Telemetry,
        clock: Clock,
        leaderless: Iterable[TopicPartition] = (),
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
        if takeover:
            # It was elected, and has read everything, before there was a state to begin a trace with.
            trace.elect_began_us, trace.zookeeper_us = loss.noticed_at_us, now_us - loss.noticed_at_us
        elif telemetry_.enabled:
            trace.leaderless.update(leaderless)
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
        self._zookeeper_works()

    def multi_answered(self, effect: StoreLeaderAndIsr, outcome: str) -> None:
        """The fate of a multi; what came back is written again, in another one."""
        span = self.multis.pop(effect.store_id)
        self.untaken.add(effect.store_id)
        span.set("outcome", outcome)
        span.end()
        self.stored_at_us = self.clock.wall_us()
        self._zookeeper_rests()
        if outcome == StoreCommitted.__name__:
            self._count(effect)

    def read_begun(self) -> None:
        """A read of ZooKeeper is on its way."""
        self.reads += 1
        self._zookeeper_works()

    def read_ended(self) -> None:
        """The core takes what was read, or nobody needs it any more."""
        self.reads -= 1
        self._zookeeper_rests()

    def _zookeeper_works(self) -> None:
        self.zookeeper_since_us = self.zookeeper_since_us or self.clock.wall_us()

    def _zookeeper_rests(self) -> None:
        if not self.multis and not self.reads and self.zookeeper_since_us:
            self.zookeeper_us += self.clock.wall_us() - self.zookeeper_since_us
            self.zookeeper_since_us = 0

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

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """A broker has acknowledged these decisions; those that it leads by are led now."""
        if not self.leaderless:
            return
        left = len(self.leaderless)
        self.leaderless.difference_update(
            TopicPartition(each.topic, each.partition) for each in decisions if each.leader == broker_id
        )
        if len(self.leaderless) < left:
            self.led_at_us = self.clock.wall_us()

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
        stored_at = self.stored_at_us or self.elected_at_us or self.elect_began_us
        began = self.fan_out_began_us or stored_at
        informed_at = max(self.informed_at_us, began)
        if self.leadership is not None:
            self.leadership.set("partition_count", self.partitions)
            self.leadership.end(stored_at)
        root = self.root
        root.set("partition_count", self.partitions)
        root.set("partition_sample", "; ".join(self.sample))
        root.set("detect_ms", (self.elect_began_us - self.loss.broke_at_us) / 1000)
        root.set("elect_ms", (stored_at - self.elect_began_us) / 1000)
        root.set("zookeeper_ms", self.zookeeper_us / 1000)
        # Brokers hear of the first multi while later ones are still under way.
        root.set("fan_out_ms", (informed_at - began) / 1000)
        if self.led_at_us:
            root.set("all_led_ms", (self.led_at_us - self.elect_began_us) / 1000)
        if self.loss.reason == "controller_failover":
            root.set("takeover_ms", (informed_at - self.elect_began_us) / 1000)
        root.end(max(informed_at, stored_at))
