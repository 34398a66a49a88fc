"""Checks a history for anomalies: the ways in which a log can break its promises.

The names follow those of the published Kafka checkers (lost write, unseen, duplicate, inconsistent offsets,
aborted read, poll skip, nonmonotonic poll, nonmonotonic send), without transactions. The reads must be
complete: at least one pass must go from the first offset to the end, after the last send was answered.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from hightide_local.histories.history import EndSeen, History, LogPlace, ReadRecord, SendOutcome, SentRecord


class AnomalyKind(Enum):
    """The kinds of anomalies."""

    LOST = "acknowledged, and records after its offset were read, but never this one"
    UNSEEN = "acknowledged, and no pass came as far as its offset"
    DUPLICATED = "one value at two places"
    REORDERED = "read in another order than it was sent by its producer under its key"
    DISPLACED = "read at another place than the acknowledgement said"
    CONTRADICTORY = "two values at one place"
    ACKNOWLEDGED_TWICE = "two acknowledgements for one place"
    RESURRECTED = "refused for certain, and read nevertheless"
    PHANTOM = "read, but nobody sent it"
    CHANGED = "read under another key than it was sent"
    SCATTERED = "one key in two partitions"
    READ_BACKWARDS = "a pass gave out an offset again, or an earlier one"
    SKIPPED = "a pass left out an offset"
    END_WENT_BACK = "the high watermark was lower than one answered before"
    END_BEHIND_ACKNOWLEDGED = "the high watermark was not above an offset acknowledged before"


# What a drill allows that replaces a leader which lives. Such a leader holds no lease on reading: until it
# hears of the new epoch, whoever still takes it for the leader reads its old high watermark. For one and the
# same reader the high watermark does not go back even so.
READS_OF_A_DEPOSED_LEADER = frozenset({AnomalyKind.END_BEHIND_ACKNOWLEDGED})


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding. `detail` has the facts."""

    kind: AnomalyKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.detail}"


def find_anomalies(history: History) -> list[Anomaly]:
    """All anomalies of a history. Empty if it keeps all promises. `judgement` and tests call it."""
    return [anomaly for check in CHECKS for anomaly in check(history)]


def _short(value: bytes) -> str:
    """A value for a report. Its beginning distinguishes it from others."""
    return repr(value if len(value) <= 40 else value[:40] + b"...")


def _places_of_values(history: History) -> dict[bytes, set[LogPlace]]:
    places: dict[bytes, set[LogPlace]] = defaultdict(set)
    for read in history.reads:
        places[read.value].add(read.place)
    return places


def _lost_or_unseen(history: History) -> Iterator[Anomaly]:
    places = _places_of_values(history)
    furthest: dict[tuple[str, int], int] = {}
    for read in history.reads:
        where = (read.place.topic, read.place.partition)
        furthest[where] = max(furthest.get(where, -1), read.place.offset)
    for send in history.acknowledged():
        if send.value in places:
            continue
        place = send.place
        passed = place is not None and furthest.get((place.topic, place.partition), -1) >= place.offset
        yield Anomaly(
            AnomalyKind.LOST if passed else AnomalyKind.UNSEEN,
            f"{_short(send.value)} of {send.producer}, acknowledged at {place}",
        )


def _duplicated(history: History) -> Iterator[Anomaly]:
    for value, places in _places_of_values(history).items():
        if len(places) > 1:
            yield Anomaly(AnomalyKind.DUPLICATED, f"{_short(value)} at {_listed(places)}")


def _reordered(history: History) -> Iterator[Anomaly]:
    """Compares the first place of each value, so that a duplicate is not also reported as reordered."""
    first: dict[bytes, int] = {}
    for read in history.reads:
        first[read.value] = min(read.place.offset, first.get(read.value, read.place.offset))
    last_of_key: dict[tuple[str, bytes], tuple[int, SentRecord]] = {}
    for send in sorted(history.sends, key=lambda send: (send.producer, send.number)):
        offset = first.get(send.value)
        if offset is None:
            continue
        earlier = last_of_key.get((send.producer, send.key))
        if earlier is not None and offset < earlier[0]:
            yield Anomaly(
                AnomalyKind.REORDERED,
                f"key {send.key!r}: {_short(earlier[1].value)} at {earlier[0]}, "
                f"then {_short(send.value)} at {offset}",
            )
        if earlier is None or offset > earlier[0]:
            last_of_key[send.producer, send.key] = (offset, send)


def _displaced(history: History) -> Iterator[Anomaly]:
    places = _places_of_values(history)
    for send in history.acknowledged():
        found = places.get(send.value)
        if send.place is not None and found and send.place not in found:
            yield Anomaly(
                AnomalyKind.DISPLACED,
                f"{_short(send.value)} acknowledged at {send.place}, read at {_listed(found)}",
            )


def _contradictory(history: History) -> Iterator[Anomaly]:
    values: dict[LogPlace, set[bytes]] = defaultdict(set)
    for read in history.reads:
        values[read.place].add(read.value)
    for place, found in values.items():
        if len(found) > 1:
            yield Anomaly(
                AnomalyKind.CONTRADICTORY, f"{place} held {[_short(value) for value in sorted(found)]}"
            )


def _acknowledged_twice(history: History) -> Iterator[Anomaly]:
    """Needs no reads. Two leaders that both acknowledge are found here first."""
    holder: dict[LogPlace, SentRecord] = {}
    for send in history.acknowledged():
        if send.place is None:
            continue
        other = holder.setdefault(send.place, send)
        if other is not send:
            yield Anomaly(
                AnomalyKind.ACKNOWLEDGED_TWICE,
                f"{send.place}: {_short(other.value)} and {_short(send.value)}",
            )


def _not_as_sent(history: History) -> Iterator[Anomaly]:
    sent = {send.value: send for send in history.sends}
    for read in history.reads:
        send = sent.get(read.value)
        if send is None:
            yield Anomaly(AnomalyKind.PHANTOM, f"{_short(read.value)} at {read.place}")
        elif send.key != read.key:
            yield Anomaly(
                AnomalyKind.CHANGED,
                f"{_short(read.value)} sent under {send.key!r}, read under {read.key!r} at {read.place}",
            )
        elif send.outcome is SendOutcome.REFUSED:
            yield Anomaly(AnomalyKind.RESURRECTED, f"{_short(read.value)} at {read.place}")


def _scattered(history: History) -> Iterator[Anomaly]:
    partitions: dict[tuple[str, bytes], set[int]] = defaultdict(set)
    for read in history.reads:
        partitions[read.place.topic, read.key].add(read.place.partition)
    for (topic, key), found in partitions.items():
        if len(found) > 1:
            yield Anomaly(AnomalyKind.SCATTERED, f"key {key!r} of {topic} in partitions {sorted(found)}")


def _passes(history: History) -> Iterator[Anomaly]:
    """A log has no gaps, since there are no transaction markers and no compaction. So a pass neither skips
    offsets nor goes back."""
    last: dict[tuple[str, str, int], ReadRecord] = {}
    for read in history.reads:
        where = (read.reader, read.place.topic, read.place.partition)
        before = last.get(where)
        if before is not None and read.place.offset <= before.place.offset:
            yield Anomaly(AnomalyKind.READ_BACKWARDS, f"{read.reader}: {before.place}, then {read.place}")
        elif before is not None and read.place.offset > before.place.offset + 1:
            yield Anomaly(AnomalyKind.SKIPPED, f"{read.reader}: {before.place}, then {read.place}")
        last[where] = read


def _ends_went_back(history: History) -> Iterator[Anomaly]:
    """Compares all observers in real time: a question after an answer must not get a lower answer."""
    for ends in _by_partition(history.ends).values():
        answers = sorted(ends, key=lambda end: end.answered_ns)
        highest: EndSeen | None = None
        next_answer = 0
        for end in sorted(ends, key=lambda end: end.asked_ns):
            while next_answer < len(answers) and answers[next_answer].answered_ns < end.asked_ns:
                if highest is None or answers[next_answer].place.offset > highest.place.offset:
                    highest = answers[next_answer]
                next_answer += 1
            if highest is not None and end.place.offset < highest.place.offset:
                yield Anomaly(
                    AnomalyKind.END_WENT_BACK,
                    f"{highest.place} told to {highest.observer}, then {end.place} to {end.observer}",
                )


def _ends_behind_acknowledged(history: History) -> Iterator[Anomaly]:
    """Holds only for acks=all: an acknowledged record is committed, and so below every later high
    watermark."""
    acknowledged: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for send in history.acknowledged():
        if send.place is not None:
            acknowledged[send.place.topic, send.place.partition].append(
                (send.completed_ns, send.place.offset)
            )
    for where, ends in _by_partition(history.ends).items():
        promises = sorted(acknowledged[where])
        highest, at = -1, 0
        for end in sorted(ends, key=lambda end: end.asked_ns):
            while at < len(promises) and promises[at][0] < end.asked_ns:
                highest = max(highest, promises[at][1])
                at += 1
            if end.place.offset <= highest:
                yield Anomaly(
                    AnomalyKind.END_BEHIND_ACKNOWLEDGED,
                    f"offset {highest} was acknowledged, then {end.place} told to {end.observer}",
                )


def _by_partition(ends: list[EndSeen]) -> dict[tuple[str, int], list[EndSeen]]:
    grouped: dict[tuple[str, int], list[EndSeen]] = defaultdict(list)
    for end in ends:
        grouped[end.place.topic, end.place.partition].append(end)
    return grouped


def _listed(places: set[LogPlace]) -> str:
    return ", ".join(map(str, sorted(places, key=lambda place: (place.topic, place.partition, place.offset))))


CHECKS: tuple[Callable[[History], Iterator[Anomaly]], ...] = (
    _lost_or_unseen,
    _duplicated,
    _reordered,
    _displaced,
    _contradictory,
    _acknowledged_twice,
    _not_as_sent,
    _scattered,
    _passes,
    _ends_went_back,
    _ends_behind_acknowledged,
)
