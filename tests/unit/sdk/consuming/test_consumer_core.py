"""Where a consumer reads on: positions, prefetching, leader changes, retention."""

import pytest
from hightide.cluster.offset_at import EARLIEST, offset_at_time
from hightide.consuming.fetch_call import FetchCall
from hightide.consuming.list_offsets_call import LookUpCall
from hightide.errors import (
    AddressUnreachableError,
    BrokersUnavailableError,
    CorruptBatchError,
    NotAssignedError,
    OffsetOutOfRangeError,
    PartitionOfflineError,
    UnexpectedAnswerError,
    UnknownPartitionError,
    UnknownTopicError,
)
from hightide.records import TopicPartition
from hightide.v1.broker_service_pb2 import OFFSET_SPEC_TIMESTAMP, ListOffsetsRequest
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.consumer_bench import P0, P1, ConsumerBench, batch, offsets
from unit.sdk.producer_bench import TOPIC, metadata, no_topic

UNREACHABLE = AddressUnreachableError("b1:1 cannot be reached", address="b1:1")


def test_it_looks_up_the_first_offset_and_fetches_from_there() -> None:
    bench = ConsumerBench().started_at(40)
    call = bench.fetch()
    assert [entry.fetch_offset for entry in call.entries] == [40]
    bench.answer(call, batch(40, 10), batch(50, 5))
    assert offsets(bench.chunks()) == [(40, 50), (50, 55)]
    assert bench.core.positions[P0].position == 55
    assert bench.fetch().entries[0].fetch_offset == 55


def test_a_batch_that_begins_below_the_position_is_trimmed() -> None:
    bench = ConsumerBench().started_at(0)
    bench.core.seek(P0, 47)
    bench.answer(bench.fetch(), batch(40, 10))
    assert offsets(bench.chunks()) == [(47, 50)]


def test_a_batch_that_ends_below_the_position_is_dropped() -> None:
    bench = ConsumerBench().started_at(0)
    bench.core.seek(P0, 50)
    bench.answer(bench.fetch(), batch(40, 10), batch(50, 1))
    assert offsets(bench.chunks()) == [(50, 51)]


def test_what_comes_for_an_older_position_is_dropped() -> None:
    bench = ConsumerBench().started_at(0)
    late = bench.fetch()
    bench.core.seek(P0, 500)
    assert bench.fetch().entries[0].fetch_offset == 500
    bench.answer(late, batch(0, 10))
    assert bench.chunks() == []


def test_what_comes_for_a_later_position_is_not_taken_for_what_lies_before_it() -> None:
    bench = ConsumerBench().started_at(500)
    late = bench.fetch()
    bench.core.seek(P0, 0)
    bench.answer(late, batch(500, 10))
    assert bench.chunks() == []
    bench.answer(bench.fetch(), batch(0, 10))
    assert offsets(bench.chunks()) == [(0, 10)]


def test_what_waits_is_dropped_by_a_seek() -> None:
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), batch(0, 10))
    bench.core.seek(P0, 3)
    assert bench.chunks() == []
    assert bench.core.buffered_bytes == 0


def test_one_long_poll_a_leader_carries_all_its_partitions() -> None:
    bench = ConsumerBench(leaders=(1, 2, 1), assign=[TopicPartition(TOPIC, at) for at in range(3)])
    for call in bench.pending:
        assert isinstance(call, LookUpCall)
        bench.answer_look_up(call, 0)
    found = {}
    for fetch in bench.calls():
        assert isinstance(fetch, FetchCall)
        found[fetch.address] = sorted(entry.partition.partition for entry in fetch.entries)
    assert found == {"b1:1": [0, 2], "b2:2": [1]}


def test_prefetching_stops_at_the_limit_and_goes_on_when_something_is_taken() -> None:
    bench = ConsumerBench(prefetch_bytes=50_000, fetch_max_bytes=50_000).started_at(0)
    bench.answer(bench.fetch(), batch(0, 10, size_bytes=6_000))
    assert bench.calls() == []
    assert bench.core.next_chunk() is not None
    assert bench.core.wants_poll
    assert len(bench.calls()) == 1


def test_not_leader_goes_to_the_leader_that_was_named() -> None:
    bench = ConsumerBench().started_at(7)
    bench.answer(
        bench.fetch(), error_code=ErrorCode.ERROR_CODE_NOT_LEADER, current_leader=3, current_leader_epoch=2
    )
    call = bench.fetch()
    assert (call.address, call.entries[0].fetch_offset, call.entries[0].leader_epoch) == ("b3:3", 7, 2)


def test_a_leader_that_is_behind_is_asked_again_and_so_are_others_who_leads() -> None:
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_UNKNOWN_LEADER_EPOCH)
    assert bench.calls() == []
    bench.answer_metadata(metadata({0: (3, 9)}))
    call = bench.fetch()
    assert (call.address, call.entries[0].leader_epoch) == ("b3:3", 9)


def test_an_unreachable_leader_is_replaced_as_soon_as_metadata_says() -> None:
    bench = ConsumerBench().started_at(7)
    bench.fail(bench.fetch(), UNREACHABLE)
    assert bench.calls() == []
    assert bench.asked[-1].address != "b1:1"
    bench.answer_metadata(metadata({0: (2, 2)}))
    assert bench.fetch().address == "b2:2"


def test_a_silent_leader_is_left_once_others_name_a_new_one() -> None:
    bench = ConsumerBench(fetch_max_wait_ms=500).started_at(7)
    call = bench.fetch()
    bench.calls()
    bench.pass_ms(1_500)
    bench.calls()
    bench.answer_metadata(metadata({0: (2, 2)}))
    assert bench.core.cancelled == [call]
    bench.fail(call, UNREACHABLE)
    bench.pass_ms(100)
    assert bench.fetch().address == "b2:2"


def test_an_offset_that_retention_has_passed_is_reset_loudly() -> None:
    bench = ConsumerBench().started_at(7)
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE, log_start_offset=90)
    assert "flights-0: offset 7 is out of range" in bench.warned()
    (call,) = bench.calls()
    assert isinstance(call, LookUpCall)
    bench.answer_look_up(call, 90)
    assert bench.fetch().entries[0].fetch_offset == 90


def test_with_offset_reset_error_it_is_raised() -> None:
    bench = ConsumerBench(offset_reset="error").started_at(7)
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE, log_start_offset=90)
    with pytest.raises(OffsetOutOfRangeError, match="partition 0"):
        bench.core.raise_errors(bench.now_ms)
    bench.core.seek(P0, 0)
    bench.core.raise_errors(bench.now_ms)
    assert bench.fetch().entries[0].fetch_offset == 0


def test_latest_begins_at_the_high_watermark() -> None:
    bench = ConsumerBench(offset_reset="latest")
    (call,) = bench.pending
    assert isinstance(call, LookUpCall)
    assert b"\x20\x02" in call.encode(), "spec = LATEST"


def test_a_time_after_the_last_record_means_the_end() -> None:
    bench = ConsumerBench().started_at(0)
    bench.core.reset(P0, offset_at_time(10**15))
    for offset in (77, -1):
        (call,) = bench.calls()
        assert isinstance(call, LookUpCall)
        bench.answer_look_up(call, offset)
    assert bench.fetch().entries[0].fetch_offset == 77


def test_a_record_that_comes_while_a_time_is_looked_up_is_not_passed_over() -> None:
    """There was none as late, then it came, and then the end was asked for, which was behind it."""
    bench = ConsumerBench().started_at(0)
    bench.core.reset(P0, offset_at_time(10**15))
    ends = iter(range(77, 99))
    while not isinstance(call := bench.calls()[0], FetchCall):
        assert isinstance(call, LookUpCall)
        (asked,) = ListOffsetsRequest.FromString(call.encode()).partitions
        end = next(ends)
        late_enough = 77 if end > 77 else -1
        bench.answer_look_up(call, late_enough if asked.spec == OFFSET_SPEC_TIMESTAMP else end)
    assert call.entries[0].fetch_offset == 77


def test_where_a_paused_partition_is_to_go_on_is_looked_up() -> None:
    """position() waited for ever, and in a group seek_to_beginning(), too."""
    bench = ConsumerBench().started_at(7)
    bench.core.pause(P0)
    bench.core.reset(P0, EARLIEST)
    (call,) = bench.calls()
    assert isinstance(call, LookUpCall)
    bench.answer_look_up(call, 3)
    assert bench.core.position_of(P0).position == 3
    assert bench.calls() == [], "nothing is fetched"
    bench.core.resume(P0)
    assert bench.fetch().entries[0].fetch_offset == 3


def test_a_batch_with_changed_bytes_is_an_error_that_names_the_place() -> None:
    bench = ConsumerBench().started_at(0)
    spoilt = bytearray(batch(0, 10))
    spoilt[100] ^= 1
    bench.answer(bench.fetch(), bytes(spoilt))
    with pytest.raises(CorruptBatchError, match=r"offset 0 .*CRC.*at b1:1"):
        bench.core.raise_errors(bench.now_ms)


def test_crcs_are_not_looked_at_when_told_so() -> None:
    bench = ConsumerBench(check_crcs=False).started_at(0)
    spoilt = bytearray(batch(0, 10))
    spoilt[-1] ^= 1
    bench.answer(bench.fetch(), bytes(spoilt))
    assert len(bench.chunks()) == 1


def test_an_answer_that_is_no_answer_is_a_typed_error() -> None:
    bench = ConsumerBench().started_at(0)
    with pytest.raises(UnexpectedAnswerError):
        bench.fetch().decode(b"\xff\xff\xff")


def test_a_deleted_topic_is_raised() -> None:
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
    for _ in range(60):
        bench.calls()
        if bench.asked:
            bench.answer_metadata(no_topic())
        bench.pass_ms(50)
    with pytest.raises(UnknownTopicError, match="flights"):
        bench.core.raise_errors(bench.now_ms)


def test_an_answer_that_lay_there_while_the_process_stood_still_does_not_make_a_topic_unknown() -> None:
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
    bench.calls()
    bench.pass_ms(5_000)
    bench.answer_metadata(no_topic())
    bench.core.raise_errors(bench.now_ms)
    bench.pass_ms(1_000)
    bench.calls()
    bench.answer_metadata(no_topic())
    with pytest.raises(UnknownTopicError, match="flights"):
        bench.core.raise_errors(bench.now_ms)


def test_a_topic_made_anew_is_not_read_on_silently() -> None:
    bench = ConsumerBench().started_at(7)
    bench.fail(bench.fetch(), UNREACHABLE)
    bench.calls()
    bench.answer_metadata(metadata([1], topic_id=b"n" * 16))
    with pytest.raises(UnknownTopicError, match="created again"):
        bench.core.raise_errors(bench.now_ms)
    bench.core.assign([P0])
    bench.core.raise_errors(bench.now_ms)


def test_a_partition_that_does_not_exist_is_raised_soon() -> None:
    bench = ConsumerBench(assign=[TopicPartition(TOPIC, 9)])
    for passed_ms in (1_000, 1_500):
        bench.core.raise_errors(bench.now_ms)
        bench.pass_ms(passed_ms)
        bench.calls()
        bench.answer_metadata(metadata([1]))
    bench.pass_ms(100)
    bench.calls()
    with pytest.raises(UnknownPartitionError, match="0 to 0, not 9"):
        bench.core.raise_errors(bench.now_ms)


def test_a_partition_that_the_topic_got_a_moment_ago_is_read() -> None:
    bench = ConsumerBench(assign=[P1])
    bench.pass_ms(100)
    assert bench.calls() == []
    # The process stands still, and finds what was answered before.
    bench.pass_ms(5_000)
    bench.answer_metadata(metadata([1]))
    assert bench.calls() == []
    bench.core.raise_errors(bench.now_ms)
    bench.pass_ms(100)
    bench.calls()
    bench.answer_metadata(metadata([1, 1]))
    bench.pass_ms(100)
    (call,) = bench.calls()
    assert isinstance(call, LookUpCall)
    bench.core.raise_errors(bench.now_ms)


def test_an_offline_partition_is_raised_after_the_budget() -> None:
    bench = ConsumerBench(leaders=(-1,), unavailable_timeout_ms=1_000)
    for _ in range(15):
        bench.core.raise_errors(bench.now_ms)
        bench.calls()
        if bench.asked:
            bench.answer_metadata(metadata([-1]))
        bench.pass_ms(60)
    bench.pass_ms(200)
    with pytest.raises(PartitionOfflineError, match="partition 0"):
        bench.core.raise_errors(bench.now_ms)


def test_a_dead_cluster_is_raised_with_every_address_that_was_tried() -> None:
    bench = ConsumerBench(unavailable_timeout_ms=1_000).started_at(0)
    bench.fail(bench.fetch(), UNREACHABLE)
    for _ in range(40):
        bench.calls()
        for call in bench.asked:
            bench.fail(call, AddressUnreachableError(f"{call.address} refused", address=call.address))
        bench.asked.clear()
        bench.pass_ms(50)
    with pytest.raises(BrokersUnavailableError) as caught:
        bench.core.raise_errors(bench.now_ms)
    assert set(caught.value.addresses) == {"b1:1", "b2:2", "b3:3", "boot:9"}
    assert "boot:9 (bootstrap)" in str(caught.value)
    assert "b1:1 (advertised by a broker)" in str(caught.value)


def test_partitions_that_stay_assigned_keep_their_position() -> None:
    bench = ConsumerBench(leaders=(1, 1)).started_at(7)
    bench.core.assign([P0, P1])
    assert bench.core.positions[P0].position == 7
    bench.core.assign([P1])
    with pytest.raises(NotAssignedError):
        bench.core.seek(P0, 1)


def test_the_rest_of_a_chunk_comes_first_next_time() -> None:
    bench = ConsumerBench().started_at(0)
    bench.answer(bench.fetch(), batch(0, 10), batch(10, 10))
    chunk = bench.core.next_chunk()
    assert chunk is not None
    chunk.skip = 4
    bench.core.put_back(chunk)
    assert offsets(bench.chunks()) == [(4, 10), (10, 20)]


def test_what_was_fetched_for_an_earlier_assignment_is_never_taken_for_a_later_one() -> None:
    bench = ConsumerBench().started_at(0)
    late = bench.fetch()
    bench.core.assign([])
    bench.core.assign([P0])
    bench.core.seek(P0, 0)
    bench.answer(late, batch(0, 10))
    assert bench.chunks() == []


def test_who_subscribes_reads_all_partitions_of_these_topics_and_of_no_others() -> None:
    bench = ConsumerBench((1, 2))
    bench.core.subscribe([TOPIC])
    assert set(bench.core.positions) == {P0, P1}
    bench.core.subscribe(["other"])
    assert (bench.core.positions, bench.core.is_assigned) == ({}, False)
    bench.core.subscribe([TOPIC, "other"])
    assert set(bench.core.positions) == {P0, P1}


def test_a_topic_that_stays_subscribed_goes_on_where_it_is() -> None:
    bench = ConsumerBench((1, 2))
    bench.core.subscribe([TOPIC])
    bench.core.seek(P1, 7)
    bench.core.subscribe([TOPIC, "other"])
    assert bench.core.position_of(P1).fetch_offset == 7


def test_a_topic_that_is_missing_is_no_error_once_it_is_no_longer_read() -> None:
    bench = ConsumerBench()
    bench.core.subscribe([TOPIC])
    for _ in range(40):
        bench.calls()
        if bench.asked:
            bench.answer_metadata(no_topic())
        bench.pass_ms(500)
    with pytest.raises(UnknownTopicError):
        bench.core.raise_errors(bench.now_ms)
    bench.core.subscribe(["other"])
    bench.core.raise_errors(bench.now_ms)
