"""The messages that one broker has not acknowledged yet; the latest decision about each partition replaces
earlier ones.

Pure; the shell holds one for each broker and has at most one RPC of it in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from msgspec import Struct

from hightide_controller.core.effects import (
    Decision,
    ReplicaStop,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from hightide_controller.core.values.partition import TopicPartition

__all__ = ["DECISIONS_MAX", "STOPS_MAX", "BrokerDelivery", "Outbox"]


DECISIONS_MAX: Final = 2_000
"""Decisions of one LeaderAndISR. A broker takes some 0.1 s for them, far less than a call may take."""
STOPS_MAX: Final = 200
"""Stops of one StopReplica. Each waits for a disk, and later decisions wait for all of them."""


class BrokerDelivery(Struct, frozen=True):
    """The next messages: LeaderAndISR first, because clients wait for leaders, then StopReplica, then
    UpdateMetadata."""

    decisions: dict[TopicPartition, Decision]
    stops: dict[tuple[str, int], ReplicaStop]
    """By topic id and partition: a topic of the same name may follow at once."""
    metadata: dict[TopicPartition, None]
    """Partitions of the UpdateMetadata. Their content is read from the state when it is sent."""
    deleted_topic_ids: tuple[str, ...]
    has_metadata: bool
    full: bool
    sequence: int
    """The sequence up to which the broker knows everything when it has this; 0 if something older still
    waits."""
    cause: str

    @classmethod
    def bare_list(cls) -> BrokerDelivery:
        """A delivery with nothing but the list of live brokers, which every UpdateMetadata has."""
        return cls({}, {}, {}, (), has_metadata=True, full=False, sequence=0, cause="")


@dataclass(slots=True)
class Outbox:
    """Its size is bounded by the number of partitions, however long the broker does not answer."""

    decisions: dict[TopicPartition, Decision] = field(default_factory=dict)
    stops: dict[tuple[str, int], ReplicaStop] = field(default_factory=dict)
    metadata: dict[TopicPartition, None] = field(default_factory=dict)
    deleted_topic_ids: dict[str, None] = field(default_factory=dict)
    has_metadata: bool = False
    full: bool = False
    sequence: int = 0
    cause: str = ""

    def put(self, effect: SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata) -> None:
        """Add an effect. It replaces what waits about the same partitions."""
        assert effect.sequence > self.sequence, "send effects come in order"
        self.sequence = effect.sequence
        self.cause = effect.cause or self.cause
        if isinstance(effect, SendLeaderAndIsr):
            for decision in effect.decisions:
                self.stops.pop((decision.topic_id, decision.name.partition), None)
                self.decisions[decision.name] = decision
            return
        if isinstance(effect, SendStopReplica):
            for stop in effect.stops:
                name = TopicPartition(stop.topic, stop.partition)
                waiting = self.decisions.get(name)
                if waiting is not None and waiting.topic_id == stop.topic_id:
                    del self.decisions[name]
                self.stops[stop.topic_id, stop.partition] = stop
            return
        self.has_metadata = True
        self.full = self.full or effect.full
        self.metadata.update(dict.fromkeys(effect.names))
        self.deleted_topic_ids.update(dict.fromkeys(effect.deleted_topic_ids))

    @property
    def is_empty(self) -> bool:
        """Whether the broker has everything."""
        return not self.decisions and not self.stops and not self.has_metadata

    @property
    def is_bare_list(self) -> bool:
        """Whether only the list of live brokers waits, which every UpdateMetadata has."""
        has_names = bool(self.metadata or self.deleted_topic_ids or self.full)
        return self.has_metadata and not has_names and not self.decisions and not self.stops

    def take(self, decisions_max: int = DECISIONS_MAX, stops_max: int = STOPS_MAX) -> BrokerDelivery:
        """The content of one attempt; it must be put back if the attempt fails.

        If not all decisions fit, the oldest go, and everything else waits. A broker knows from the decisions
        what metadata says about its own partitions, so metadata is sent once at the end. All brokers get the
        decisions in the same order, so that leader and followers of a partition learn of each other at about
        the same time. If leaderships came first, clients that produce with acks=all would wait for the last
        of them.

        If not all stops fit, the rest of them waits, and nothing else waits for them.
        """
        if len(self.decisions) > decisions_max:
            return self._take_some(decisions_max)
        stops = {key: self.stops[key] for key in islice(self.stops, stops_max)}
        for key in stops:
            del self.stops[key]
        delivery = BrokerDelivery(
            self.decisions,
            stops,
            self.metadata,
            tuple(self.deleted_topic_ids),
            self.has_metadata,
            self.full,
            0 if self.stops else self.sequence,
            self.cause,
        )
        self.decisions, self.metadata, self.deleted_topic_ids = {}, {}, {}
        self.has_metadata = self.full = False
        self.cause = ""
        return delivery

    def _take_some(self, decisions_max: int) -> BrokerDelivery:
        taken = {name: self.decisions[name] for name in islice(self.decisions, decisions_max)}
        for name in taken:
            del self.decisions[name]
        return BrokerDelivery(taken, {}, {}, (), has_metadata=False, full=False, sequence=0, cause=self.cause)

    def put_back(self, delivery: BrokerDelivery) -> None:
        """Put back what a failed attempt carried, except what something newer has replaced."""
        newer_stops, newer = self.stops, self.decisions
        stopped = {
            name
            for name, decision in delivery.decisions.items()
            if (decision.topic_id, name.partition) in newer_stops
        }
        decided = {(decision.topic_id, name.partition) for name, decision in newer.items()}
        self.decisions = {
            **{name: decision for name, decision in delivery.decisions.items() if name not in stopped},
            **newer,
        }
        self.stops = {
            **{key: stop for key, stop in delivery.stops.items() if key not in decided},
            **newer_stops,
        }
        self.metadata = {**delivery.metadata, **self.metadata}
        self.deleted_topic_ids = {**dict.fromkeys(delivery.deleted_topic_ids), **self.deleted_topic_ids}
        self.has_metadata = self.has_metadata or delivery.has_metadata
        self.full = self.full or delivery.full
        self.cause = self.cause or delivery.cause
