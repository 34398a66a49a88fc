"""The checker is checked first: by bad histories that show exactly one thing, and good ones that show
none."""

import pytest
from hightide_local.histories.anomalies import CHECKS, AnomalyKind, find_anomalies
from hightide_local.histories.history import EndSeen, History, LogPlace, ReadRecord, SendOutcome, SentRecord

TOPIC = "t"


def place(offset: int, partition: int = 0) -> LogPlace:
    return LogPlace(TOPIC, partition, offset)


class Story:
    """A history told in short: `sent`, `read`, `end`, in order; time passes by one with each."""

    def __init__(self) -> None:
        self.history = History()
        self._now_ns = 0
        self._number = 0

    def _tick(self) -> int:
        self._now_ns += 1
        return self._now_ns

    def sent(
        self,
        value: str,
        offset: int | None = None,
        *,
        key: str = "k",
        partition: int = 0,
        outcome: SendOutcome = SendOutcome.ACKNOWLEDGED,
        producer: str = "p",
    ) -> "Story":
        self._number += 1
        self.history.sends.append(
            SentRecord(
                producer,
                self._number,
                key.encode(),
                value.encode(),
                outcome,
                None if offset is None else place(offset, partition),
                self._tick(),
            )
        )
        return self

    def read(
        self, value: str, offset: int, *, key: str = "k", partition: int = 0, reader: str = "r"
    ) -> "Story":
        self.history.reads.append(ReadRecord(reader, place(offset, partition), key.encode(), value.encode()))
        return self

    def end(
        self, offset: int, *, observer: str = "o", asked: int | None = None, partition: int = 0
    ) -> "Story":
        asked_ns = self._tick() if asked is None else asked
        self.history.ends.append(EndSeen(observer, place(offset, partition), asked_ns, self._tick()))
        return self

    def kinds(self) -> set[AnomalyKind]:
        return {anomaly.kind for anomaly in find_anomalies(self.history)}


UNKNOWN, REFUSED = SendOutcome.UNKNOWN, SendOutcome.REFUSED

GOOD: dict[str, Story] = {
    "nothing happened": Story(),
    "one record, sent and read": Story().sent("a", 0).read("a", 0),
    "two records in order": Story().sent("a", 0).sent("b", 1).read("a", 0).read("b", 1),
    "two passes over the same records": Story()
    .sent("a", 0)
    .sent("b", 1)
    .read("a", 0)
    .read("b", 1)
    .read("a", 0, reader="s")
    .read("b", 1, reader="s"),
    "an unknown record that was not appended": Story().sent("a", 0).sent("b", outcome=UNKNOWN).read("a", 0),
    "an unknown record that was appended": Story()
    .sent("a", 0)
    .sent("b", outcome=UNKNOWN)
    .read("a", 0)
    .read("b", 1),
    "a refused record that stays away": Story().sent("a", 0).sent("b", outcome=REFUSED).read("a", 0),
    "an acknowledgement without an offset": Story().sent("a").read("a", 0),
    "keys interleaved, each in order": Story()
    .sent("a", 1, key="x")
    .sent("b", 0, key="y")
    .read("b", 0, key="y")
    .read("a", 1, key="x"),
    "two producers of one key, each in its own order": Story()
    .sent("a", 1, producer="p")
    .sent("b", 0, producer="q")
    .read("b", 0)
    .read("a", 1),
    "two partitions with the same offsets": Story()
    .sent("a", 0, key="x", partition=0)
    .sent("b", 0, key="y", partition=1)
    .read("a", 0, key="x", partition=0)
    .read("b", 0, key="y", partition=1),
    "a pass that begins in the middle": Story()
    .sent("a", 0)
    .sent("b", 1)
    .read("a", 0)
    .read("b", 1)
    .read("b", 1, reader="s"),
    "ends that rise": Story().end(0).end(5).end(5).end(7),
    "an older end answered later, but asked at the same time": Story().end(9).end(5, asked=1),
    "an end asked for before the acknowledgement came": Story()
    .end(0)
    .sent("a", 0)
    .read("a", 0)
    .end(0, asked=1),
}

# A history, and all the kinds that it shows, no more and no fewer.
BAD: dict[str, tuple[Story, set[AnomalyKind]]] = {
    "a lost record in the middle": (
        Story().sent("a", 0).sent("b", 1).sent("c", 2).read("a", 0).read("c", 2),
        {AnomalyKind.LOST, AnomalyKind.SKIPPED},
    ),
    "a lost record whose offset went to another": (
        Story().sent("a", 0).sent("b", outcome=UNKNOWN).read("b", 0),
        {AnomalyKind.LOST},
    ),
    "the first record lost, passes start behind it": (
        Story().sent("a", 0).sent("b", 1).read("b", 1),
        {AnomalyKind.LOST},
    ),
    "a lost end": (Story().sent("a", 0).sent("b", 1).read("a", 0), {AnomalyKind.UNSEEN}),
    "everything lost": (Story().sent("a", 0), {AnomalyKind.UNSEEN}),
    "lost, acknowledged without an offset": (Story().sent("a"), {AnomalyKind.UNSEEN}),
    "a lost end in one partition of two": (
        Story().sent("a", 0, key="x").sent("b", 0, key="y", partition=1).read("a", 0, key="x"),
        {AnomalyKind.UNSEEN},
    ),
    "a duplicate beside itself": (Story().sent("a", 0).read("a", 0).read("a", 1), {AnomalyKind.DUPLICATED}),
    "a duplicate behind others": (
        Story().sent("a", 0).sent("b", 1).read("a", 0).read("b", 1).read("a", 2),
        {AnomalyKind.DUPLICATED},
    ),
    "a duplicate of an unknown record": (
        Story().sent("a", outcome=UNKNOWN).read("a", 0).read("a", 1),
        {AnomalyKind.DUPLICATED},
    ),
    "a duplicate in another partition": (
        Story().sent("a", 0).read("a", 0).read("a", 0, partition=1),
        {AnomalyKind.DUPLICATED, AnomalyKind.SCATTERED},
    ),
    "a duplicate between two passes": (
        Story().sent("a", 0).read("a", 0).read("a", 7, reader="s"),
        {AnomalyKind.DUPLICATED},
    ),
    "two records swapped": (
        Story().sent("a", 1).sent("b", 0).read("b", 0).read("a", 1),
        {AnomalyKind.REORDERED},
    ),
    "a retried record behind its follower": (
        Story().sent("a", outcome=UNKNOWN).sent("b", 0).read("b", 0).read("a", 1),
        {AnomalyKind.REORDERED},
    ),
    "a late record behind many": (
        Story().sent("a", 2).sent("b", 0).sent("c", 1).read("b", 0).read("c", 1).read("a", 2),
        {AnomalyKind.REORDERED},
    ),
    "read elsewhere than acknowledged": (Story().sent("a", 3).read("a", 0), {AnomalyKind.DISPLACED}),
    "read in another partition than acknowledged": (
        Story().sent("a", 0, partition=1).read("a", 0),
        {AnomalyKind.DISPLACED},
    ),
    "one offset, two values over time": (
        Story().sent("a", 0).sent("b", outcome=UNKNOWN).read("a", 0).read("b", 0, reader="s"),
        {AnomalyKind.CONTRADICTORY},
    ),
    "one offset acknowledged to two producers": (
        Story().sent("a", 0, producer="p").sent("b", 0, producer="q").read("a", 0),
        {AnomalyKind.ACKNOWLEDGED_TWICE, AnomalyKind.LOST},
    ),
    "a refused record read": (Story().sent("a", outcome=REFUSED).read("a", 0), {AnomalyKind.RESURRECTED}),
    "a record that nobody sent": (Story().read("a", 0), {AnomalyKind.PHANTOM}),
    "bytes that changed on the way": (
        Story().sent("a", 0).read("A", 0),
        {AnomalyKind.PHANTOM, AnomalyKind.LOST},
    ),
    "a record under another key": (
        Story().sent("a", 0, key="x").read("a", 0, key="y"),
        {AnomalyKind.CHANGED},
    ),
    "a key in two partitions": (
        Story().sent("a", 0).sent("b", 5, partition=1).read("a", 0).read("b", 5, partition=1),
        {AnomalyKind.SCATTERED},
    ),
    "a pass that repeats an offset": (
        Story().sent("a", 0).read("a", 0).read("a", 0),
        {AnomalyKind.READ_BACKWARDS},
    ),
    "a pass that goes back": (
        Story().sent("a", 0).sent("b", 1).read("a", 0).read("b", 1).read("a", 0),
        {AnomalyKind.READ_BACKWARDS},
    ),
    "a pass that skips, where another does not": (
        Story()
        .sent("a", 0)
        .sent("b", 1)
        .sent("c", 2)
        .read("a", 0)
        .read("b", 1)
        .read("c", 2)
        .read("a", 0, reader="s")
        .read("c", 2, reader="s"),
        {AnomalyKind.SKIPPED},
    ),
    "an end that goes back": (Story().end(5).end(4), {AnomalyKind.END_WENT_BACK}),
    "an end that goes back for another observer": (
        Story().end(5, observer="a").end(3, observer="b"),
        {AnomalyKind.END_WENT_BACK},
    ),
    "an end that goes back after rising": (Story().end(1).end(8).end(7).end(9), {AnomalyKind.END_WENT_BACK}),
    "an end back to zero": (Story().end(100).end(0), {AnomalyKind.END_WENT_BACK}),
    "an end that does not cover what was acknowledged": (
        Story().sent("a", 0).read("a", 0).end(0),
        {AnomalyKind.END_BEHIND_ACKNOWLEDGED},
    ),
    "an end that covers all but the last acknowledged": (
        Story().sent("a", 0).sent("b", 1).read("a", 0).read("b", 1).end(1),
        {AnomalyKind.END_BEHIND_ACKNOWLEDGED},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_has_no_anomaly(name: str) -> None:
    assert find_anomalies(GOOD[name].history) == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_shows_exactly_its_anomalies(name: str) -> None:
    story, expected = BAD[name]
    assert story.kinds() == expected


def test_every_kind_of_anomaly_has_a_bad_history() -> None:
    assert {kind for _, kinds in BAD.values() for kind in kinds} == set(AnomalyKind)


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=lambda number: CHECKS[number].__name__)
def test_every_check_is_needed_by_some_bad_history(number: int) -> None:
    """A checker that nothing would miss proves nothing."""
    assert any(list(CHECKS[number](story.history)) for story, _ in BAD.values())
