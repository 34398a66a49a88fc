"""Judges a consumer group by its consumers' own reports: who handed out what, when, in which generation."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hightide_demo.group_reports import Given, GroupReport, HandedOut, Taken


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """What was found. `double_owned`, `skipped` and `vanished` must be 0."""

    rebalances: int
    """Generations in which some partition was given to some consumer."""
    double_owned: int
    """Ownerships, that is a partition in a generation, with two owners: two consumers handed out records in
    one, or records were handed out in one when those of a later one had begun to be."""
    skipped: int
    """Records of the log that no consumer ever handed out."""
    redelivered: int
    """Records handed out once more than once: what the dead had not committed."""
    vanished: int
    """Records handed out that the log does not have."""

    @property
    def is_sound(self) -> bool:
        """Whether every record had one owner at a time, and one at least."""
        return not (self.double_owned or self.skipped or self.vanished)

    def line(self) -> str:
        """Return the part of the demo's last line that speaks of the group."""
        return (
            f"groups: rebalances={self.rebalances} double_owned={self.double_owned} "
            f"skipped={self.skipped + self.vanished} redelivered={self.redelivered}"
        )


class GroupHistory:
    """Takes the reports of all consumers, in any order between consumers, and counts. A consumer is one
    process, so that a member that registered anew is still the same one."""

    def __init__(self) -> None:
        self._given: dict[int, dict[int, str]] = defaultdict(dict)
        self._taken: set[tuple[str, int, int]] = set()
        self._handed_out: dict[int, list[tuple[str, HandedOut]]] = defaultdict(list)
        self._next_offsets: dict[int, int] = {}

    def take(self, consumer: str, report: GroupReport) -> None:
        """Take one report of a consumer."""
        match report:
            case Given():
                self._given[report.partition][report.generation] = consumer
            case Taken():
                self._taken.add((consumer, report.partition, report.generation))
            case HandedOut():
                self._handed_out[report.partition].append((consumer, report))
                known = self._next_offsets.get(report.partition, 0)
                self._next_offsets[report.partition] = max(known, report.next_offset)

    def owned_by(self, consumer: str) -> set[int]:
        """Return the partitions that were given to this consumer last and not taken from it since."""
        owned = set()
        for partition, owners in self._given.items():
            generation = max(owners)
            if owners[generation] == consumer and (consumer, partition, generation) not in self._taken:
                owned.add(partition)
        return owned

    def reads_all_of(self, consumer: str) -> bool:
        """Return whether this consumer owns something, and was handed records of each partition it owns."""
        owned = self.owned_by(consumer)
        return bool(owned) and all(
            self.first_handed_out_ms(partition, [consumer], since_ms=0.0) is not None for partition in owned
        )

    def owners_of(self, partitions: Iterable[int]) -> dict[int, str]:
        """Return to whom each of these partitions was given last; partitions nobody ever got are absent."""
        return {each: self._given[each][max(self._given[each])] for each in partitions if each in self._given}

    def first_handed_out_ms(self, partition: int, consumers: Iterable[str], since_ms: float) -> float | None:
        """Return when one of these consumers first handed out a record of the partition after a moment."""
        among = set(consumers)
        times = (
            report.at_ms
            for consumer, report in self._handed_out.get(partition, ())
            if consumer in among and report.at_ms > since_ms
        )
        return min(times, default=None)

    def has_read_to(self, ends: Mapping[int, int]) -> bool:
        """Return whether somebody has handed out the last record before each of these ends."""
        return all(self._next_offsets.get(partition, 0) >= end for partition, end in ends.items())

    @property
    def record_count(self) -> int:
        """How many records were handed out, each as often as it was."""
        return sum(
            report.next_offset - report.first_offset
            for reports in self._handed_out.values()
            for _, report in reports
        )

    def findings(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> GroupFindings:
        """Judge. `starts` and `ends` are the first and the next offset of each partition of the log."""
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
    """Return how many distinct offsets the ranges hold, and how many of them lie within [start, end)."""
    distinct = inside = 0
    reached = -1
    for first, following in sorted(ranges):
        begin = max(first, reached)
        if following > begin:
            distinct += following - begin
            inside += max(0, min(following, end) - max(begin, start))
            reached = following
    return distinct, inside
