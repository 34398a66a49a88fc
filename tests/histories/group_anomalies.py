"""Judging a consumer group by what its consumers reported and what ZooKeeper held: each way in which a group
can break its promises, by name.

Times are milliseconds of the monotonic clock that the processes of a machine share. A process that was
stopped (SIGSTOP) may have had a poll in its hands: the first thing that it reports when it is woken is of
before it stood still, and excused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """What went wrong."""

    DOUBLE_OWNED = "a partition was given to two consumers in one generation"
    OLD_OWNER_READS = "records were handed out in a generation when a later one had begun elsewhere"
    SKIPPED = "records of the log that nobody ever handed out"
    LEFT_OUT = "a consumer left out an offset between two that it handed out"
    COMMIT_WENT_BACK = "a committed offset was lower than one seen before"
    COMMIT_LOST = "a commit that was answered is not in ZooKeeper"
    COMMIT_AHEAD = "an offset was committed before the records below it were handed out"


@dataclass(frozen=True, slots=True)
class Given:
    """A consumer was given a partition in a generation of the group."""

    at_ms: float
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class HandedOut:
    """One poll of a consumer returned the records of [first, following)."""

    at_ms: float
    partition: int
    generation: int
    first: int
    following: int
    is_excused: bool = False
    """Whether it is of before a standstill."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A consumer's commit by hand was answered: durable."""

    at_ms: float
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetSeen:
    """What ZooKeeper holds as the group's committed offset."""

    asked_ms: float
    answered_ms: float
    partition: int
    offset: int


@dataclass(slots=True)
class GroupHistory:
    """All that is known of a group; `reports` by consumer, in its own order."""

    reports: dict[str, list[Given | HandedOut | Committed]] = field(default_factory=dict)
    offsets: list[OffsetSeen] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """Partition → the offset behind its last record. The first is at 0."""

    def every(self) -> Iterator[tuple[str, Given | HandedOut | Committed]]:
        """All reports, with who made them."""
        for consumer, reports in self.reports.items():
            for report in reports:
                yield consumer, report

    def redelivered(self) -> int:
        """How many records were handed out once more than once."""
        handed = [report for _, report in self.every() if isinstance(report, HandedOut)]
        total = sum(report.following - report.first for report in handed)
        return total - len({(r.partition, offset) for r in handed for offset in range(r.first, r.following)})


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding, with the facts as a sentence."""

    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.detail}"


def find_group_anomalies(history: GroupHistory) -> list[Anomaly]:
    """Everything that is wrong with a group; an empty list where it keeps all promises."""
    return [anomaly for check in CHECKS for anomaly in check(history)]


def _double_owned(history: GroupHistory) -> Iterator[Anomaly]:
    owners: dict[tuple[int, int], set[str]] = defaultdict(set)
    for consumer, report in history.every():
        if not isinstance(report, Committed):
            owners[report.partition, report.generation].add(consumer)
    for (partition, generation), among in sorted(owners.items()):
        if len(among) > 1:
            yield Anomaly(Kind.DOUBLE_OWNED, f"{partition} in generation {generation}: {sorted(among)}")


def _old_owner_reads(history: GroupHistory) -> Iterator[Anomaly]:
    begun: dict[int, dict[int, tuple[float, str]]] = defaultdict(dict)
    for consumer, report in history.every():
        if isinstance(report, Given):
            known = begun[report.partition].get(report.generation, (report.at_ms, consumer))
            begun[report.partition][report.generation] = min(known, (report.at_ms, consumer))
    for consumer, report in history.every():
        if isinstance(report, HandedOut) and not report.is_excused:
            for generation, (since_ms, owner) in begun[report.partition].items():
                if generation > report.generation and since_ms < report.at_ms:
                    yield Anomaly(
                        Kind.OLD_OWNER_READS,
                        f"{consumer} handed out {report} {report.at_ms - since_ms:.0f} ms after {owner} was "
                        f"given the partition in generation {generation}",
                    )


def _skipped(history: GroupHistory) -> Iterator[Anomaly]:
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for _, report in history.every():
        if isinstance(report, HandedOut):
            ranges[report.partition].append((report.first, report.following))
    for partition, end in sorted(history.ends.items()):
        reached = 0
        for first, following in [*sorted(ranges[partition]), (end, end)]:
            if first > reached:
                yield Anomaly(Kind.SKIPPED, f"[{reached}, {first}) of partition {partition}")
            reached = max(reached, following)


def _left_out(history: GroupHistory) -> Iterator[Anomaly]:
    for consumer, reports in history.reports.items():
        reached: dict[int, int] = {}
        for report in reports:
            if isinstance(report, Given):
                reached.pop(report.partition, None)
            elif isinstance(report, HandedOut):
                expected = reached.get(report.partition, report.first)
                if report.first > expected:
                    yield Anomaly(Kind.LEFT_OUT, f"{consumer}: {report}, expected {expected}")
                # Before it is what was taken away and given back in the same generation, unknown to the user.
                reached[report.partition] = report.following


def _commit_went_back(history: GroupHistory) -> Iterator[Anomaly]:
    highest: dict[int, OffsetSeen] = {}
    for seen in history.offsets:
        before = highest.setdefault(seen.partition, seen)
        if seen.offset < before.offset:
            yield Anomaly(Kind.COMMIT_WENT_BACK, f"{before}, then {seen}")
        else:
            highest[seen.partition] = seen


def _commit_lost(history: GroupHistory) -> Iterator[Anomaly]:
    promised = _highest_by_time(
        (report.partition, report.at_ms, report.offset)
        for _, report in history.every()
        if isinstance(report, Committed)
    )
    for seen in history.offsets:
        known = promised.get(seen.partition, _NOTHING).until(seen.asked_ms)
        if seen.offset < known:
            yield Anomaly(Kind.COMMIT_LOST, f"{known} was answered, then {seen}")


def _commit_ahead(history: GroupHistory) -> Iterator[Anomaly]:
    handed = _highest_by_time(
        (report.partition, report.at_ms, report.following)
        for _, report in history.every()
        if isinstance(report, HandedOut)
    )
    for seen in history.offsets:
        known = max(0, handed.get(seen.partition, _NOTHING).until(seen.answered_ms))
        if seen.offset > known:
            yield Anomaly(Kind.COMMIT_AHEAD, f"handed out up to {known}, and {seen}")


@dataclass(frozen=True, slots=True)
class _Highest:
    """The highest value so far, at each moment."""

    times_ms: list[float]
    values: list[int]

    def until(self, at_ms: float) -> int:
        count = bisect_right(self.times_ms, at_ms)
        return self.values[count - 1] if count else -1


_NOTHING = _Highest([], [])


def _highest_by_time(events: Iterator[tuple[int, float, int]]) -> dict[int, _Highest]:
    highest: dict[int, _Highest] = defaultdict(lambda: _Highest([], []))
    for partition, at_ms, value in sorted(events):
        of = highest[partition]
        of.times_ms.append(at_ms)
        of.values.append(max(value, of.values[-1] if of.values else -1))
    return highest


CHECKS: tuple[Callable[[GroupHistory], Iterator[Anomaly]], ...] = (
    _double_owned,
    _old_owner_reads,
    _skipped,
    _left_out,
    _commit_went_back,
    _commit_lost,
    _commit_ahead,
)
