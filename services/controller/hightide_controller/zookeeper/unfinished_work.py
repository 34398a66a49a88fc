"""The unfinished work of a lost controller, which the next one finds in ZooKeeper.

A trace's ids follow from its subject, so the new controller can join it without further information. There
are traces of the failover of a broker that still leads, or whose replacements were decided in the last
moments; of a topic without leaders; and of a deletion that was begun. This module is about traces only: the
core finds out by itself what has to be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hightide_runtime.telemetry.span_kinds import FAILOVER, TOPIC_CREATION, TOPIC_DELETION
from hightide_runtime.telemetry.trace_context import root_traceparent, trace_id_of

from hightide_controller.core.events import Broker, ClusterSnapshot
from hightide_controller.core.values.partition import NO_LEADER, TopicPartition

__all__ = ["LEAVES", "LOST", "RECENT_MS", "LastWrite", "UnfinishedTrace", "broker_parts", "unfinished_work"]

LOST: Final = "lost"
LEAVES: Final = "leaves"
"""The two ways in which a registration of a broker loses its leaderships: its end, or the broker's request.
One may follow the other hours later, so they are separate traces."""

RECENT_MS: Final = 5_000
"""Decisions that were written so shortly before the controller's end may not have reached all brokers. Older
ones have: a failover takes a fraction of this time."""
_KIND_MAX: Final = 10
_REGISTRATIONS_TRIED: Final = 4
"""How many registrations of one life are tried to find the lost one."""


@dataclass(frozen=True, slots=True)
class LastWrite:
    """A leaderAndISR write under a traceparent: the epoch of its controller, and its time."""

    traceparent: str
    controller_epoch: int
    written_at_ms: int


@dataclass(frozen=True, slots=True)
class UnfinishedTrace:
    """One trace to continue."""

    kind: str
    traceparent: str
    broker_id: int = -1
    incarnation: int = -1
    topic: str = ""
    topic_id: str = ""
    partition_count: int = 0
    led: tuple[TopicPartition, ...] = ()
    """The partitions that the lost broker still leads, by what was read."""


def broker_parts(broker: Broker, how: str) -> tuple[str | int, ...]:
    """The subject of the trace of this broker's failover; `how`: LOST or LEAVES. Another controller cannot
    find the trace of a broker that does not report its incarnation."""
    if broker.incarnation < 0:
        return broker.broker_id, "epoch", broker.broker_epoch, how
    return broker.broker_id, broker.incarnation, broker.registered_before, how


def unfinished_work(
    cluster_id: str,
    snapshot: ClusterSnapshot,
    incarnations: Mapping[int, int],
    last_writes: Iterable[LastWrite],
    lost_epoch: int,
    broke_at_ms: int,
) -> tuple[UnfinishedTrace, ...]:
    """All unfinished work that can be found. `incarnations`: of registered and other brokers, as last
    counted."""
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
    cluster_id: str, snapshot: ClusterSnapshot, incarnations: Mapping[int, int], recent: set[str]
) -> Iterator[UnfinishedTrace]:
    registered = {broker.broker_id for broker in snapshot.brokers}
    led: dict[int, list[TopicPartition]] = {}
    for name, state in snapshot.states.items():
        if state.leader != NO_LEADER and state.leader not in registered:
            led.setdefault(state.leader, []).append(name)
    for broker_id in sorted(incarnations)[:1_000]:
        last = incarnations[broker_id]
        # A broker that is back by now is in its next life, or registered once more.
        lives = [(life, again) for life in (last, last - 1) for again in range(_REGISTRATIONS_TRIED)]
        tried = [(*life, how) for life in lives for how in (LOST, LEAVES)]
        for incarnation, again, how in tried:
            traceparent = root_traceparent(FAILOVER, cluster_id, broker_id, incarnation, again, how)
            if trace_id_of(traceparent) in recent:
                lost = tuple(led.pop(broker_id, ()))
                yield UnfinishedTrace(FAILOVER, traceparent, broker_id, incarnation, led=lost)
                break
        else:
            if broker_id in led:
                traceparent = root_traceparent(FAILOVER, cluster_id, broker_id, last, 0, LOST)
                yield UnfinishedTrace(FAILOVER, traceparent, broker_id, last, led=tuple(led[broker_id]))


def _topics(cluster_id: str, snapshot: ClusterSnapshot, recent: set[str]) -> Iterator[UnfinishedTrace]:
    created = deleted = 0
    for topic in snapshot.topics:
        if topic.is_bare or created >= _KIND_MAX:
            continue
        count = len(topic.assignment)
        traceparent = root_traceparent(TOPIC_CREATION, cluster_id, topic.topic_id)
        is_new = TopicPartition(topic.name, 0) not in snapshot.states
        if is_new or (recent and trace_id_of(traceparent) in recent):
            created += 1
            yield UnfinishedTrace(
                TOPIC_CREATION, traceparent, topic=topic.name, topic_id=topic.topic_id, partition_count=count
            )
    for name, znode in snapshot.admin.deletions.items():
        if znode is not None and znode.topic_id and deleted < _KIND_MAX:
            deleted += 1
            traceparent = root_traceparent(TOPIC_DELETION, cluster_id, znode.topic_id)
            yield UnfinishedTrace(TOPIC_DELETION, traceparent, topic=name, topic_id=znode.topic_id)
