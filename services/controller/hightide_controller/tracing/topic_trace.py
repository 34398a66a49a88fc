"""The creation of a topic, or its deletion, as one trace: until the brokers have acknowledged.

topic_creation  the topic's znodes → first leaders in ZooKeeper → LeaderAndISR → leaders acknowledged
topic_deletion  the intent, the partitions' znodes, the topic's → StopReplica → replicas stopped
"""

from __future__ import annotations

from hightide_runtime.clock import Clock
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Span, Telemetry

from hightide_controller.core.effects import SendLeaderAndIsr, SendStopReplica, StoreTopic
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.writes import StoreWrites, TopicRemoved
from hightide_controller.tracing.control_trace import SAMPLE, ControlTrace, sample_of

__all__ = ["TopicTrace"]


class TopicTrace(ControlTrace):
    """The spans of one topic's creation or deletion."""

    def __init__(
        self,
        kind: str,
        traceparent: str,
        began_us: int,
        telemetry: Telemetry,
        clock: Clock,
        *,
        topic: str,
        topic_id: str,
        partition_count: int = 0,
        carried_on: bool = False,
    ) -> None:
        super().__init__(kind, traceparent, began_us, telemetry, clock, carried_on=carried_on)
        self._topic = topic
        self._root.set("topic", topic)
        self._root.set("topic_id", topic_id)
        self._partitions_told = partition_count
        self._znodes: Span | None = None

    def storing_topic(self, effect: StoreTopic) -> None:
        """The multi that creates the topic's znodes is on its way."""
        self._partitions_told = len(effect.topic.assignment)
        self._znodes = self._telemetry.span(span_kinds.TOPIC_ZNODES, parent=self.traceparent)
        self._znodes.set("topic", effect.topic.name)

    def topic_stored(self, outcome: str) -> None:
        """Its fate."""
        if self._znodes is not None:
            self._znodes.set("outcome", outcome)
            self._znodes.end()
            self._stored_at_us = self._clock.wall_us()

    def writes_submitted(self, effect: StoreWrites) -> None:
        """A multi that takes znodes away is on its way."""
        if self.kind != span_kinds.TOPIC_DELETION:
            return
        span = self._telemetry.span(span_kinds.DELETION_ZNODES, parent=self.traceparent)
        for write in effect.writes:
            if isinstance(write, TopicRemoved):
                self._partitions_told = len(write.topic.assignment)
        self._multis[effect.store_id] = span

    def writes_answered(self, store_id: int, outcome: str) -> None:
        """Its fate."""
        self._multi_ended(store_id, outcome)

    def sends(self, effect: SendLeaderAndIsr | SendStopReplica) -> None:
        """Something is about to be sent to a broker."""
        is_deletion = self.kind == span_kinds.TOPIC_DELETION
        if isinstance(effect, SendStopReplica) is is_deletion:
            self.informing(effect.broker_id, effect.sequence)

    def _finishing(self, root: Span) -> int:
        root.set("partition_count", self._partitions_told)
        names = [TopicPartition(self._topic, number) for number in range(min(SAMPLE, self._partitions_told))]
        if names:
            root.set("partition_sample", sample_of(names))
        if self.kind == span_kinds.TOPIC_DELETION and self._fan_out_began_us:
            ended_us = max(self._informed_at_us, self._fan_out_began_us)
            self.span(span_kinds.DELETION_STOP, self._fan_out_began_us, ended_us)
        return super()._finishing(root)
