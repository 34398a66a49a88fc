"""What a member of a group commits when its log has lost records that it has read (KIP-320)."""

from typing import Any

import pytest
from hightide import Consumer
from hightide.calls.call import Call, Method
from hightide.cluster.offset_at import EARLIEST
from hightide.consumer_group.group_core import GOING_BACK_TIMEOUT_MS
from hightide.consuming.fetch_call import FetchCall
from hightide.consuming.list_offsets_call import LookUpCall
from hightide.errors import BrokersUnavailableError
from hightide.v1.broker_service_pb2 import (
    FetchPartitionResult,
    FetchResponse,
    ListOffsetsPartitionResult,
    ListOffsetsResponse,
)
from hightide.v1.coordinator_service_pb2 import (
    CommitOffsetsRequest,
    CommitOffsetsResponse,
    OffsetCommit,
    OffsetCommitResult,
    StartFetcher,
)
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.consumer_bench import P0, batch
from unit.sdk.group_bench import GroupBench, parts, positions, starts
from unit.sdk.producer_bench import TOPIC, TOPIC_ID, metadata
from unit.sdk.producing.test_closing import NOBODY


def has_read(*, auto_commit: bool) -> GroupBench:
    """A member that has read and settled 0 to 29 of partition 0, and waits for more."""
    bench = GroupBench(auto_commit=auto_commit).register()
    bench.give(0)
    bench.serve(p0=batch(0, 30))
    assert len(bench.user_polls()) == 30
    assert bench.user_polls() == []
    return bench


def lose_all_from(bench: GroupBench, offset: int) -> None:
    """The leader says that it has nothing from this offset on, and has 5 other records there."""
    for answer in (
        FetchPartitionResult(
            topic_id=TOPIC_ID, error_code=ErrorCode.ERROR_CODE_DIVERGING_LOG, diverging_end_offset=offset,
            diverging_epoch=1, current_leader=-1,
        ),
        FetchPartitionResult(
            topic_id=TOPIC_ID, batches=batch(offset, 5), current_leader=-1, high_watermark=offset + 5
        ),
    ):  # fmt: skip
        bench.poll()
        call = bench.fetches.pop()
        assert isinstance(call, FetchCall)
        bench.core.completed(
            call, call.decode(FetchResponse(partitions=[answer]).SerializeToString()), bench.now_ms
        )
    bench.poll()


def committed(bench: GroupBench) -> list[OffsetCommit]:
    """The commit that is under way."""
    request = CommitOffsetsRequest.FromString(bench.commits[-1].encode())
    return list(request.offsets)


def answer_commit(bench: GroupBench, error_code: int = 0) -> None:
    result = OffsetCommitResult(error_code=ErrorCode.ValueType(error_code))
    call = bench.commits.pop()
    bench.core.completed(call, CommitOffsetsResponse(offsets=[result]), bench.now_ms)
    bench.poll()


def test_with_auto_commit_it_commits_that_it_went_back() -> None:
    bench = has_read(auto_commit=True)
    assert positions(bench.ping()[-1]) == {0: 30}
    lose_all_from(bench, 12)
    (reset,) = committed(bench)
    assert (reset.offset, reset.leader_epoch, reset.reset) == (12, 1, True)
    assert positions(bench.ping()[-1]) == {}, "first the reset has to be durable"
    answer_commit(bench)
    assert [record.offset for record in bench.user_polls()] == [12, 13, 14, 15, 16]
    assert bench.user_polls() == []
    assert positions(bench.ping()[-1]) == {0: 17}
    assert bench.commits == []


def answer_out_of_range(bench: GroupBench, earliest: int) -> None:
    """The leader has nothing at the offset that is asked for, whenever it is asked, and begins there."""
    answer = FetchPartitionResult(
        topic_id=TOPIC_ID,
        error_code=ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE,
        current_leader=-1,
        log_start_offset=earliest,
    )
    calls: list[Call[Any]] = [bench.fetches.pop()]
    while not any(isinstance(each, LookUpCall) for each in calls):
        for call in calls:
            if isinstance(call, FetchCall):
                told = call.decode(FetchResponse(partitions=[answer]).SerializeToString())
                bench.core.completed(call, told, bench.now_ms)
            elif call.method is Method.GET_METADATA:
                bench.core.completed(call, metadata([1, 1, 1]), bench.now_ms)
        bench.now_ms += 50
        calls = bench.core.poll(bench.now_ms)
    (look_up,) = (each for each in calls if isinstance(each, LookUpCall))
    answers = ListOffsetsResponse(partitions=[ListOffsetsPartitionResult(offset=earliest)])
    bench.core.completed(look_up, answers, bench.now_ms)
    bench.poll()


def test_where_nothing_is_left_of_what_was_committed_it_commits_that_it_went_back() -> None:
    bench = GroupBench(auto_commit=True).register()
    bench.give(0, offset=1_000)
    answer_out_of_range(bench, earliest=0)
    (reset,) = committed(bench)
    assert (reset.offset, reset.reset) == (0, True)
    answer_commit(bench)
    bench.serve(p0=batch(0, 5))
    assert len(bench.user_polls()) == 5
    assert bench.user_polls() == []
    assert positions(bench.ping()[-1]) == {0: 5}


def test_a_group_that_retention_has_passed_goes_forward_as_ever() -> None:
    bench = GroupBench(auto_commit=True).register()
    bench.give(0, offset=3)
    answer_out_of_range(bench, earliest=7)
    assert bench.commits == []
    bench.serve(p0=batch(7, 5))
    bench.user_polls()
    assert bench.user_polls() == []
    assert positions(bench.ping()[-1]) == {0: 12}


def test_a_reset_that_failed_is_tried_again_and_not_at_once() -> None:
    bench = has_read(auto_commit=True)
    lose_all_from(bench, 12)
    answer_commit(bench, ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE)
    assert bench.commits == []
    assert bench.core.wake_at_ms is not None
    bench.pass_ms(bench.core.wake_at_ms - bench.now_ms)
    bench.pass_ms(1_000)
    assert [each.offset for each in committed(bench)] == [12]


def test_with_commits_by_hand_the_next_one_goes_back() -> None:
    bench = has_read(auto_commit=False)
    lose_all_from(bench, 12)
    assert bench.commits == []
    (commit,) = bench.core.commits(None, "")
    assert (commit.offset, commit.reset) == (12, True)
    bench.ownership.committed([commit], bench.ownership.seek_count)
    assert bench.core.commits(None, "") == []


def test_a_user_in_the_middle_of_what_is_lost_does_not_commit_it() -> None:
    bench = GroupBench(auto_commit=True).register()
    bench.give(0)
    bench.serve(p0=batch(0, 30))
    assert len(bench.user_polls(20)) == 20
    lose_all_from(bench, 12)
    assert [each.offset for each in committed(bench)] == [12]
    answer_commit(bench)
    assert positions(bench.ping()[-1]) == {}
    assert [record.offset for record in bench.user_polls()] == [12, 13, 14, 15, 16]
    assert bench.ownership.settled_offset(P0) == 12
    bench.user_polls()
    assert positions(bench.ping()[-1]) == {0: 17}


def test_a_partition_that_is_taken_away_meanwhile_is_not_reset() -> None:
    bench = has_read(auto_commit=True)
    lose_all_from(bench, 12)
    answer_commit(bench, ErrorCode.ERROR_CODE_FENCED_GENERATION)
    bench.take(0)
    bench.said()
    bench.pass_ms(5_000)
    assert bench.ownership.assignment == ()
    assert bench.commits == []
    assert parts(0)[0] not in bench.consumer.positions


def test_a_goodbye_waits_for_the_commit_that_it_went_back_and_then_tells_how_far_it_came_since() -> None:
    bench = has_read(auto_commit=True)
    lose_all_from(bench, 12)
    assert len(bench.user_polls()) == 5
    bench.ownership.came_back()
    bench.said()
    bench.core.leave(bench.now_ms)
    bench.poll()
    assert bench.said() == [], "it would have to leave out where it is"
    answer_commit(bench)
    (goodbye,) = bench.said()
    assert positions(goodbye) == {0: 17}


def test_a_goodbye_does_not_wait_for_ever_for_the_commit_that_it_went_back() -> None:
    bench = has_read(auto_commit=True)
    lose_all_from(bench, 12)
    bench.said()
    bench.core.leave(bench.now_ms)
    bench.pass_ms(GOING_BACK_TIMEOUT_MS)
    assert [each.WhichOneof("message") for each in bench.said()] == ["goodbye"]


def test_a_member_that_did_not_go_back_says_goodbye_at_once() -> None:
    bench = has_read(auto_commit=True)
    bench.said()
    bench.core.leave(bench.now_ms)
    bench.poll()
    (goodbye,) = bench.said()
    assert positions(goodbye) == {0: 30}


def test_a_seek_during_the_commit_that_it_went_back_is_committed_all_the_same() -> None:
    bench = has_read(auto_commit=True)
    bench.ping()
    lose_all_from(bench, 12)
    bench.ownership.sought(P0, 5)
    answer_commit(bench)
    assert bench.ownership.owned[P0].is_reset
    assert positions(bench.ping()[-1]) == {}
    (seek,) = bench.core.commits({P0: 5}, "")
    assert seek.reset


def test_a_seek_to_where_nobody_could_tell_is_committed_later_and_commits_go_on() -> None:
    """seek_to_beginning() raised that the leader cannot be reached. The records were read from there on
    later, and nothing was committed before all were read again."""
    bench = has_read(auto_commit=True)
    bench.ping()
    bench.consumer.reset(P0, EARLIEST)
    bench.core.sought(P0, None)
    (look_up,) = (each for each in bench.core.poll(bench.now_ms) if isinstance(each, LookUpCall))
    assert positions(bench.ping()[-1]) == {}
    answers = ListOffsetsResponse(partitions=[ListOffsetsPartitionResult(offset=0)])
    bench.core.completed(look_up, answers, bench.now_ms)
    bench.poll()
    bench.serve(p0=batch(0, 5))
    assert len(bench.user_polls()) == 5
    assert bench.commits == [], "the user has them in hand"
    assert bench.user_polls() == []
    bench.pass_ms(1_000)
    assert [(each.offset, each.reset) for each in committed(bench)] == [(5, True)]
    answer_commit(bench)
    bench.serve(p0=batch(5, 5))
    assert len(bench.user_polls()) == 5
    assert bench.user_polls() == []
    assert positions(bench.ping()[-1]) == {0: 10}


def test_with_commits_by_hand_too_the_next_one_goes_back_to_where_nobody_could_tell() -> None:
    bench = has_read(auto_commit=False)
    bench.ownership.committed(bench.core.commits(None, ""), bench.ownership.seek_count)
    bench.consumer.reset(P0, EARLIEST)
    bench.core.sought(P0, None)
    assert bench.core.commits(None, "") == []
    bench.consumer.positions[P0].found(0)
    (commit,) = bench.core.commits(None, "")
    assert (commit.offset, commit.reset) == (0, True)


def test_seek_to_beginning_notes_where_it_is_to_go_before_anything_can_fail() -> None:
    with Consumer(NOBODY, group="readers", topics=[TOPIC], unavailable_timeout_ms=1) as consumer:
        member = consumer._member
        assert member is not None
        ownership = member.core.ownership
        ownership.start(StartFetcher(streams=starts(0, offset=30)))
        with pytest.raises(BrokersUnavailableError):
            consumer.seek_to_beginning(P0)
        assert ownership.owned[P0].is_reset
        assert ownership.owned[P0].settled is None
        with consumer._changed:
            member.core.left()


def test_a_seek_whose_commit_failed_is_committed_later_and_commits_go_on() -> None:
    """seek() raised that there is no coordinator. Nothing of the partition would be committed again."""
    bench = has_read(auto_commit=True)
    bench.ping()
    bench.consumer.seek(P0, 5)
    bench.ownership.sought(P0, 5)
    seek = bench.core.commits({P0: 5}, "")
    bench.core.committed(seek, [], bench.core.commit_now(seek))
    bench.poll()
    assert [(each.offset, each.reset) for each in committed(bench)] == [(5, True)]
    answer_commit(bench)
    bench.serve(p0=batch(5, 5))
    assert len(bench.user_polls()) == 5
    assert bench.user_polls() == []
    assert positions(bench.ping()[-1]) == {0: 10}
