"""What becomes of batches that come back: order, sequences, identities, deadlines (KIP-98, KIP-360)."""

import pytest
from hightide.errors import (
    AddressUnreachableError,
    BatchTooLargeError,
    DeliveryTimeoutError,
    FencedProducerEpochError,
    InvalidBatchError,
    NotAuthorizedError,
    RequestTimeoutError,
    SequenceConflictError,
    UndeliveredError,
    UnknownTopicError,
)
from hightide.producing.pending_batch import PendingBatch
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.producer_bench import TOPIC, ProducerBench, headers_of, metadata, no_topic

UNREACHABLE = AddressUnreachableError("b1:1 cannot be reached", address="b1:1")


def sequences(bench: ProducerBench) -> list[int]:
    return [entry.batch.base_sequence for call in bench.calls() for entry in call.entries]


def three_in_flight() -> ProducerBench:
    bench = ProducerBench(batch_bytes_max=8_192)
    bench.send(21, size_bytes=1_000)
    bench.core.unfinished()
    return bench


def test_what_failed_goes_again_in_order_and_one_by_one() -> None:
    bench = three_in_flight()
    first, second, third = bench.calls()
    for call in (second, first, third):
        bench.fail(call, UNREACHABLE)
    bench.pass_ms(100)
    for sequence in (0, 7, 14):
        call = bench.call()
        assert call.entries[0].batch.base_sequence == sequence
        bench.ok(call)
    assert bench.core.undelivered_count == 0


def test_nothing_goes_again_while_later_batches_are_still_in_flight() -> None:
    bench = three_in_flight()
    first, second, third = bench.calls()
    bench.fail(first, UNREACHABLE)
    bench.pass_ms(100)
    assert bench.calls() == []
    bench.refuse(second, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
    assert bench.calls() == []
    bench.refuse(third, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
    assert sequences(bench) == [0]


def test_nothing_is_sent_past_a_batch_that_goes_again() -> None:
    bench = ProducerBench(batch_bytes_max=8_192)
    bench.send(7, size_bytes=1_000)
    bench.core.unfinished()
    bench.fail(bench.call(), UNREACHABLE)
    bench.pass_ms(100)
    again = bench.call()
    bench.send(21, size_bytes=1_000)
    assert bench.calls() == []
    bench.ok(again)
    assert sequences(bench)[:2] == [7, 14]


def test_a_batch_that_overtook_another_keeps_its_sequence() -> None:
    bench = three_in_flight()
    first, second, third = bench.calls()
    bench.ok(first)
    bench.refuse(second, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
    bench.refuse(third, ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID)
    call = bench.call()
    assert (call.entries[0].batch.base_sequence, call.entries[0].batch.producer_id) == (7, 100)


def test_a_retry_sends_the_very_same_bytes() -> None:
    bench = ProducerBench()
    bench.send(3)
    call = bench.call()
    sent = headers_of(call)
    bench.fail(call, UNREACHABLE)
    bench.pass_ms(100)
    assert headers_of(bench.call()) == sent


def test_not_leader_with_the_new_leader_named_goes_there_at_once() -> None:
    bench = ProducerBench()
    bench.send()
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_NOT_LEADER, current_leader=3, current_leader_epoch=2)
    call = bench.call()
    assert (call.address, call.entries[0].leader_epoch) == ("b3:3", 2)


def test_an_older_leader_epoch_is_not_believed() -> None:
    bench = ProducerBench()
    bench.core.cluster.update(metadata({0: (2, 7)}))
    bench.core.cluster.update(metadata({0: (1, 6)}))
    leader = bench.core.cluster.leader_of(TOPIC, 0)
    assert leader is not None
    assert (leader.broker_id, leader.leader_epoch) == (2, 7)


def test_an_unreachable_leader_makes_the_producer_ask_another_broker_at_once() -> None:
    bench = ProducerBench()
    bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    assert bench.calls() == []
    assert bench.asked[-1].address != "b1:1"
    bench.answer_metadata(metadata({0: (2, 2)}))
    assert bench.call().address == "b2:2"


def test_while_there_is_no_new_leader_metadata_is_asked_for_within_50_ms() -> None:
    bench = ProducerBench()
    bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    for _ in range(5):
        bench.answer_metadata(metadata({0: (-1, 2)}))
        assert bench.calls() == []
        assert bench.core.wake_at_ms is not None
        assert bench.core.wake_at_ms - bench.now_ms <= 50
        bench.pass_ms(50)
        bench.calls()
    bench.answer_metadata(metadata({0: (3, 3)}))
    assert bench.call().address == "b3:3"


def test_a_silent_leader_is_left_once_others_name_a_new_one() -> None:
    bench = ProducerBench()
    bench.send()
    call = bench.call()
    bench.pass_ms(500)
    bench.calls()
    bench.answer_metadata(metadata({0: (2, 2)}))
    assert bench.core.cancelled == [call]
    bench.fail(call, UNREACHABLE)
    bench.pass_ms(100)
    assert bench.call().address == "b2:2"


def test_a_duplicate_counts_as_delivered_at_an_unknown_offset() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_DUPLICATE_SEQUENCE)
    assert delivery.result().offset == -1


def test_an_unknown_producer_id_starts_again_under_a_new_one() -> None:
    bench = ProducerBench()
    bench.send()
    bench.ok(bench.call())
    bench.send(2)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID)
    (header,) = headers_of(bench.call())
    assert (header.producer_id, header.base_sequence, header.record_count) == (101, 0, 2)


@pytest.mark.parametrize(
    "code", [ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE]
)
def test_what_may_have_been_appended_is_not_sent_anew_to_a_log_that_forgot_its_producer(
    code: ErrorCode.ValueType,
) -> None:
    """Its answer was lost, 100,000 others wrote, and the log can not tell any more."""
    bench = ProducerBench()
    bench.send()
    bench.ok(bench.call())
    (doubtful,) = bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.pass_ms(100)
    bench.refuse(bench.call(), code)
    assert bench.calls() == []
    error = doubtful.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.maybe_appended
    assert "read the partition" in str(error)
    bench.send()
    (header,) = headers_of(bench.call())
    assert (header.producer_id, header.base_sequence) == (101, 0)


def test_what_may_have_been_appended_is_tried_for_no_longer_than_a_log_remembers_it() -> None:
    bench = ProducerBench(leaders=(1, 2), delivery_timeout_ms=2**31 - 1)
    (doubtful,) = bench.send(partition=0)
    (certain,) = bench.send(partition=1)
    for call in bench.calls():
        if call.entries[0].batch.partition == 0:
            bench.fail(call, UNREACHABLE)
        else:
            bench.refuse(call, ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS)
    bench.pass_ms(30 * 60 * 1000)
    bench.calls()
    assert isinstance(error := doubtful.exception(), DeliveryTimeoutError)
    assert error.maybe_appended
    assert not certain.done()


def test_a_log_that_takes_no_new_producer_is_asked_again() -> None:
    bench = ProducerBench()
    (sent,) = bench.send()
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_TOO_MANY_PRODUCERS)
    bench.pass_ms(1_000)
    bench.ok(bench.call())
    assert sent.exception() is None


def test_other_partitions_keep_their_producer_id() -> None:
    bench = ProducerBench(leaders=(1, 2))
    bench.send(partition=0)
    bench.send(partition=1)
    for call in bench.calls():
        if call.address == "b1:1":
            bench.refuse(call, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
        else:
            bench.ok(call)
    bench.send(partition=1)
    found = {
        header.partition: (header.producer_id, header.base_sequence)
        for call in bench.calls()
        for header in headers_of(call)
    }
    assert found == {0: (101, 0), 1: (100, 1)}


def test_after_a_batch_is_given_up_the_rest_is_numbered_anew() -> None:
    bench = three_in_flight()
    first, second, third = bench.calls()
    bench.refuse(first, ErrorCode.ERROR_CODE_INVALID_BATCH)
    bench.refuse(second, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
    bench.refuse(third, ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
    assert isinstance(first.entries[0].batch.error, InvalidBatchError)
    found = []
    while calls := bench.calls():
        for call in calls:
            found += [(header.producer_id, header.base_sequence) for header in headers_of(call)]
            bench.ok(call)
    assert found == [(101, 0), (101, 7)]


def test_what_may_have_been_appended_is_not_sent_under_another_id() -> None:
    bench = three_in_flight()
    first, second, _ = calls = bench.calls()
    second_batch = second.entries[0].batch
    for call in calls[1:]:
        bench.fail(call, RequestTimeoutError("b1:1 did not answer", address="b1:1"))
    bench.refuse(first, ErrorCode.ERROR_CODE_INVALID_BATCH)
    assert bench.calls() == []
    assert isinstance(second_batch.error, DeliveryTimeoutError)
    assert second_batch.error.maybe_appended


def test_a_queue_begins_under_an_id_only_once() -> None:
    bench = three_in_flight()
    first, *others = bench.calls()
    for call in others:
        bench.fail(call, RequestTimeoutError("b1:1 did not answer", address="b1:1"))
    bench.refuse(first, ErrorCode.ERROR_CODE_INVALID_BATCH)
    found = []
    for _ in range(3):
        bench.send()
        bench.pass_ms(100)
        call = bench.call()
        found += [(header.producer_id, header.base_sequence) for header in headers_of(call)]
        bench.ok(call)
    assert found == [(101, 0), (101, 1), (101, 2)]


def test_a_record_that_waits_too_long_fails_and_says_why() -> None:
    bench = ProducerBench(delivery_timeout_ms=1_000)
    (delivery,) = bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.pass_ms(1_000)
    bench.calls()
    with pytest.raises(DeliveryTimeoutError, match=r"in 1 attempts.*b1:1 cannot be reached") as caught:
        delivery.result()
    assert caught.value.maybe_appended
    assert (caught.value.topic, caught.value.partition, caught.value.address) == (TOPIC, 0, "b1:1")


def test_a_call_never_outlives_its_batches() -> None:
    bench = ProducerBench(delivery_timeout_ms=1_000, linger_ms=0)
    bench.send()
    bench.pass_ms(900)
    assert bench.call().timeout_ms == 100


def test_retriable_refusals_go_on_until_the_deadline() -> None:
    bench = ProducerBench(delivery_timeout_ms=10_000)
    (delivery,) = bench.send()
    attempts = 0
    while not delivery.done():
        for call in bench.calls():
            attempts += 1
            bench.refuse(call, ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS)
        bench.pass_ms(50)
    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert not error.maybe_appended
    assert 100 <= attempts <= 200


def test_a_batch_over_the_topics_limit_goes_in_halves_under_the_same_sequences() -> None:
    bench = ProducerBench()
    deliveries = bench.send(10, size_bytes=1_000)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_BATCH_TOO_LARGE)
    offset = 100
    found = []
    while calls := bench.calls():
        for call in calls:
            (header,) = headers_of(call)
            found.append((header.base_sequence, header.record_count))
            bench.ok(call, base_offset=offset)
            offset += header.record_count
    assert found == [(0, 5), (5, 5)]
    assert [delivery.result().offset for delivery in deliveries] == list(range(100, 110))


def test_one_record_over_the_topics_limit_fails() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send(size_bytes=5_000)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_BATCH_TOO_LARGE)
    assert isinstance(delivery.exception(), BatchTooLargeError)


def test_a_fenced_producer_fails_all_it_has_and_takes_no_more() -> None:
    bench = three_in_flight()
    deliveries = bench.send(3)
    first, second, _ = bench.calls()
    bench.refuse(first, ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH)
    bench.refuse(second, ErrorCode.ERROR_CODE_FENCED_PRODUCER_EPOCH)
    assert all(isinstance(delivery.exception(), FencedProducerEpochError) for delivery in deliveries)
    with pytest.raises(FencedProducerEpochError):
        bench.try_send()


def test_a_deleted_topic_fails_what_waits_for_it() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    while not delivery.done():
        for call in bench.calls():
            bench.refuse(call, ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
        if bench.asked:
            bench.answer_metadata(no_topic())
        bench.pass_ms(50)
    assert isinstance(delivery.exception(), UnknownTopicError)
    assert TOPIC not in bench.core.topics


def test_a_topic_that_was_made_anew_gets_what_waits_under_its_new_id() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID)
    bench.calls()
    bench.answer_metadata(metadata([1], topic_id=b"n" * 16))
    bench.pass_ms(100)
    call = bench.call()
    (header,) = headers_of(call)
    assert (header.topic_id, header.base_sequence) == (b"n" * 16, 0)
    bench.ok(call)
    assert delivery.done()


def test_what_may_be_in_a_topic_is_not_sent_there_anew_after_a_broker_named_an_older_one() -> None:
    """The answer was lost, and then a broker told of the topic that was there before."""
    bench = ProducerBench()
    (doubtful,) = bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.answer_metadata(metadata([1], topic_id=b"o" * 16))
    bench.pass_ms(100)
    call = bench.call()
    assert [header.topic_id for header in headers_of(call)] == [b"o" * 16]
    bench.refuse(call, ErrorCode.ERROR_CODE_UNKNOWN_TOPIC)
    bench.calls()
    bench.answer_metadata(metadata([1]))
    bench.pass_ms(100)
    assert bench.calls() == []
    error = doubtful.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.maybe_appended


def test_what_may_be_in_a_topic_that_was_deleted_goes_to_the_new_one() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.answer_metadata(metadata([1], topic_id=b"n" * 16))
    bench.pass_ms(100)
    bench.ok(bench.call())
    assert delivery.exception() is None


def test_what_is_abandoned_fails_and_late_answers_change_nothing() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    call = bench.call()
    bench.core.abandon(UndeliveredError("closed", undelivered_count=1))
    bench.ok(call)
    assert isinstance(delivery.exception(), UndeliveredError)
    assert bench.core.undelivered_count == 0


def test_callbacks_come_once_also_after_a_split() -> None:
    bench = ProducerBench()
    deliveries = bench.send(4, size_bytes=2_000)
    called: list[int] = []
    for at, delivery in enumerate(deliveries):
        delivery.add_done_callback(lambda _, at=at: called.append(at))  # type: ignore[misc]
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_BATCH_TOO_LARGE)
    while calls := bench.calls():
        for call in calls:
            bench.ok(call)
    for callback in bench.core.callbacks:
        callback()
    assert sorted(called) == [0, 1, 2, 3]


def test_sequences_wrap() -> None:
    bench = ProducerBench()
    queue = bench.home.queues[0]
    bench.send()
    bench.ok(bench.call())
    queue.next_sequence = 2**31 - 2
    bench.send(5)
    call = bench.call()
    bench.ok(call)
    bench.send()
    assert [entry.batch.base_sequence for entry in (*call.entries, *bench.call().entries)] == [2**31 - 2, 3]


def test_a_batch_is_hurried_by_its_owner() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    batch: PendingBatch = delivery._batch
    batch.hurry()
    assert batch.is_urgent


def test_records_of_another_writer_in_the_place_of_a_batch_are_never_taken_for_success() -> None:
    bench = ProducerBench()
    (sent,) = bench.send(1)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_SEQUENCE_CONFLICT)
    assert isinstance(sent.exception(), SequenceConflictError)
    bench.send(1)
    (entry,) = bench.call().entries
    assert (entry.batch.producer_id, entry.batch.base_sequence) == (101, 0)


def test_the_halves_of_a_batch_that_may_have_been_appended_may_have_been_too() -> None:
    """Under another producer id they would be duplicates, then."""
    bench = ProducerBench()
    sent = bench.send(2)
    bench.fail(bench.call(), UNREACHABLE)
    bench.pass_ms(100)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_BATCH_TOO_LARGE)
    assert all(entry.batch.maybe_appended for entry in bench.call().entries)
    assert not any(delivery.done() for delivery in sent)


def test_who_may_have_no_producer_id_is_told_at_once_and_asks_again_for_what_comes_later() -> None:
    bench = ProducerBench()
    (first,) = bench.send()
    assert bench.calls(identify=False) == []
    (asked,) = bench.asked
    bench.core.completed(asked, NotAuthorizedError("client/bob may not"), bench.now_ms)
    assert isinstance(first.exception(0), NotAuthorizedError)
    assert bench.core.undelivered_count == 0
    bench.pass_ms(10_000)
    bench.send()
    assert len(bench.calls()) == 1, "it may write by now"
