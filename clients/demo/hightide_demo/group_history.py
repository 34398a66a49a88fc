"""Judges a consumer group by the reports of its consumers: records, times, generations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hightide_demo.group_reports import GroupReport, HandedOut, PartitionGiven, PartitionTaken


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """The result. `double_owned`, `skipped` and `vanished` must be 0."""

    rebalances: int
    """Generations in which a partition was given to a consumer."""
    double_owned: int
    """Pairs of a partition and a generation with two owners: two consumers were handed out its records in
    this generation, or a consumer was handed out one after the first record of a later generation."""
    skipped: int
    """Records of the log that no consumer was handed out."""
    redelivered: int
    """Repetitions of records, which a killed consumer had not committed."""
    vanished: int
    """Records that were handed out and are not in the log."""

    @property
    def is_sound(self) -> bool:
        """Whether each record was handed out, and each partition had one owner at a time."""
        return not (self.double_owned or self.skipped or self.vanished)

    def line(self) -> str:
        """Return the part of the demo's last line about the group."""
        return (
            f"groups: rebalances={self.rebalances} double_owned={self.double_owned} "
            f"skipped={self.skipped + self.vanished} redelivered={self.redelivered}"
        )


class GroupHistory:
    """Takes the reports of all consumers. Those of one consumer come in order, those of several in any order.
    A consumer is a process: it stays the same one if it registers again as a new member."""

    def __init__(self) -> None:
        self._given: dict[int, dict[int, str]] = defaultdict(dict)
        self._taken: set[tuple[str, int, int]] = set()
        self._handed_out: dict[int, list[tuple[str, HandedOut]]] = defaultdict(list)
        self._next_offsets: dict[int, int] = {}

    def take(self, consumer: str, report: GroupReport) -> None:
        """Take one report of a consumer."""
        match report:
            case PartitionGiven():
                self._given[report.partition][report.generation] = consumer
            case PartitionTaken():
                self._taken.add((consumer, report.partition, report.generation))
            case HandedOut():
                self._handed_out[report.partition].append((consumer, report))
                known = self._next_offsets.get(report.partition, 0)
                self._next_offsets[report.partition] = max(known, report.next_offset)

    def owned_by(self, consumer: str) -> set[int]:
        """Return the partitions of which this consumer is the last known owner and which it has not lost
        since."""
        owned = set()
        for partition, owners in self._given.items():
            generation = max(owners)
            if owners[generation] == consumer and (consumer, partition, generation) not in self._taken:
                owned.add(partition)
        return owned

    def reads_all_of(self, consumer: str) -> bool:
        """Return whether this consumer owns partitions, and was handed out records of each of them."""
        owned = self.owned_by(consumer)
        return bool(owned) and all(
            self.first_handed_out_ms(partition, [consumer], since_ms=0.0) is not None for partition in owned
        )

    def owners_of(self, partitions: Iterable[int]) -> dict[int, str]:
        """Return the last known owner of each of these partitions. Partitions that never had one are
        absent."""
        return {each: self._given[each][max(self._given[each])] for each in partitions if each in self._given}

    def first_handed_out_ms(self, partition: int, consumers: Iterable[str], since_ms: float) -> float | None:
        """Return the first time after `since_ms` at which one of these consumers was handed out a record of
        the partition, or None. Times are milliseconds of the monotonic clock."""
        among = set(consumers)
        times = (
            report.at_ms
            for consumer, report in self._handed_out.get(partition, ())
            if consumer in among and report.at_ms > since_ms
        )
        return min(times, default=None)

    def has_read_to(self, ends: Mapping[int, int]) -> bool:
        """Return whether the last record before each of these ends was handed out."""
        return all(self._next_offsets.get(partition, 0) >= end for partition, end in ends.items())

    @property
    def record_count(self) -> int:
        """The number of records that were handed out, repetitions included."""
        return sum(
            report.next_offset - report.first_offset
            for reports in self._handed_out.values()
            for _, report in reports
        )

    def findings(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> GroupFindings:
        """Return the result. `starts` and `ends` are the log start offset and the log end offset of each
        partition."""
        assert starts.keys() == ends.keys()
        skipped = redelivered = vanished = 0
        for partition in starts.keys() | self._handed_out.keys():
            start, end = starts.get(partition, 0), ends.get(partition, 0)
            handed_out = [
                (report.first_offset, report.next_offset) for _, report in self._handed_out.get(partition, ())
            ]
            distinct, inside = _covered(handed_out, start, end)
            skipped += (end - start) - inside
            vanished += distinct - inside
            redelivered += sum(following - first for first, following in handed_out) - distinct
        generations = {generation for owners in self._given.values() for generation in owners}
        return GroupFindings(len(generations), self._double_owned(), skipped, redelivered, vanished)

    def _double_owned(self) -> int:
        doubled: set[tuple[int, int]] = set()
        for partition, reports in self._handed_out.items():
            owners: dict[int, set[str]] = defaultdict(set)
            begins_ms: dict[int, float] = {}
            ends_ms: dict[int, float] = {}
            for consumer, report in reports:
                generation = report.generation
                owners[generation].add(consumer)
                begins_ms[generation] = min(begins_ms.get(generation, report.at_ms), report.at_ms)
                ends_ms[generation] = max(ends_ms.get(generation, report.at_ms), report.at_ms)
            doubled |= {(partition, generation) for generation, among in owners.items() if len(among) > 1}
            earliest_later_ms = float("inf")
            for generation in sorted(owners, reverse=True):
                if ends_ms[generation] > earliest_later_ms:
                    doubled.add((partition, generation))
                earliest_later_ms = min(earliest_later_ms, begins_ms[generation])
        return len(doubled)


def _covered(ranges: Iterable[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Return the number of different offsets in the ranges, and the number of those within [start, end)."""
    distinct = inside = 0
    reached = -1
    for first, following in sorted(ranges):
        begin = max(first, reached)
        if following > begin:
            distinct += following - begin
            inside += max(0, min(following, end) - max(begin, start))
            reached = following
    return distinct, inside
