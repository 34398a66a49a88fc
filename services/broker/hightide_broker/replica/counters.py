"""Counters for the broker's metrics: records that moved, requests that were refused, elections."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hightide.batch.header import Buffer
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import reason_of
from hightide_runtime.telemetry.metric_declarations import Distribution

from hightide_broker.contract.data_calls import Outcome, PartitionRead, PartitionRefused

__all__ = ["OTHER_TOPICS", "TOPICS_MAX", "Counters", "FlowCounters", "TopicFlow", "count_records"]

TOPICS_MAX: Final = 100
"""Topics that have counters of their own. A metrics backend keeps each of them for a long time."""
OTHER_TOPICS: Final = "(other)"
"""The name under which all other topics are counted. No topic can have it."""

_INT32: Final = struct.Struct("<i")
_LENGTH_AT, _COUNT_AT, _COUNTED_FROM = 8, 60, 12
_LEAST_BYTES: Final = 80


@dataclass(slots=True)
class FlowCounters:
    """Bytes and records in one direction."""

    size_bytes: int = 0
    records: int = 0

    def add(self, size_bytes: int, records: int) -> None:
        """Count more."""
        self.size_bytes += size_bytes
        self.records += records


@dataclass(slots=True)
class TopicFlow:
    """The records of one topic that producers sent, and that consumers received."""

    received: FlowCounters = field(default_factory=FlowCounters)
    sent: FlowCounters = field(default_factory=FlowCounters)


@dataclass(slots=True)
class Counters:
    """The counters of one broker. Counted on the event loop, once for each partition and call; read on any
    thread."""

    counts_what_is_sent: bool = True
    """Whether the records that consumers receive are counted. This reads the header of every batch, and the
    metric may not be in use."""
    received: FlowCounters = field(default_factory=FlowCounters)
    """Batches received from producers."""
    sent: FlowCounters = field(default_factory=FlowCounters)
    """Batches sent to consumers."""
    replicated_in: FlowCounters = field(default_factory=FlowCounters)
    """Batches copied from leaders."""
    replicated_out_bytes: int = 0
    """Bytes sent to followers."""
    topics: dict[str, TopicFlow] = field(default_factory=dict)
    refusals: dict[tuple[str, str], int] = field(default_factory=dict)
    """Errors of single partitions, by operation and reason. There are at most as many as the catalogue
    has."""
    leaderships_begun: int = 0
    leaderships_lost: int = 0
    truncations: int = 0
    truncated_records: int = 0
    fsync_s: Distribution = field(default_factory=Distribution)

    def append(self, topic: str, size_bytes: int, records: int) -> None:
        """Count records of producers that are in the log."""
        self.received.add(size_bytes, records)
        self._topic(topic).received.add(size_bytes, records)

    def produced(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of a produce request."""
        for outcome in outcomes:
            if isinstance(outcome, PartitionRefused):
                self._refused("produce", outcome.code)

    def fetched(self, topic: str, read: PartitionRead) -> None:
        """Count one partition of a fetch."""
        if read.size_bytes:
            records = count_records(read.batches) if self.counts_what_is_sent else 0
            self.sent.add(read.size_bytes, records)
            self._topic(topic).sent.add(read.size_bytes, records)
        elif read.refused is not None:
            self._refused("fetch", read.refused.code)

    def truncated(self, records: int) -> None:
        """Count records that a follower truncated because its leader does not have them."""
        if records > 0:
            self.truncations += 1
            self.truncated_records += records

    def keep_topics(self, hosted: frozenset[str]) -> None:
        """Make room: drop the counters of topics that are not on this broker any more. Called on any
        thread."""
        for topic in tuple(self.topics):
            if topic not in hosted and topic != OTHER_TOPICS:
                self.topics.pop(topic, None)

    def _topic(self, topic: str) -> TopicFlow:
        flow = self.topics.get(topic)
        if flow is None:
            known = topic if len(self.topics) < TOPICS_MAX else OTHER_TOPICS
            flow = self.topics.setdefault(known, TopicFlow())
        return flow

    def _refused(self, operation: str, code: ErrorCode.ValueType) -> None:
        place = operation, reason_of(code)
        self.refusals[place] = self.refusals.get(place, 0) + 1


def count_records(pieces: Sequence[Buffer]) -> int:
    """Count the records in consecutive batches, of which each begins with a piece, by two fields of each
    header.

    Only for metrics: it trusts what it reads, and stops counting if that makes no sense.
    """
    count = 0
    start, length = 0, 0  # Of the current batch: its start, relative to this piece, and its bytes.
    for piece in pieces:
        size = len(piece)
        while start < size:
            if not length:
                if start + _COUNTED_FROM > size:
                    return count
                length = _COUNTED_FROM + _INT32.unpack_from(piece, start + _LENGTH_AT)[0]
                if length < _LEAST_BYTES:
                    return count
            if 0 <= start + _COUNT_AT <= size - _INT32.size:
                count += _INT32.unpack_from(piece, start + _COUNT_AT)[0]
            if start + length > size:
                break
            start, length = start + length, 0
        start -= size
    return count
