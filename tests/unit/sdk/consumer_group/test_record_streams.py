"""A member that is divided into streams: each has a user of its own, with its own records and partitions."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hightide.consumer_group.hand import Hand
from hightide.consumer_group.ownership import AssignmentEvent, OwnershipChange
from hightide.errors import InvalidArgumentError
from hightide.records import Record
from unit.sdk.consumer_bench import batch
from unit.sdk.group_bench import GroupBench, changes, parts, positions


class Divided:
    """A member with two streams, the first of which reads partition 0 and the second partition 1, with twenty
    records each, in batches of ten."""

    def __init__(self, *, tells_revoked: bool = False) -> None:
        self.bench = GroupBench(topics={"flights": 2}, tells_revoked=tells_revoked).register()
        self.bench.ownership.divide(2)
        self.bench.give(0, stream=0)
        self.bench.give(1, stream=1)
        self.bench.serve(
            p0=batch(0, 10) + batch(10, 10), p1=batch(0, 10, partition=1) + batch(10, 10, partition=1)
        )
        self.first, self.second = self.bench.ownership.hands
        for hand in (self.first, self.second):
            self.comes_back(hand)
        self.bench.said()

    def comes_back(self, hand: Hand) -> list[AssignmentEvent]:
        """The user of a stream asks for more, and is told."""
        self.bench.core.came_back(self.bench.now_ms, hand)
        told = []
        while (event := self.bench.ownership.next_event(hand)) is not None:
            told.append(event)
            self.bench.ownership.told(event)
        self.bench.poll()
        return told

    def reads(self, hand: Hand) -> Iterator[Record]:
        """The loop of a stream, while there are records."""
        while True:
            self.comes_back(hand)
            if not hand.in_delivery.has_records:
                chunk = self.bench.core.take(self.bench.now_ms, hand)
                if chunk is None:
                    return
                hand.in_delivery.begin(chunk)
            yield from hand.in_delivery.iterate()


def places(records: list[Record]) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in records]


def test_each_stream_reads_its_own_partitions_in_order_whoever_comes_first() -> None:
    divided = Divided()
    second = divided.reads(divided.second)
    begun = [next(second), next(second)]
    assert places(list(divided.reads(divided.first))) == [(0, offset) for offset in range(20)]
    assert places([*begun, *second]) == [(1, offset) for offset in range(20)]


def test_a_stream_that_goes_on_settles_no_record_of_another_stream() -> None:
    divided = Divided()
    first, second = divided.reads(divided.first), divided.reads(divided.second)
    for _ in range(3):
        next(first)
    for _ in range(15):
        next(second)
    assert positions(divided.bench.ping()[0]) == {0: 2, 1: 14}


def test_a_commit_of_a_stream_leaves_out_what_another_one_has() -> None:
    divided = Divided()
    first, second = divided.reads(divided.first), divided.reads(divided.second)
    for _ in range(11):
        next(first)
    for _ in range(3):
        next(second)
    commits = divided.bench.core.commits_of(divided.second, "")
    assert [(each.partition, each.offset) for each in commits] == [(1, 3)]


def test_a_commit_of_all_that_was_returned_is_refused_since_others_have_records_in_hand() -> None:
    divided = Divided()
    with pytest.raises(InvalidArgumentError, match=r"commit\(\) of each stream"):
        divided.bench.core.commits(None, "")
    assert divided.bench.core.commits({parts(0)[0]: 4}, "")[0].offset == 4


def test_a_partition_goes_to_another_stream_when_no_record_of_it_is_in_hand() -> None:
    divided = Divided()
    first, second = divided.reads(divided.first), divided.reads(divided.second)
    taken = [next(first) for _ in range(3)]
    divided.bench.give(0, stream=1)
    later = list(second)
    assert {each.partition for each in later} == {1}, "a record of partition 0 is in hand"
    assert places(taken) == [(0, 0), (0, 1), (0, 2)]
    assert list(first) == [], "it is not this stream's any more"
    rest = places(list(divided.reads(divided.second)))
    assert rest == [(0, offset) for offset in range(3, 20)]


def test_batches_that_wait_for_a_stream_follow_their_partition_to_another_one_in_order() -> None:
    divided = Divided()
    first = divided.reads(divided.first)
    assert len([next(first) for _ in range(10)]) == 10, "a whole batch, of which nothing is put back"
    assert len(list(divided.reads(divided.second))) == 20, (
        "the next one of partition 0 was sorted out meanwhile"
    )
    divided.bench.give(0, stream=1)
    divided.bench.serve(p0=batch(20, 10))
    divided.comes_back(divided.first)
    assert places(list(divided.reads(divided.second))) == [(0, offset) for offset in range(10, 30)]


def test_each_stream_is_told_of_its_own_partitions() -> None:
    divided = Divided(tells_revoked=True)
    divided.bench.give(2, stream=1)
    assert divided.comes_back(divided.first) == []
    assert changes(divided.comes_back(divided.second)) == [(OwnershipChange.ASSIGNED, [2])]
    divided.bench.take(0, 1)
    assert changes(divided.comes_back(divided.second)) == [(OwnershipChange.REVOKED, [1])]
    assert changes(divided.comes_back(divided.first)) == [(OwnershipChange.REVOKED, [0])]


def test_an_order_to_stop_waits_for_the_stream_that_has_records_of_the_partition_in_hand() -> None:
    divided = Divided()
    first, second = divided.reads(divided.first), divided.reads(divided.second)
    next(first), next(second)
    divided.bench.take(0)
    divided.comes_back(divided.second)
    assert divided.bench.said() == [], "the first stream is not back"
    divided.comes_back(divided.first)
    (answer,) = divided.bench.said()
    assert positions(answer) == {0: 1}


def test_a_seek_ends_what_a_stream_has_of_the_partition() -> None:
    divided = Divided()
    first = divided.reads(divided.first)
    next(first)
    divided.bench.consumer.seek(parts(0)[0], 5)
    divided.bench.ownership.sought(parts(0)[0], 5)
    divided.bench.ownership.interrupt()
    assert list(first) == []
    divided.bench.poll()
    divided.bench.serve(p0=batch(5, 5))
    assert places(list(divided.reads(divided.first))) == [(0, offset) for offset in range(5, 10)]


def test_a_slow_stream_leaves_the_others_their_share_of_the_room() -> None:
    divided = Divided()
    consumer = divided.bench.consumer
    waiting = consumer.buffered_bytes
    consumer.settings = replace(consumer.settings, prefetch_bytes=waiting, fetch_max_bytes=1)
    divided.bench.serve()
    divided.bench.poll()
    assert divided.bench.fetches == []
    list(divided.reads(divided.second))
    asked = [each.partition.partition for call in divided.bench.fetches for each in call.entries]
    assert asked == [1], "the first stream has enough, and does not keep the second one from more"


def test_with_more_streams_in_a_later_subscription_nothing_is_left_unread() -> None:
    divided = Divided()
    divided.bench.give(2, 3, stream=3)
    divided.bench.serve(p2=batch(0, 1, partition=2), p3=batch(0, 1, partition=3))
    assert {each.partition for each in divided.reads(divided.second)} == {1, 2, 3}
