"""Records of a client's operations that waited for a leader change, so that their spans can join the trace of
that change.

Rules of this file: no clock, no I/O, no OpenTelemetry; time comes in as `now_ms`. Cores note failures and
later successes; shells take the facts and pass them to `hightide.tracing`. Operations that succeed at once
are not noted, and nothing at all is noted without tracing.

Theory of operation. A partition waits from its first failure under one leader epoch until an operation
succeeds under a later one; the same epoch again means that no leader changed. The fact then waits a moment
for the other partitions of its topic, and for metadata, which carries the traceparent of the change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from hightide.calls.call import Call
from hightide.cluster.metadata import ClusterMetadata, MetadataSeeker
from hightide.errors import HightideError, RequestTimeoutError
from hightide.records import TopicPartition

SAMPLE_MAX: Final = 10
# Partitions that follow later than this count as another wait.
GATHERING_MS: Final = 5_000
# How long metadata of the new epoch is waited for; without it the span has no parent.
PATIENCE_MS: Final = 2_000
# A partition without attempts for this long is not waiting.
STALE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class LeaderWait:
    """An operation on partitions of one topic that failed until their new leaders accepted it. `traceparent`
    is that of the leader change, empty if no broker sent it."""

    topic: str
    partition_count: int
    partition_sample: tuple[int, ...]
    leader_epoch: int
    traceparent: str
    began_ms: float
    ended_ms: float


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """An order of the group's coordinator that was carried out, from its arrival to its answer."""

    group: str
    is_start: bool
    generation: int
    partition_count: int
    partition_sample: tuple[str, ...]
    traceparent: str
    began_ms: float
    ended_ms: float


Fact = LeaderWait | GroupOrder


@dataclass(slots=True)
class _Waiting:
    began_ms: float
    last_ms: float
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class _WentThrough:
    partition: TopicPartition
    leader_epoch: int
    began_ms: float
    ended_ms: float


class LeaderWaits:
    """The waits of one core. `waiting` is empty as long as all goes well; the data path checks only that."""

    def __init__(self) -> None:
        self.is_watching = False
        self.waiting: dict[TopicPartition, _Waiting] = {}
        self.facts: list[LeaderWait] = []
        self.wake_at_ms: float | None = None
        self._through: dict[str, list[_WentThrough]] = {}

    def failed(
        self, partition: TopicPartition, leader_epoch: int, now_ms: float, *, since_ms: float | None = None
    ) -> None:
        """Note that an attempt under this epoch failed or was refused. If it hung before, `since_ms` is when
        it began."""
        if not self.is_watching or leader_epoch < 0:
            return
        known = self.waiting.get(partition)
        if known is not None and now_ms - known.last_ms <= STALE_MS:
            known.last_ms = now_ms
            return
        began_ms = now_ms if since_ms is None else since_ms
        self.waiting[partition] = _Waiting(began_ms, now_ms, leader_epoch)

    def went_through(self, partition: TopicPartition, leader_epoch: int, ended_ms: float) -> None:
        """Note that an attempt under this epoch succeeded. Called only while something is `waiting`."""
        waiting = self.waiting.pop(partition, None)
        if waiting is None or leader_epoch <= waiting.leader_epoch or ended_ms - waiting.last_ms > STALE_MS:
            return
        began_ms = min(waiting.began_ms, ended_ms)
        gone = _WentThrough(partition, leader_epoch, began_ms, ended_ms)
        self._through.setdefault(partition.topic, []).append(gone)

    def poll(self, cluster: ClusterMetadata, seeker: MetadataSeeker, now_ms: float) -> None:
        """Turn completed waits into facts. Sets `wake_at_ms`."""
        self.wake_at_ms = None
        if not self._through:
            return
        waiting = {partition.topic for partition in self.waiting}
        for topic, gone in list(self._through.items()):
            ended_ms = max(each.ended_ms for each in gone)
            if topic in waiting and now_ms < (until_ms := gone[0].ended_ms + GATHERING_MS):
                self._wake_by(until_ms)
            elif now_ms < (until_ms := ended_ms + PATIENCE_MS) and any(
                cluster.traceparent_of(each.partition, each.leader_epoch) is None for each in gone
            ):
                seeker.want_again([topic], now_ms=now_ms)
                self._wake_by(until_ms)
            else:
                del self._through[topic]
                self._conclude(topic, gone, cluster)

    def taken(self, cluster: ClusterMetadata, *, is_last: bool = False) -> list[LeaderWait]:
        """The facts since the last call. `is_last` means that the client is closed, so that nothing more is
        waited for."""
        if is_last:
            for topic, gone in self._through.items():
                self._conclude(topic, gone, cluster)
            self._through.clear()
        facts, self.facts = self.facts, []
        return facts

    def _wake_by(self, at_ms: float) -> None:
        if self.wake_at_ms is None or at_ms < self.wake_at_ms:
            self.wake_at_ms = at_ms

    def _conclude(self, topic: str, gone: Iterable[_WentThrough], cluster: ClusterMetadata) -> None:
        """Make one fact for each leader change."""
        by_change: dict[str, list[_WentThrough]] = {}
        for each in gone:
            traceparent = cluster.traceparent_of(each.partition, each.leader_epoch) or ""
            by_change.setdefault(traceparent, []).append(each)
        for traceparent, together in by_change.items():
            numbers = sorted({each.partition.partition for each in together})
            self.facts.append(
                LeaderWait(
                    topic=topic,
                    partition_count=len(numbers),
                    partition_sample=tuple(numbers[:SAMPLE_MAX]),
                    leader_epoch=max(each.leader_epoch for each in together),
                    traceparent=traceparent,
                    began_ms=min(each.began_ms for each in together),
                    ended_ms=max(each.ended_ms for each in together),
                )
            )


def hung_since(call: Call[Any], error: HightideError) -> float | None:
    """The time since which a call that was given up had waited for an answer; None for a call that failed at
    once."""
    is_hung = isinstance(error, RequestTimeoutError) or getattr(call, "is_cancelled", False)
    return call.started_ms if is_hung else None


class TracedCore:
    """The methods of producer and consumer cores that their drivers use for traces."""

    cluster: ClusterMetadata
    _waits: LeaderWaits

    def be_traced(self) -> None:
        """Note operations that wait for leader changes. Called before the first poll."""
        self._waits.is_watching = self.cluster.remembers_changes = True

    def facts(self, *, is_last: bool = False) -> list[Fact]:
        """The operations that waited for a leader change since the last call."""
        return [*self._waits.taken(self.cluster, is_last=is_last)]
