"""The plan of an audit, and its findings: the offsets to read from each replica, and the differences. No
I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from hightide.records import PartitionDescription, ReplicaDescription, TopicDescription

#: A task reads at most this many offsets of one replica.
SLICE_OFFSETS: Final = 500_000


@dataclass(frozen=True, slots=True)
class ReplicaRead:
    """The reads of one task: the records [start, end) from the replica on one broker. `replicas` is the
    number of replicas from which these records are read."""

    topic: str
    topic_id: bytes
    partition: int
    broker_id: int
    start: int
    end: int
    replicas: int


@dataclass(frozen=True, slots=True, order=True)
class Unread:
    """The reason why a replica could not be compared from some offset on."""

    topic: str
    partition: int
    broker_id: int
    offset: int
    reason: str

    def sentence(self) -> str:
        """The sentence for the user."""
        where = f"{self.topic}-{self.partition} on broker {self.broker_id}"
        return f"{where}: not compared from offset {self.offset} on: {self.reason}"


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The reads, and the replicas that cannot be read."""

    reads: tuple[ReplicaRead, ...]
    unread: tuple[Unread, ...]
    partitions: int
    record_count: int
    """The different records that are read, each from all replicas that hold it."""


def plan_audit(
    topics: Iterable[TopicDescription],
    replicas: Iterable[ReplicaDescription],
    silent_brokers: Mapping[int, str],
    slice_offsets: int = SLICE_OFFSETS,
) -> AuditPlan:
    """Plan to read the committed records of each partition, each slice from all replicas that hold it.
    `topics` and `replicas` are the cluster's descriptions, `silent_brokers` the errors of brokers that did
    not answer.

    A member of the ISR has all committed records. It only learns of the high watermark a moment later, and
    the reader waits for that. A replica outside of the ISR is read up to its own high watermark; the rest is
    in `unread`.
    """
    held = {
        (each.topic_id, each.partition.partition, each.broker_id): each
        for each in replicas
        if not each.storage_failed
    }
    reads: list[ReplicaRead] = []
    unread: list[Unread] = []
    partitions = record_count = 0
    for topic in topics:
        for partition in topic.partitions:
            partitions += 1
            number = partition.partition
            available = {
                broker_id: held[topic.topic_id, number, broker_id]
                for broker_id in partition.replicas
                if (topic.topic_id, number, broker_id) in held
            }
            start, end, spans = _spans(partition, available)
            unread += [
                Unread(topic.name, number, broker_id, offset, why)
                for broker_id in partition.replicas
                for offset, why in _not_compared(broker_id, start, end, spans, silent_brokers)
            ]
            record_count += max(0, end - start)
            edges = {start, end, *range(start, end, slice_offsets)}
            edges |= {edge for span in spans.values() for edge in span if start < edge < end}
            for first, last in pairwise(sorted(edges)) if start < end else ():
                holders = [
                    broker_id for broker_id, (low, high) in spans.items() if low <= first and last <= high
                ]
                reads += [
                    ReplicaRead(topic.name, topic.topic_id, number, broker_id, first, last, len(holders))
                    for broker_id in holders
                ]
    return AuditPlan(tuple(reads), tuple(unread), partitions, record_count)


def _spans(
    partition: PartitionDescription, available: Mapping[int, ReplicaDescription]
) -> tuple[int, int, dict[int, tuple[int, int]]]:
    """The range of offsets to compare in a partition (start and end), and the part of it that each broker can
    serve. `available` are the replicas that can be read, by broker."""
    in_sync = [each for broker_id, each in available.items() if broker_id in partition.isr]
    start = max((each.log_start_offset for each in in_sync or available.values()), default=0)
    leader = None if partition.leader is None else available.get(partition.leader)
    if leader is None:
        end = max((each.high_watermark for each in available.values()), default=0)
    else:
        end = leader.high_watermark
    ends = {broker_id: each.high_watermark for broker_id, each in available.items()}
    if leader is not None:
        ends |= {each.broker_id: end for each in (leader, *in_sync)}
    return (
        start,
        end,
        {
            broker_id: (max(start, each.log_start_offset), min(end, ends[broker_id]))
            for broker_id, each in available.items()
        },
    )


def _not_compared(
    broker_id: int,
    start: int,
    end: int,
    spans: Mapping[int, tuple[int, int]],
    silent_brokers: Mapping[int, str],
) -> list[tuple[int, str]]:
    """The offsets from which on a replica is not compared, each with the reason. `spans` is that of
    `_spans`."""
    if broker_id not in spans:
        return [(start, _reason(broker_id, silent_brokers))]
    low, high = spans[broker_id]
    found = []
    if start < low and start < end:
        found.append((start, f"its log begins at {low}; from there on it is compared"))
    if high < end:
        lags = f"it lags behind: of the {end} offsets it knows {high} to be committed"
        found.append((max(start, high), f"{lags}; see `hightide cluster health`"))
    return found


def _reason(broker_id: int, silent_brokers: Mapping[int, str]) -> str:
    if broker_id in silent_brokers:
        return f"the broker does not answer: {silent_brokers[broker_id]}"
    return "no live broker holds this replica, or its storage has failed; see `hightide cluster health`"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The content of one replica at an offset: a batch, or the requested part of one."""

    record_count: int
    leader_epoch: int
    crc: int
    """The CRC in the batch's header."""
    content: bytes
    """A hash of the records themselves."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """An offset at which replicas of one partition are not the same."""

    topic: str
    partition: int
    offset: int
    differing: tuple[str, ...]
    """The fields of Fingerprint that differ; empty if some replicas lack the batch and the others agree."""
    seen: Mapping[int, Fingerprint]
    """The content that each broker returned."""
    lacking: tuple[int, ...]
    """Brokers that have no batch that begins here."""

    def sentence(self) -> str:
        """The sentence for the user: the difference, and what each broker holds."""
        parts = [f"the {name.replace('_', ' ')} differs: {self._values(name)}" for name in self.differing]
        if self.lacking:
            has, lacks = self._brokers(self.seen), self._brokers(self.lacking)
            parts.append(f"a batch begins here on {has}, and none on {lacks}")
        return f"{self.topic}-{self.partition} at offset {self.offset}: {'; '.join(parts)}"

    def _values(self, name: str) -> str:
        by_value: dict[str, list[int]] = {}
        for broker_id, found in sorted(self.seen.items()):
            by_value.setdefault(_shown(name, found), []).append(broker_id)
        return ", ".join(f"{value} on {self._brokers(brokers)}" for value, brokers in by_value.items())

    @staticmethod
    def _brokers(broker_ids: Iterable[int]) -> str:
        return "broker " + ", ".join(map(str, sorted(broker_ids)))


def judge(
    topic: str, partition: int, offset: int, seen: Mapping[int, Fingerprint], expected: Iterable[int]
) -> Divergence | None:
    """Compare the content of the brokers that were read at an offset; `expected` are those that were read
    there without an error. None if all hold the same."""
    differing = tuple(
        name
        for name in Fingerprint.__dataclass_fields__
        if len({getattr(found, name) for found in seen.values()}) > 1
    )
    lacking = tuple(sorted(set(expected) - set(seen)))
    if not differing and not lacking:
        return None
    return Divergence(topic, partition, offset, differing, dict(seen), lacking)


def _shown(name: str, found: Fingerprint) -> str:
    value: int | bytes = getattr(found, name)
    if isinstance(value, bytes):
        return value.hex()[:12]
    return f"{value:08x}" if name == "crc" else str(value)
