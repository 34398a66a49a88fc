"""What a member of a group owns: what it is done with, what is taken away, and what its user is told."""

import pytest
from hightide.consumer_group.ownership import OwnershipChange
from hightide.consumer_group.settings import GroupSettings, group_settings_of, topic_streams
from hightide.errors import AddressUnreachableError, InvalidArgumentError, NoCommittedOffsetError
from hightide.records import Record
from hightide.v1.broker_service_pb2 import FetchPartitionResult, FetchResponse
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.consumer_bench import batch
from unit.sdk.group_bench import (
    ANSWER_TIMEOUT_MS,
    GroupBench,
    changes,
    owned,
    parts,
    positions,
    with_coordinator,
)
from unit.sdk.producer_bench import TOPIC_ID

BROKEN = AddressUnreachableError("the connection broke", address="co1:1")


def reading(*partitions: int, **settings: object) -> GroupBench:
    """A member that owns partitions, each with 10 records waiting."""
    bench = GroupBench(**settings).register()  # type: ignore[arg-type]
    bench.give(*(partitions or (0,)))
    bench.serve(**{f"p{each}": batch(0, 10, partition=each) for each in partitions or (0,)})
    bench.ownership.came_back()
    bench.tell_user()
    bench.said()
    return bench


def answered(bench: GroupBench) -> list[str | None]:
    return [message.WhichOneof("message") for message in bench.said()]


def begin(bench: GroupBench) -> list[Record]:
    """The user begins an iteration, and has its first record in hand."""
    chunk = bench.core.take(bench.now_ms)
    assert chunk is not None
    bench.in_delivery.begin(chunk)
    bench.records = bench.in_delivery.iterate()  # type: ignore[attr-defined]
    return [next(bench.records)]  # type: ignore[attr-defined]


# -- starting ------------------------------------------------------------------------------------------------


def test_a_partition_begins_where_the_group_has_come_to() -> None:
    bench = GroupBench().register()
    bench.give(0, offset=40)
    (call,) = bench.fetches
    assert [(each.partition, each.fetch_offset) for each in call.entries] == [(*parts(0), 40)]
    assert answered(bench) == ["start_fetcher"]


def test_a_partition_that_the_asked_broker_has_not_heard_of_yet_is_read_when_it_has() -> None:
    bench = reading()
    bench.answer_metadata(with_coordinator(partition_count=8))
    bench.give(8)
    bench.poll()
    assert not any(parts(8)[0] == each.partition for call in bench.fetches for each in call.entries)
    bench.answer_metadata(with_coordinator(partition_count=8))
    bench.pass_ms(1_000)
    bench.answer_metadata(with_coordinator(partition_count=9))
    bench.pass_ms(1_000)
    assert any(parts(8)[0] == each.partition for call in bench.fetches for each in call.entries)


def test_a_namesake_that_a_broker_has_not_heard_of_yet_is_read_when_it_has() -> None:
    bench = GroupBench().register()
    bench.give(0)
    (call,) = bench.fetches
    bench.fetches = []
    refused = FetchPartitionResult(
        topic_id=TOPIC_ID, error_code=ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID, current_leader=-1
    )
    answer = FetchResponse(partitions=[refused]).SerializeToString()
    bench.core.completed(call, call.decode(answer), bench.now_ms)
    bench.pass_ms(1_000)
    bench.answer_metadata()
    bench.pass_ms(1_000)
    bench.serve(p0=batch(0, 10))
    assert len(bench.user_polls()) == 10


def test_partitions_are_given_by_stream() -> None:
    bench = GroupBench().register()
    bench.give(0, 1, stream=0)
    bench.give(2, stream=1)
    assert bench.ownership.streams() == {0: parts(0, 1), 1: parts(2)}


def test_a_partition_that_is_given_again_in_the_same_generation_goes_on_where_it_is() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.give(0, offset=0)
    assert [record.offset for record in bench.user_polls(1)] == [4]
    assert bench.tell_user() == []


def test_a_partition_that_is_given_in_another_generation_begins_anew() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.give(0, offset=2, generation=5)
    assert changes(bench.tell_user()) == [(OwnershipChange.LOST, [0]), (OwnershipChange.ASSIGNED, [0])]
    bench.ownership.came_back()
    bench.serve(p0=batch(0, 10))
    assert [record.offset for record in bench.user_polls(1)] == [2]


def test_what_was_fetched_for_an_earlier_ownership_is_never_taken_for_a_later_one() -> None:
    bench = reading()
    bench.user_polls(10)
    bench.poll()
    late = list(bench.fetches)
    bench.take(0)
    bench.user_polls()
    bench.give(0, offset=3, generation=2)
    bench.fetches, now = late, bench.fetches
    bench.serve(p0=batch(10, 10))
    assert bench.user_polls() == []
    bench.fetches = now
    bench.serve(p0=batch(0, 10))
    assert [record.offset for record in bench.user_polls(1)] == [3]


def test_an_offset_that_nobody_committed_is_an_error_until_the_user_seeks() -> None:
    bench = GroupBench(offset_reset="error").register()
    bench.give(0, offset=-1)
    with pytest.raises(NoCommittedOffsetError, match="topic flights, partition 0"):
        bench.consumer.raise_errors(bench.now_ms)
    (partition,) = parts(0)
    bench.consumer.seek(partition, 7)
    bench.ownership.sought(partition, 7)
    bench.consumer.raise_errors(bench.now_ms)
    (commit,) = bench.core.commits({partition: 7}, "")
    assert (commit.offset, commit.reset) == (7, True)


# -- stopping ------------------------------------------------------------------------------------------------


def test_an_order_to_stop_is_answered_at_once_where_nothing_is_in_hand() -> None:
    bench = reading(0, 1)
    bench.take(0)
    (answer,) = bench.said()
    assert (answer.WhichOneof("message"), positions(answer)) == ("stop_fetcher", {})
    assert bench.ownership.assignment == parts(1)
    assert {record.partition for record in bench.user_polls()} == {1}


def test_an_order_to_stop_waits_for_the_user_who_has_records_in_hand() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.take(0)
    assert answered(bench) == []
    assert bench.user_polls() == []
    (answer,) = bench.said()
    assert positions(answer) == {0: 4}


def test_a_user_with_records_of_other_partitions_in_hand_is_not_waited_for() -> None:
    bench = reading(0, 1)
    (record,) = bench.user_polls(1)
    other = 1 - record.partition
    bench.take(other)
    assert answered(bench) == ["stop_fetcher"]


def test_an_iteration_ends_with_the_record_in_hand() -> None:
    bench = reading()
    begin(bench)
    assert next(bench.records).offset == 1  # type: ignore[attr-defined]
    bench.take(0)
    assert answered(bench) == []
    assert list(bench.records) == []  # type: ignore[attr-defined]
    assert bench.user_polls() == []
    (answer,) = bench.said()
    assert positions(answer) == {0: 2}


def test_an_iteration_over_other_partitions_goes_on() -> None:
    bench = reading(0, 1)
    (record,) = begin(bench)
    other = 1 - record.partition
    bench.take(other)
    assert list(bench.records) == []  # type: ignore[attr-defined]
    rest = bench.user_polls()
    assert [(each.partition, each.offset) for each in rest] == [(record.partition, at) for at in range(1, 10)]


def test_a_user_who_does_not_come_back_is_answered_for_at_half_of_the_time() -> None:
    bench = reading(tells_revoked=True)
    bench.user_polls(4)
    bench.user_polls(3)
    bench.take(0)
    bench.pass_ms(ANSWER_TIMEOUT_MS / 2 - 1)
    assert answered(bench) == []
    bench.pass_ms(1)
    (answer,) = bench.said()
    assert positions(answer) == {0: 4}
    bench.ownership.came_back()
    assert changes(bench.tell_user()) == [(OwnershipChange.LOST, [0])]
    assert bench.user_polls() == []


def test_a_record_in_hand_is_not_settled_when_a_user_is_answered_for() -> None:
    bench = reading()
    begin(bench)
    assert next(bench.records).offset == 1  # type: ignore[attr-defined]
    bench.take(0)
    bench.pass_ms(ANSWER_TIMEOUT_MS / 2)
    (answer,) = bench.said()
    assert positions(answer) == {0: 1}


def test_a_ping_in_the_middle_of_an_iteration_tells_all_below_the_record_in_hand() -> None:
    bench = reading()
    begin(bench)
    for _ in range(5):
        next(bench.records)  # type: ignore[attr-defined]
    assert positions(bench.ping()[0]) == {0: 5}


def test_what_several_batches_of_one_poll_brought_is_in_hand_until_the_user_is_back() -> None:
    bench = GroupBench().register()
    bench.give(0)
    bench.serve(p0=batch(0, 10) + batch(10, 10))
    bench.ownership.came_back()
    bench.tell_user()
    assert len(bench.user_polls(15)) == 15
    (answer,) = [each for each in bench.ping() if each.WhichOneof("message") == "ping"]
    assert positions(answer) == {}, "a crash now would skip the first batch"
    bench.user_polls(1)
    (answer,) = bench.ping()
    assert positions(answer) == {0: 15}


def test_an_order_to_stop_what_is_not_owned_is_obeyed_already() -> None:
    bench = reading()
    bench.take(5)
    assert answered(bench) == ["stop_fetcher"]
    assert bench.ownership.assignment == parts(0)


def test_an_order_to_stop_an_earlier_ownership_leaves_the_later_one_alone() -> None:
    bench = GroupBench().register()
    bench.give(0, generation=7)
    bench.said()
    bench.take(0, generation=6)
    assert answered(bench) == ["stop_fetcher"]
    assert bench.ownership.assignment == parts(0)


def test_a_partition_that_is_given_while_its_stop_waits_is_kept() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.take(0)
    bench.give(0)
    assert bench.ownership.assignment == parts(0)
    assert [record.offset for record in bench.user_polls(1)] == [4]


# -- telling the user ----------------------------------------------------------------------------------------


def test_the_callback_runs_before_the_order_is_answered() -> None:
    bench = reading(tells_revoked=True)
    bench.take(0)
    assert answered(bench) == []
    event = bench.ownership.next_event()
    assert event is not None
    assert changes([event]) == [(OwnershipChange.REVOKED, [0])]
    assert bench.ownership.next_event() is None
    assert answered(bench) == []
    bench.ownership.told(event)
    assert answered(bench) == ["stop_fetcher"]
    assert not bench.ownership.has_event


def test_what_comes_and_goes_before_the_user_is_told_is_never_told() -> None:
    bench = GroupBench(tells_revoked=True).register()
    bench.give(0, 1)
    bench.take(0)
    assert answered(bench) == ["start_fetcher", "stop_fetcher"]
    assert changes(bench.tell_user()) == [(OwnershipChange.ASSIGNED, [1])]


def test_a_partition_whose_end_the_user_was_told_is_new_if_the_order_was_void() -> None:
    bench = reading(0, 1, tells_revoked=True)
    bench.user_polls(20)
    bench.take(0)
    event = bench.ownership.next_event()
    bench.end(BROKEN)
    assert event is not None
    bench.ownership.told(event)
    bench.register(*owned(0, 1))
    assert changes(bench.tell_user()) == [(OwnershipChange.ASSIGNED, [0])]


def test_a_user_who_closes_is_told_that_all_is_given_back() -> None:
    bench = reading(0, 1, tells_revoked=True)
    assert changes(bench.ownership.farewell()) == [(OwnershipChange.REVOKED, [0, 1])]
    assert bench.user_polls() == []


# -- committing ----------------------------------------------------------------------------------------------


def test_a_commit_without_arguments_is_of_all_that_was_handed_out() -> None:
    bench = reading(auto_commit=False)
    begin(bench)
    (commit,) = bench.core.commits(None, "noted")
    assert (commit.partition, commit.offset, commit.generation, commit.metadata) == (0, 1, 1, "noted")
    bench.ownership.committed([commit], bench.ownership.seek_count)
    assert bench.core.commits(None, "") == []
    assert next(bench.records).offset == 1  # type: ignore[attr-defined]


def test_a_commit_settles_for_pings_too() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.ownership.committed(bench.core.commits(None, ""), bench.ownership.seek_count)
    assert positions(bench.ping()[0]) == {}
    bench.take(0)
    bench.user_polls()
    (answer,) = bench.said()
    assert positions(answer) == {}


def test_what_was_only_told_by_a_ping_is_committed_all_the_same() -> None:
    """A coordinator writes positions down when it pleases, and not while ZooKeeper is away."""
    bench = reading()
    bench.user_polls(4)
    bench.ownership.came_back()
    assert positions(bench.ping()[0]) == {0: 4}
    (commit,) = bench.core.commits(None, "")
    assert (commit.offset, commit.reset) == (4, False)
    bench.ownership.committed([commit], bench.ownership.seek_count)
    assert bench.core.commits(None, "") == []


def test_positions_wait_for_the_commit_of_where_the_user_sought() -> None:
    bench = reading()
    bench.user_polls(8)
    (partition,) = parts(0)
    bench.in_delivery.give_up()
    bench.consumer.seek(partition, 2)
    bench.ownership.sought(partition, 2)
    assert positions(bench.ping()[0]) == {}
    (commit,) = bench.core.commits({partition: 2}, "")
    assert commit.reset
    bench.ownership.committed([commit], bench.ownership.seek_count)
    bench.poll()
    bench.serve(p0=batch(0, 10))
    bench.user_polls(3)
    bench.user_polls(1)
    assert positions(bench.ping()[0]) == {0: 5}


def test_a_commit_of_one_record_settles_nothing_above_it_nor_elsewhere() -> None:
    bench = reading(0, 1)
    bench.user_polls()
    (partition,) = parts(0)
    (commit,) = bench.core.commits({partition: 4}, "")
    bench.ownership.committed([commit], bench.ownership.seek_count)
    (answer,) = bench.ping()
    assert positions(answer) == {}, "the user has all other records still in hand"
    bench.take(1)
    assert bench.said() == []
    bench.user_polls()
    (answer,) = bench.said()
    assert positions(answer) == {1: 10}


def test_a_commit_that_comes_too_late_changes_nothing() -> None:
    bench = reading()
    bench.user_polls(4)
    commits = bench.core.commits(None, "")
    bench.give(0, offset=0, generation=3)
    bench.ownership.committed(commits, bench.ownership.seek_count)
    assert bench.ownership.settled_offset(*parts(0)) == 0


def test_what_is_read_again_below_a_commit_that_came_through_late_is_not_committed_backwards() -> None:
    bench = reading(auto_commit=False)
    bench.user_polls(4)
    commits = bench.core.commits(None, "")
    # The user has the records in hand, waits for the commit, and is answered for. Before anybody else owns
    # the partition the coordinator dies, and the next one gives it back in the same generation.
    bench.take(0)
    bench.pass_ms(ANSWER_TIMEOUT_MS / 2)
    bench.give(0, offset=0)
    bench.ownership.committed(commits, bench.ownership.seek_count)
    bench.poll()
    bench.serve(p0=batch(0, 10))
    bench.ownership.came_back()
    assert [record.offset for record in bench.user_polls(2)] == [0, 1]
    bench.ownership.connection_lost()
    assert bench.core.commits(None, "") == [], "4 is committed"
    assert [record.offset for record in bench.user_polls(4)] == [2, 3, 4, 5]
    (commit,) = bench.core.commits(None, "")
    assert (commit.offset, commit.reset) == (6, False)


# -- pausing -------------------------------------------------------------------------------------------------


def test_what_is_paused_waits_and_comes_first_when_it_is_resumed() -> None:
    bench = reading(0, 1)
    paused, other = parts(0, 1)
    bench.consumer.pause(paused)
    assert {record.partition for record in bench.user_polls()} == {1}
    bench.consumer.resume(paused)
    assert [record.offset for record in bench.user_polls()] == list(range(10))
    assert bench.consumer.paused() == ()
    assert other in bench.consumer.positions


def test_what_is_paused_is_not_fetched() -> None:
    bench = GroupBench().register()
    bench.give(0)
    bench.serve()
    bench.consumer.pause(*parts(0))
    bench.poll()
    assert bench.fetches == []
    bench.consumer.resume(*parts(0))
    bench.poll()
    assert len(bench.fetches) == 1


def test_a_seek_in_a_pause_drops_what_waited() -> None:
    bench = reading()
    bench.user_polls(1)
    bench.in_delivery.give_up()
    bench.consumer.pause(*parts(0))
    assert bench.user_polls() == []
    bench.consumer.seek(parts(0)[0], 7)
    bench.consumer.resume(*parts(0))
    assert bench.user_polls() == []
    bench.poll()
    bench.serve(p0=batch(0, 10))
    assert [record.offset for record in bench.user_polls()] == [7, 8, 9]


# -- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group": "a/b"}, "group is 'a/b'"),
        ({"group": ""}, "group is ''"),
        ({"group": ".."}, "group is '..'"),
        ({"consumer_id": "ä"}, "consumer_id is 'ä'"),
        ({"exclude": ("b.*",)}, "needs a pattern"),
        ({"pattern": "a.*"}, "both topics= and pattern="),
        ({"pattern_streams": 0}, "pattern_streams is 0"),
        ({"session_timeout_ms": 0}, "session_timeout_ms is 0"),
        ({"commit_interval_ms": -1}, "commit_interval_ms is -1"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_connects(
    settings: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        GroupSettings(**{"group": "g", "topics": {"t": 1}, **settings})  # type: ignore[arg-type]


def test_topics_come_as_a_name_as_names_or_with_their_streams() -> None:
    assert topic_streams("t") == {"t": 1}
    assert topic_streams(["t", "u"]) == {"t": 1, "u": 1}
    assert topic_streams({"t": 3}) == {"t": 3}
    with pytest.raises(InvalidArgumentError, match="topic t is 65"):
        topic_streams({"t": 65})


def test_what_means_nothing_without_a_group_is_refused() -> None:
    plain: dict[str, object] = dict.fromkeys(("group", "topics", "consumer_id", "instance_id", "assignor"))
    plain |= {"pattern": None, "exclude": ()}
    numbers = {"pattern_streams": 1, "commit_interval_ms": 1, "session_timeout_ms": 1}
    rest = {"auto_commit": True, "offset_reset": "earliest", "unavailable_timeout_ms": 1}
    with pytest.raises(InvalidArgumentError, match="needs a group"):
        group_settings_of(**{**plain, **numbers, **rest, "pattern": "a.*"})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="needs a group"):
        group_settings_of(**{**plain, **numbers, **rest, "exclude": "a.*"})  # type: ignore[arg-type]
