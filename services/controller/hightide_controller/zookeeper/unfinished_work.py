"""What a controller that was lost had in hand, found in ZooKeeper by the one that takes over.

A trace's ids follow from what it is about, so that the new controller joins it without having been told: the
failover of a broker that still leads, or whose replacements were decided in the last moments; a topic without
leaders; a deletion that was begun. It is about traces alone: what is to be done, the core finds out by
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hightide_runtime.telemetry.span_kinds import FAILOVER, TOPIC_CREATION, TOPIC_DELETION
from hightide_runtime.telemetry.trace_context import root_traceparent, trace_id_of

from hightide_controller.core.events import Broker, Snapshot
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition

__all__ = ["LEAVES", "LOST", "RECENT_MS", "LastWrite", "Unfinished", "broker_parts", "unfinished_work"]

LOST: Final = "lost"
LEAVES: Final = "leaves"
"""How a registration of a broker loses what it leads: by its end, or since it asked for that. It may do the
one hours after the other, so that they are not one trace."""

RECENT_MS: Final = 5_000
"""Decisions that were written so long before the controller broke may not have been told to everybody. What
is older was: a failover takes a fraction of it."""
_KIND_MAX: Final = 10
_REGISTRATIONS_TRIED: Final = 4
"""How many registrations of one life are tried for the one that was lost."""


@dataclass(frozen=True, slots=True)
class LastWrite:
    """That a leaderAndISR was written under a traceparent: by the controller of which epoch, and when."""

    traceparent: str
    controller_epoch: int
    written_at_ms: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One trace to carry on."""

    kind: str
    traceparent: str
    broker_id: int = -1
    incarnation: int = -1
    topic: str = ""
    topic_id: str = ""
    partition_count: int = 0
    led: tuple[TopicPartition, ...] = ()
    """What the lost broker still leads, by what was read."""


def broker_parts(broker: Broker, how: str) -> tuple[str | int, ...]:
    """What the trace of this broker's failover is about; `how`: LOST or LEAVES. A broker that does not tell
    its incarnation has none that could be found by another controller."""
    if broker.incarnation < 0:
        return broker.broker_id, "epoch", broker.broker_epoch, how
    return broker.broker_id, broker.incarnation, broker.registered_before, how


def unfinished_work(
    cluster_id: str,
    snapshot: Snapshot,
    incarnations: Mapping[int, int],
    last_writes: Iterable[LastWrite],
    lost_epoch: int,
    broke_at_ms: int,
) -> tuple[Unfinished, ...]:
    """All that can be told. `incarnations`: of brokers that are registered or not, as last counted."""
    recent = {
        trace_id_of(write.traceparent)
        for write in last_writes
        if write.controller_epoch == lost_epoch and write.written_at_ms >= broke_at_ms - RECENT_MS
    }
    found = [
        *_failovers(cluster_id, snapshot, incarnations, recent),
        *_topics(cluster_id, snapshot, recent),
    ]
    return tuple(found)


def _failovers(
    cluster_id: str, snapshot: Snapshot, incarnations: Mapping[int, int], recent: set[str]
) -> Iterator[Unfinished]:
    registered = {broker.broker_id for broker in snapshot.brokers}
    led: dict[int, list[TopicPartition]] = {}
    for name, state in snapshot.states.items():
        if state.leader != NO_LEADER and state.leader not in registered:
            led.setdefault(state.leader, []).append(name)
    for broker_id in sorted(incarnations)[:1_000]:
        last = incarnations[broker_id]
        # One that is back by now is in its next life, or registered once more.
        lives = [(life, again) for life in (last, last - 1) for again in range(_REGISTRATIONS_TRIED)]
        tried = [(*life, how) for life in lives for how in (LOST, LEAVES)]
        for incarnation, again, how in tried:
            traceparent = root_traceparent(FAILOVER, cluster_id, broker_id, incarnation, again, how)
            if trace_id_of(traceparent) in recent:
                lost = tuple(led.pop(broker_id, ()))
                yield Unfinished(FAILOVER, traceparent, broker_id, incarnation, led=lost)
                break
        else:
            if broker_id in led:
                traceparent = root_traceparent(FAILOVER, cluster_id, broker_id, last, 0, LOST)
                yield Unfinished(FAILOVER, traceparent, broker_id, last, led=tuple(led[broker_id]))


def _topics(cluster_id: str, snapshot: Snapshot, recent: set[str]) -> Iterator[Unfinished]:
    created = deleted = 0
    for topic in snapshot.topics:
        if topic.is_bare or created >= _KIND_MAX:
            continue
        count = len(topic.assignment)
        traceparent = root_traceparent(TOPIC_CREATION, cluster_id, topic.topic_id)
        is_new = TopicPartition(topic.name, 0) not in snapshot.states
        if is_new or (recent and trace_id_of(traceparent) in recent):
            created += 1
            yield Unfinished(
                TOPIC_CREATION, traceparent, topic=topic.name, topic_id=topic.topic_id, partition_count=count
            )
    for name, znode in snapshot.admin.deletions.items():
        if znode is not None and znode.topic_id and deleted < _KIND_MAX:
            deleted += 1
            traceparent = root_traceparent(TOPIC_DELETION, cluster_id, znode.topic_id)
            yield Unfinished(TOPIC_DELETION, traceparent, topic=name, topic_id=znode.topic_id)
