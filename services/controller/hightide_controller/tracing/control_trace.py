"""What one cause has the controller do, as spans below one root: multis, reads, brokers that are told.

The root's ids follow from what the trace is about (`trace_context.root_traceparent`), and everything hangs
right below it. So a controller that carries on what a dead one began joins its trace, and nothing is
orphaned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry.span_kinds import ZOOKEEPER_MULTI
from hightide_runtime.telemetry.tracing import Attribute, Span, Telemetry

from hightide_controller.core.effects import Decision, SendLeaderAndIsr, SendStopReplica, StoreLeaderAndIsr
from hightide_controller.core.events import StoreCommitted
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.writes import StoreWrites

__all__ = ["SAMPLE", "ControlTrace", "sample_of"]

SAMPLE: Final = 10
"""Partitions that a span names; it counts the others."""
PATIENCE_MS: Final = 30_000
"""After so long a trace ends, whatever is under way."""


def sample_of(names: Iterable[TopicPartition]) -> str:
    """The first few of some partitions, for people to read."""
    return ", ".join(f"{name.topic}-{name.partition}" for name, _ in zip(names, range(SAMPLE), strict=False))


class ControlTrace:
    """One trace, from its beginning until nothing is under way for it. For the event loop's thread."""

    patience_ms = PATIENCE_MS

    def __init__(
        self,
        kind: str,
        traceparent: str,
        began_us: int,
        telemetry: Telemetry,
        clock: Clock,
        *,
        carried_on: bool,
    ) -> None:
        self.kind = kind
        self._telemetry = telemetry
        self._clock = clock
        self._root = telemetry.root(kind, traceparent, start_time_us=began_us)
        if carried_on:
            self._root.set("carried_on", True)
        self.traceparent = self._root.traceparent
        self.began_ms = clock.monotonic_ms()
        self.is_awaited = False
        """Whether a request waits for it, so that it goes on though nothing is under way."""
        self.is_finished = False
        self._stored_at_us = 0
        self._informed_at_us = 0
        self._fan_out_began_us = 0
        self._partitions = 0
        self._leader_epoch = -1
        self._sample: list[TopicPartition] = []
        self._leaders: list[str] = []
        """What was decided for these."""
        self._multis: dict[int, Span] = {}
        self._untaken: set[int] = set()
        """Multis whose fate the core has not taken yet: until then, nobody can say what follows."""
        self._awaited: dict[int, int] = {}
        """Broker id to the sequence whose acknowledgement ends its part."""
        self._reads = 0

    def span(self, name: str, from_us: int, to_us: int, **attributes: Attribute) -> None:
        """A step that has ended."""
        span = self._telemetry.span(
            name, parent=self.traceparent, start_time_us=from_us, attributes=attributes
        )
        span.end(to_us)

    def decided(self) -> None:
        """The core has said what it wants; from here on ZooKeeper works."""

    # ---- ZooKeeper

    def multi_submitted(self, effect: StoreLeaderAndIsr) -> None:
        """A multi with decisions about leaders is on its way."""
        span = self._telemetry.span(ZOOKEEPER_MULTI, parent=self.traceparent)
        if self._telemetry.enabled:
            span.set("partition_count", len(effect.changes))
            span.set("partition_sample", sample_of(change.name for change in effect.changes))
            span.set("leader_epoch", max(change.decided.leader_epoch for change in effect.changes))
        self._multis[effect.store_id] = span
        self._zookeeper_works()

    def multi_answered(self, effect: StoreLeaderAndIsr, outcome: str) -> None:
        """The fate of a multi; what came back is written again, in another one."""
        self._multi_ended(effect.store_id, outcome)
        if outcome == StoreCommitted.__name__:
            self._count(effect)

    def writes_submitted(self, effect: StoreWrites) -> None:
        """A multi with other writes is on its way."""

    def writes_answered(self, store_id: int, outcome: str) -> None:
        """Its fate."""

    def _multi_ended(self, store_id: int, outcome: str) -> None:
        span = self._multis.pop(store_id, None)
        if span is None:
            return
        self._untaken.add(store_id)
        span.set("outcome", outcome)
        span.end()
        self._stored_at_us = self._clock.wall_us()
        self._zookeeper_rests()

    def multi_taken(self, store_id: int) -> None:
        """The core is about to take the fate of a multi; what follows from it is seen before the end is."""
        self._untaken.discard(store_id)

    def read_begun(self) -> None:
        """A read of ZooKeeper is on its way."""
        self._reads += 1
        self._zookeeper_works()

    def read_ended(self) -> None:
        """The core takes what was read, or nobody needs it any more."""
        self._reads = max(0, self._reads - 1)
        self._zookeeper_rests()

    def _zookeeper_works(self) -> None:
        """Something is under way there."""

    def _zookeeper_rests(self) -> None:
        """Something there has ended."""

    def _count(self, effect: StoreLeaderAndIsr) -> None:
        self._partitions += len(effect.changes)
        for change in effect.changes[: max(0, SAMPLE - len(self._sample))]:
            decided = change.decided
            self._sample.append(change.name)
            self._leaders.append(f"{sample_of([change.name])}: {decided.leader} in {decided.leader_epoch}")
        if self._telemetry.enabled:
            epochs = (change.decided.leader_epoch for change in effect.changes)
            self._leader_epoch = max(self._leader_epoch, *epochs)

    # ---- brokers

    def sends(self, effect: SendLeaderAndIsr | SendStopReplica) -> None:
        """Something is about to be sent to a broker."""
        if isinstance(effect, SendLeaderAndIsr):
            self.informing(effect.broker_id, effect.sequence)

    def informing(self, broker_id: int, sequence: int) -> None:
        """A decision waits to be sent to a broker."""
        self._fan_out_began_us = self._fan_out_began_us or self._clock.wall_us()
        self._awaited[broker_id] = sequence

    def acknowledged(self, broker_id: int, sequence: int) -> None:
        """A broker has everything up to a sequence."""
        if self._awaited.get(broker_id, sequence + 1) <= sequence:
            del self._awaited[broker_id]
            self._informed_at_us = self._clock.wall_us()

    def obeyed(self, broker_id: int, decisions: Iterable[Decision]) -> None:
        """A broker has acknowledged these decisions."""

    def broker_gone(self, broker_id: int) -> None:
        """Nobody waits for this one any more."""
        self._awaited.pop(broker_id, None)

    # ---- the end

    def finish_if_done(self) -> bool:
        """End the root once nothing is under way for it."""
        if self._multis or self._untaken or self._awaited or self._reads or self.is_awaited:
            return False
        self.finish()
        return True

    def finish(self) -> None:
        """End the root, with what people ask for."""
        if self.is_finished:
            return
        self.is_finished = True
        for span in self._multis.values():
            span.end()
        root = self._root
        root.set("partition_count", self._partitions)
        if self._sample:
            root.set("partition_sample", sample_of(self._sample))
            root.set("leader_sample", "; ".join(self._leaders))
        if self._leader_epoch >= 0:
            root.set("leader_epoch", self._leader_epoch)
        root.end(self._finishing(root))

    def _finishing(self, root: Span) -> int:
        """Add what this kind of trace knows; when the root ends, in us."""
        return max(self._informed_at_us, self._stored_at_us, self._fan_out_began_us) or self._clock.wall_us()

    def set_brokers(self, brokers: Sequence[tuple[int, int]]) -> None:
        """The brokers that it is about, with their epochs."""
        self._root.set("broker_ids", ",".join(str(broker_id) for broker_id, _ in brokers))
        self._root.set("broker_epochs", ",".join(str(broker_epoch) for _, broker_epoch in brokers))
