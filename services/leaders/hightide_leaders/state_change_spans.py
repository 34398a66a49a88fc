"""The life of state changes as spans (V2: "the whole life of a state change can be monitored"): requested by
one broker, received and completed by another one. What one write puts into queues is one trace, which the
znodes in the queues name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hightide_runtime.telemetry.span_kinds import (
    STATE_CHANGE,
    STATE_CHANGE_COMPLETED,
    STATE_CHANGE_RECEIVED,
)
from hightide_runtime.telemetry.tracing import Attribute, Span, Telemetry
from msgspec import structs

from hightide_leaders.core.effects import Write
from hightide_leaders.core.values import QueuedChange, StateChange
from hightide_leaders.core.writes import Dequeue, Enqueue, Operations

SAMPLE = 10


class StateChangeSpans:
    """The spans of one broker; none if it does not trace."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._obeying: dict[str, tuple[Span, set[str]]] = {}
        """By the znode in the own queue: the span that ends when all of these znodes are gone."""

    def requested(self, write: Write) -> tuple[Write, Span]:
        """A write that names its trace in what it puts into queues; the caller ends the span with the
        write."""
        sent = [each for each in write.everything if isinstance(each, Enqueue)]
        if not sent or not self._telemetry.enabled:
            return write, Span(None)
        told = ", ".join(map(str, sorted({each.broker_id for each in sent})))
        attributes = {**_attributes([each.change for each in sent]), "broker_ids": told}
        span = self._telemetry.span(STATE_CHANGE, parent="", attributes=attributes)

        def named(operations: Operations) -> Operations:
            return tuple(
                structs.replace(each, change=replace(each.change, traceparent=span.traceparent))
                if isinstance(each, Enqueue)
                else each
                for each in operations
            )

        return write.edited(named), span

    def received(self, queue: Iterable[QueuedChange]) -> None:
        """The own queue was read."""
        new: dict[str, list[tuple[str, StateChange]]] = {}
        for znode, change in queue:
            if change is not None and change.traceparent and znode not in self._obeying:
                new.setdefault(change.traceparent, []).append((znode, change))
        for parent, changes in new.items():
            attributes = _attributes([change for _, change in changes])
            self._telemetry.span(STATE_CHANGE_RECEIVED, parent=parent, attributes=attributes).end()
            completed = self._telemetry.span(STATE_CHANGE_COMPLETED, parent=parent, attributes=attributes)
            remaining = {znode for znode, _ in changes}
            self._obeying |= dict.fromkeys(remaining, (completed, remaining))

    def written(self, operations: Operations) -> None:
        """A write has happened: what it took out of the own queue is completed."""
        for each in operations:
            if isinstance(each, Dequeue) and each.znode in self._obeying:
                span, remaining = self._obeying.pop(each.znode)
                remaining.discard(each.znode)
                if not remaining:
                    span.end()


def _attributes(changes: Sequence[StateChange]) -> dict[str, Attribute]:
    names = dict.fromkeys(f"{each.name.topic}-{each.name.partition}" for each in changes if each.topic_id)
    return {
        "state_changes": ", ".join(sorted({each.kind.value for each in changes})),
        "partition_count": len(names),
        "partition_sample": ", ".join([*names][:SAMPLE]),
        "leader_epoch": max(each.epoch for each in changes),
    }
