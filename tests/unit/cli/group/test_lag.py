"""A group's lag: what it is, how fast it shrinks, and how that reads."""

import json

from hightide import PartitionLag, TopicPartition
from hightide_cli.group.lag_table import (
    furthest_behind,
    lag_document,
    lag_sentence,
    lag_table,
    watched_lag_document,
)
from hightide_cli.group.lag_watch import LagHistory, LagPace
from hightide_cli.printing.rendering import json_line

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def line(
    partition: TopicPartition, committed: int | None, end: int | None, owner: str | None = None
) -> PartitionLag:
    lag = None if committed is None or end is None else end - committed
    return PartitionLag(partition, committed, end, lag, owner)


def lines(committed: int, end: int) -> list[PartitionLag]:
    return [line(P0, committed, end, "c-1")]


def test_a_first_look_knows_no_pace() -> None:
    pace = LagHistory().look(5.0, lines(40, 100))
    assert (pace.lag, pace.read_per_s, pace.seconds_left, pace.stalled_s) == (60, None, None, 0.0)


def test_the_pace_is_that_of_the_last_looks() -> None:
    history = LagHistory()
    history.look(0.0, lines(0, 100))
    pace = history.look(2.0, lines(40, 120))
    assert (pace.read_per_s, pace.written_per_s, pace.seconds_left) == (20.0, 10.0, 8.0)
    for second in range(3, 40):
        pace = history.look(float(second), lines(40, 120))
    assert pace.read_per_s == 0.0


def test_a_group_that_reads_slower_than_others_write_never_catches_up() -> None:
    history = LagHistory()
    history.look(0.0, lines(0, 100))
    assert history.look(1.0, lines(10, 120)).seconds_left is None


def test_a_reset_is_no_pace() -> None:
    history = LagHistory()
    history.look(0.0, lines(90, 100))
    assert history.look(1.0, lines(10, 100)).read_per_s is None
    assert history.look(2.0, lines(15, 100)).read_per_s == 5.0


def test_a_partition_that_is_committed_for_the_first_time_is_no_pace() -> None:
    history = LagHistory()
    history.look(0.0, [line(P0, 10, 100), line(P1, None, 50)])
    assert history.look(1.0, [line(P0, 10, 100), line(P1, 50, 50)]).read_per_s is None


def test_it_is_told_when_nothing_was_committed_for_long_though_there_is_something_to_read() -> None:
    history = LagHistory()
    history.look(0.0, lines(40, 100))
    assert history.look(10.0, lines(40, 120)).stalled_s == 0.0
    assert history.look(20.0, lines(40, 130)).stalled_s == 20.0
    assert history.look(21.0, lines(50, 130)).stalled_s == 0.0


def test_a_group_that_has_read_everything_is_not_stalled() -> None:
    history = LagHistory()
    for second in (0.0, 30.0):
        pace = history.look(second, lines(100, 100))
    assert pace.stalled_s == 0.0


def test_a_table_shows_where_nothing_is_committed_and_nobody_reads() -> None:
    text = lag_table([line(P0, 40, 100, "c-1"), line(P1, None, 7)])
    assert text.splitlines() == [
        "TOPIC  PARTITION  COMMITTED  END  LAG  CONSUMER",
        "t              0         40  100   60  c-1",
        "t              1          -    7    -  -",
    ]


def test_all_is_one_line() -> None:
    pace = LagPace(12_345, 6, 0, 0, 0, 3_400.4, 1_200.0, 5.6, 0.0)
    assert lag_sentence(pace) == "lag 12,345 in 6 partitions, 3,400/s read, 1,200/s written, 6 s left"
    assert lag_sentence(LagPace(0, 1, 0, 0, 0, None, None, None, 0.0)) == "lag 0 in 1 partition"
    assert lag_sentence(LagPace(9, 3, 1, 2, 0, 0.0, 1.0, None, 20.0)) == (
        "lag 9 in 3 partitions, nothing was committed for 20 s, 1 without a committed offset, "
        "2 read by nobody"
    )


def test_a_partition_that_was_deleted_has_no_lag_and_is_told() -> None:
    pace = LagHistory().look(0.0, [line(P0, 4, 9), line(P1, 7, None)])
    assert (pace.lag, pace.gone_count) == (5, 1)
    assert "1 not there any more" in lag_sentence(pace)


def test_where_not_all_have_room_those_furthest_behind_are_shown_in_their_order() -> None:
    many = [line(P0, 5, 10), line(P1, 10, 10), line(P2, 0, 10)]
    assert [each.partition for each in furthest_behind(many, 2)] == [P0, P2]
    assert furthest_behind(many, 9) == many


def test_programs_get_the_same() -> None:
    both = [line(P0, 40, 100, "c-1"), line(P2, None, 7)]
    document = json.loads(json_line(lag_document("g", both)))
    assert document == {
        "group": "g",
        "lag": 60,
        "partitions": [
            {"topic": "t", "partition": 0, "committed": 40, "end": 100, "lag": 60, "consumer": "c-1"},
            {"topic": "t", "partition": 2, "committed": None, "end": 7, "lag": None, "consumer": None},
        ],
    }
    watched = watched_lag_document("g", both, LagPace(60, 2, 1, 1, 0, 5.0, 1.0, 15.0, 0.0))
    assert (watched["read_per_s"], watched["seconds_left"]) == (5.0, 15.0)
