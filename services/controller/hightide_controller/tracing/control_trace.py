"""One trace of the controller's work for one cause: writes, reads, and messages to brokers.

The root's ids are computed from the subject of the trace (`trace_context.root_traceparent`), and all other
spans are its children. So a controller that continues the work of a dead one joins its trace, and no span
lacks its parent. `span_table` has the spans of each kind of traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hightide_runtime.telemetry.tracing import Attribute, Telemetry

from hightide_controller.core.effects import (
    Decision,
    Effect,
    LeaderAndIsrWrite,
    ReadStates,
    ReadTopics,
    SendLeaderAndIsr,
    SendStopReplica,
    StoreLeaderAndIsr,
    StoreTopic,
)
from hightide_controller.core.events import StoreCommitted
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.writes import StoreWrites, TopicRemoved
from hightide_controller.tracing.span_table import (
    AHEAD,
    DURATIONS,
    INFORMS,
    PAST,
    READS,
    WRITES,
    SpanOfMarks,
    TraceMark,
)

__all__ = ["SAMPLE", "ControlTrace", "Life", "sample_of"]

SAMPLE: Final = 10
"""A span names at most so many partitions, and counts all."""

Life = tuple[int, int]
"""A broker id and a broker epoch."""


def sample_of(names: Iterable[TopicPartition]) -> str:
    """The names of the first few partitions, as text for people."""
    return ", ".join(f"{name.topic}-{name.partition}" for name, _ in zip(names, range(SAMPLE), strict=False))


@dataclass(slots=True)
class _Write:
    """A write to ZooKeeper that is under way."""

    name: str
    began_us: int
    attributes: dict[str, Attribute]
    changes: tuple[LeaderAndIsrWrite, ...] = ()


class ControlTrace:
    """One trace, from its beginning until no work for it is under way. It belongs to the event loop's
    thread."""

    def __init__(
        self,
        kind: str,
        traceparent: str,
        marks: Mapping[TraceMark, int],
        telemetry: Telemetry,
        attributes: Mapping[str, Attribute],
        *,
        lost: tuple[Life, ...] = (),
        leaderless: Iterable[TopicPartition] = (),
        partition_count: int = 0,
        is_carried_on: bool = False,
    ) -> None:
        """`marks` are the moments that are known, in wall-clock microseconds. `lost` are the brokers of a
        failover, `leaderless` the partitions that they led. `partition_count` is that of the topic of the
        trace. A trace `is_carried_on` if another controller began it."""
        self.kind = kind
        self._telemetry = telemetry
        self._marks = dict(marks)
        self._attributes = dict(attributes)
        self._lost = lost
        self._partitions = partition_count
        self._is_carried_on = is_carried_on
        self._root = telemetry.root(kind, traceparent, start_time_us=marks[TraceMark.BEGAN])
        self.traceparent = self._root.traceparent
        self.is_awaited = False
        """Whether a request waits for it. Then it does not end, even if no work is under way."""
        self.is_finished = False
        self._leader_epoch = -1
        self._sample: list[LeaderAndIsrWrite] = []
        """The first decisions."""
        self._leaderless = set(leaderless) if telemetry.enabled else set[TopicPartition]()
        """The partitions that the lost brokers led and that no new leader has acknowledged yet."""
        self._writes: dict[int | str, _Write] = {}
        """The writes under way, by store id, or by the request's id for the znodes of a new topic
        (`_key_of`)."""
        self._reads_began_us: list[int] = []
        self._awaited: dict[Life, int] = {}
        """The last sequence that each broker must acknowledge."""
        self._worked_us: list[tuple[int, int]] = []
        """The stretches of time in which ZooKeeper worked. They may overlap."""
        if TraceMark.ELECTED in marks:
            self._worked_us.append((marks[TraceMark.NOTICED], marks[TraceMark.TOLD]))
        self._write_spans(PAST.get((kind, is_carried_on), ()), self._marks)

    @property
    def reason(self) -> str:
        """The reason for the failover; empty for other kinds of traces."""
        return str(self._attributes.get("reason", ""))

    @property
    def began_us(self) -> int:
        """The time of the failure, or of the request, in microseconds."""
        return self._marks[TraceMark.BEGAN]

    @property
    def is_electing(self) -> bool:
        """Whether ZooKeeper has not answered yet, or the core has not taken its answer yet."""
        return bool(self._writes or self._reads_began_us)

    def join(
        self,
        marks: Mapping[TraceMark, int],
        reason: str,
        lost: tuple[Life, ...],
        leaderless: Iterable[TopicPartition],
    ) -> None:
        """Add more lost brokers, before the new leaders for the first ones are stored. The rest is one
        trace."""
        self._lost += lost
        if self._telemetry.enabled:
            self._leaderless.update(leaderless)
        self._write_spans(PAST[self.kind, False], marks, reason=reason)

    # ---- the work for the trace

    def decided(self, at_us: int) -> None:
        """Note that the core has taken an event with the trace's cause."""
        self._marks.setdefault(TraceMark.DECIDED, at_us)

    def wants(self, effect: Effect, at_us: int) -> None:
        """Note an effect with the trace's cause. Its work begins now."""
        match effect:
            case StoreLeaderAndIsr() | StoreWrites() | StoreTopic():
                self._begin_write(effect, at_us)
            case ReadStates() | ReadTopics() if isinstance(effect, READS[self.kind]):
                self._reads_began_us.append(at_us)
            case SendLeaderAndIsr() | SendStopReplica() if isinstance(effect, INFORMS[self.kind]):
                self._marks.setdefault(TraceMark.SENT, at_us)
                self._awaited[effect.broker_id, effect.broker_epoch] = effect.sequence
            case _:
                pass

    def _begin_write(self, effect: StoreLeaderAndIsr | StoreWrites | StoreTopic, at_us: int) -> None:
        name = WRITES.get((self.kind, type(effect)))
        if name is None:
            return
        write = _Write(name, at_us, {})
        match effect:
            case StoreLeaderAndIsr(changes=changes):
                write.changes = changes
                if self._telemetry.enabled:
                    write.attributes["partition_count"] = len(changes)
                    write.attributes["partition_sample"] = sample_of(change.name for change in changes)
                    write.attributes["leader_epoch"] = max(each.decided.leader_epoch for each in changes)
            case StoreTopic(topic=topic):
                self._partitions = len(topic.assignment)
                write.attributes["topic"] = topic.name
            case StoreWrites(writes=writes):
                for each in writes:
                    if isinstance(each, TopicRemoved):
                        self._partitions = len(each.topic.assignment)
        self._writes[_key_of(effect)] = write

    def write_ended(self, key: int | str, outcome: str, at_us: int) -> None:
        """Note the outcome of a write, if it is one of this trace. The core repeats a refused write."""
        write = self._writes.pop(key, None)
        if write is None:
            return
        self._span(write.name, write.began_us, at_us, {**write.attributes, "outcome": outcome})
        self._marks[TraceMark.STORED] = at_us
        self._worked_us.append((write.began_us, at_us))
        if outcome == StoreCommitted.__name__ and write.changes:
            self._count(write)

    def writes_fenced(self, outcome: str, at_us: int) -> None:
        """Note that there is a newer controller, so that ZooKeeper refuses all writes that are under way."""
        for key in tuple(self._writes):
            self.write_ended(key, outcome, at_us)

    def _count(self, write: _Write) -> None:
        if self.reason:
            self._partitions += len(write.changes)
        self._sample += write.changes[: SAMPLE - len(self._sample)]
        epoch = write.attributes.get("leader_epoch", -1)
        assert isinstance(epoch, int)
        self._leader_epoch = max(self._leader_epoch, epoch)

    def read_ended(self, kind: type[ReadStates | ReadTopics], at_us: int) -> None:
        """Note that the core takes the result of a read of this kind."""
        if self._reads_began_us and kind is READS[self.kind]:
            self._worked_us.append((self._reads_began_us.pop(0), at_us))

    def acknowledged(self, life: Life, sequence: int, at_us: int) -> None:
        """Note that a broker has acknowledged everything up to a sequence."""
        if self._awaited.get(life, sequence + 1) <= sequence:
            del self._awaited[life]
            self._marks[TraceMark.INFORMED] = at_us

    def obeyed(self, broker_id: int, decisions: Iterable[Decision], at_us: int) -> None:
        """Note that a broker has acknowledged these decisions. The partitions that it leads by them have a
        leader now."""
        if not self._leaderless:
            return
        left = len(self._leaderless)
        self._leaderless.difference_update(each.name for each in decisions if each.state.leader == broker_id)
        if len(self._leaderless) < left:
            self._marks[TraceMark.LED] = at_us

    def forget_gone(self, is_live: Callable[[Life], bool]) -> None:
        """Stop waiting for brokers that are no longer live."""
        for life in [life for life in self._awaited if not is_live(life)]:
            del self._awaited[life]

    # ---- the end

    def finish_if_done(self, at_us: int) -> bool:
        """End the root if no work is under way. Returns whether it has ended."""
        if self.is_electing or self._awaited or self.is_awaited:
            return False
        self.finish(at_us)
        return True

    def finish(self, at_us: int) -> None:
        """End the root with all its attributes."""
        if self.is_finished:
            return
        self.is_finished = True
        for write in self._writes.values():
            self._span(write.name, write.began_us, at_us, write.attributes)
        marks = self._last_marks()
        self._attributes |= self._counted()
        self._write_spans(AHEAD.get(self.kind, ()), marks)
        for stretch in DURATIONS.get((self.kind, self._is_carried_on), ()):
            if stretch.ends in marks:
                self._attributes[stretch.name] = (marks[stretch.ends] - marks[stretch.begins]) / 1000
        for name, value in self._attributes.items():
            self._root.set(name, value)
        ends = [
            marks[mark] for mark in (TraceMark.STORED, TraceMark.SENT, TraceMark.INFORMED) if mark in marks
        ]
        self._root.end(max(ends, default=at_us))

    def _last_marks(self) -> dict[TraceMark, int]:
        """The moments for the spans. A step that a failover did not need ends with the step before."""
        marks = dict(self._marks)
        if self.reason:
            stored_us = marks.setdefault(
                TraceMark.STORED, marks.get(TraceMark.DECIDED, marks[TraceMark.TOLD])
            )
            # If brokers are informed, this begins at the first multi, while later ones may be under way.
            marks.setdefault(TraceMark.SENT, stored_us)
        if TraceMark.SENT in marks:
            marks[TraceMark.INFORMED] = max(marks.get(TraceMark.INFORMED, 0), marks[TraceMark.SENT])
        return marks

    def _counted(self) -> dict[str, Attribute]:
        names = [change.name for change in self._sample]
        if not self.reason and self._partitions:
            topic = str(self._attributes["topic"])
            names = [TopicPartition(topic, number) for number in range(min(SAMPLE, self._partitions))]
        counted: dict[str, Attribute] = {"partition_count": self._partitions}
        if self._is_carried_on:
            counted["carried_on"] = True
        if self._lost:
            counted["broker_ids"] = ",".join(str(broker_id) for broker_id, _ in self._lost)
            counted["broker_epochs"] = ",".join(str(broker_epoch) for _, broker_epoch in self._lost)
        if names:
            counted["partition_sample"] = sample_of(names)
        if self._sample:
            counted["leader_sample"] = "; ".join(
                f"{sample_of([each.name])}: {each.decided.leader} in {each.decided.leader_epoch}"
                for each in self._sample
            )
        if self._leader_epoch >= 0:
            counted["leader_epoch"] = self._leader_epoch
        if self.reason:
            counted["zookeeper_ms"] = _covered_us(self._worked_us) / 1000
        return counted

    def _write_spans(
        self, stretches: Iterable[SpanOfMarks], marks: Mapping[TraceMark, int], **attributes: Attribute
    ) -> None:
        known = self._attributes | attributes
        for stretch in stretches:
            if stretch.begins in marks and stretch.ends in marks:
                shared = {name: known[name] for name in stretch.attributes}
                self._span(stretch.name, marks[stretch.begins], marks[stretch.ends], shared)

    def _span(self, name: str, from_us: int, to_us: int, attributes: Mapping[str, Attribute]) -> None:
        span = self._telemetry.span(
            name, parent=self.traceparent, start_time_us=from_us, attributes=attributes
        )
        span.end(to_us)


def _key_of(effect: StoreLeaderAndIsr | StoreWrites | StoreTopic) -> int | str:
    return f"request {effect.request_id}" if isinstance(effect, StoreTopic) else effect.store_id


def _covered_us(stretches: Iterable[tuple[int, int]]) -> int:
    """The time that the stretches cover together, in microseconds."""
    covered_us = until_us = 0
    for from_us, to_us in sorted(stretches):
        covered_us += max(0, to_us - max(from_us, until_us))
        until_us = max(until_us, to_us)
    return covered_us
