"""When a producer sends, and what in one batch and one call."""

import pytest
from hightide.errors import RecordTooLargeError
from unit.sdk.producer_bench import ProducerBench, headers_of


def test_a_batch_lingers_and_then_goes_with_all_its_records() -> None:
    bench = ProducerBench(linger_ms=5)
    bench.send(3)
    assert bench.calls() == []
    assert bench.core.wake_at_ms == bench.now_ms + 5
    bench.pass_ms(5)
    assert [header.record_count for header in headers_of(bench.call())] == [3]


def test_asking_for_the_result_ends_the_linger() -> None:
    bench = ProducerBench(linger_ms=1_000)
    (delivery,) = bench.send()
    assert bench.calls() == []
    bench.hurry(delivery._batch)
    assert len(bench.calls()) == 1


def test_a_burst_of_256_kib_leaves_a_millisecond_after_its_last_record() -> None:
    bench = ProducerBench(linger_ms=1_000)
    bench.send(1, size_bytes=1_000)
    assert bench.calls() == []
    bench.send(262, size_bytes=1_000)
    assert bench.core.wants_poll
    assert bench.calls() == []
    assert bench.core.wake_at_ms == bench.now_ms + 1
    bench.pass_ms(1)
    assert [header.record_count for header in headers_of(bench.call())] == [263]


def test_a_large_batch_lingers_while_it_grows() -> None:
    bench = ProducerBench(linger_ms=5)
    bench.send(263, size_bytes=1_000)
    assert bench.calls() == []
    for _ in range(4):
        bench.pass_ms(1)
        bench.send(1, size_bytes=1_000)
        assert bench.calls() == []
    bench.pass_ms(1)
    assert [header.record_count for header in headers_of(bench.call())] == [267]


def test_a_small_batch_lingers_although_no_more_records_come() -> None:
    bench = ProducerBench(linger_ms=5)
    bench.send(200, size_bytes=1_000)
    assert bench.calls() == []
    assert bench.core.wake_at_ms == bench.now_ms + 5
    bench.pass_ms(4)
    assert bench.calls() == []


def test_a_burst_does_not_wait_for_calls_to_other_leaders() -> None:
    bench = ProducerBench(leaders=(1, 2), linger_ms=1_000)
    (delivery,) = bench.send(partition=1)
    bench.hurry(delivery._batch)
    bench.call()
    bench.send(263, size_bytes=1_000)
    assert bench.calls() == []
    bench.pass_ms(1)
    assert [header.record_count for header in headers_of(bench.call())] == [263]


def test_a_burst_lingers_while_a_call_to_its_leader_is_under_way() -> None:
    bench = ProducerBench(leaders=(1, 1), linger_ms=5)
    (delivery,) = bench.send(partition=1)
    bench.hurry(delivery._batch)
    call = bench.call()
    bench.send(263, size_bytes=1_000)
    assert bench.calls() == []
    bench.pass_ms(2)
    assert bench.calls() == []
    bench.ok(call)
    assert bench.calls() == []
    bench.pass_ms(1)
    assert [header.record_count for header in headers_of(bench.call())] == [263]


def test_while_requests_are_in_flight_the_next_batch_keeps_filling() -> None:
    bench = ProducerBench()
    bench.send(1)
    first = bench.call()
    for _ in range(10):
        bench.send(100)
        assert bench.calls() == []
    bench.ok(first)
    assert [header.record_count for header in headers_of(bench.call())] == [1_000]


def test_full_batches_do_not_wait_for_those_in_flight_but_at_most_five_are() -> None:
    bench = ProducerBench(batch_bytes_max=8_192)
    bench.send(100, size_bytes=1_000)
    calls = bench.calls()
    assert len(calls) == 5
    assert [call.entries[0].batch.base_sequence for call in calls] == [0, 7, 14, 21, 28]
    bench.ok(calls[0])
    assert len(bench.calls()) == 1


def test_without_sequences_only_one_batch_of_a_partition_is_in_flight() -> None:
    bench = ProducerBench(batch_bytes_max=8_192, idempotent=False)
    bench.send(100, size_bytes=1_000)
    assert len(bench.calls()) == 1
    assert bench.calls() == []


def test_no_batch_is_larger_than_the_setting_and_each_is_nearly_full() -> None:
    bench = ProducerBench(batch_bytes_max=65_536)
    bench.send(600, size_bytes=500)
    sizes = [header.size_bytes for call in bench.calls() for header in headers_of(call)]
    assert max(sizes) <= 65_536
    assert min(sizes) > 0.9 * 65_536


def test_the_topics_max_message_bytes_bounds_a_batch() -> None:
    bench = ProducerBench(configs={"max.message.bytes": "8192"})
    bench.send(100, size_bytes=500)
    assert all(header.size_bytes <= 8_192 for call in bench.calls() for header in headers_of(call))


def test_partitions_of_one_leader_share_a_call() -> None:
    bench = ProducerBench(leaders=(1, 2, 1))
    for partition in range(3):
        bench.send(partition=partition)
    calls = {call.address: [entry.batch.partition for entry in call.entries] for call in bench.calls()}
    assert calls == {"b1:1": [0, 2], "b2:2": [1]}


def test_a_call_takes_along_what_would_go_soon() -> None:
    bench = ProducerBench(leaders=(1, 1, 2), linger_ms=10)
    bench.send(partition=0)
    bench.pass_ms(4)
    bench.send(partition=1)
    bench.send(partition=2)
    bench.pass_ms(6)
    (call,) = bench.calls()
    assert [entry.batch.partition for entry in call.entries] == [0, 1]


def test_a_leader_with_a_call_of_this_producer_gets_no_other_one_that_is_not_full() -> None:
    bench = ProducerBench(leaders=(1, 1, 2))
    bench.send(partition=0)
    first = bench.call()
    bench.send(partition=1)
    assert bench.calls() == []
    bench.ok(first)
    assert [entry.batch.partition for entry in bench.call().entries] == [1]


def test_another_leader_does_not_wait_for_a_busy_one() -> None:
    bench = ProducerBench(leaders=(1, 1, 2))
    bench.send(partition=0)
    bench.call()
    bench.send(partition=2)
    assert bench.call().address == "b2:2"


def test_a_full_batch_goes_to_a_busy_leader_and_takes_others_along() -> None:
    bench = ProducerBench(leaders=(1, 1, 1), batch_bytes_max=8_192)
    bench.send(partition=0)
    bench.call()
    bench.send(partition=1)
    bench.send(9, partition=2, size_bytes=1_000)
    assert {entry.batch.partition for entry in bench.calls()[0].entries} == {1, 2}


def test_a_call_that_waits_for_replicas_holds_other_partitions_up_for_20_ms() -> None:
    bench = ProducerBench(leaders=(1, 1))
    bench.send(partition=0)
    bench.call()
    bench.send(partition=1)
    assert bench.calls() == []
    assert bench.core.wake_at_ms == bench.now_ms + 20
    bench.pass_ms(20)
    assert [entry.batch.partition for entry in bench.call().entries] == [1]


def test_records_without_a_key_stay_together_while_an_earlier_batch_is_in_flight() -> None:
    bench = ProducerBench(leaders=(1, 1, 1))
    (first,) = bench.send(partition=None)
    call = bench.call()
    second = bench.send(10, partition=None)
    assert {delivery._batch.partition for delivery in second} == {first._batch.partition}
    bench.ok(call)
    assert [header.record_count for header in headers_of(bench.call())] == [10]


def test_records_without_a_key_go_to_the_next_partition_when_none_is_in_flight() -> None:
    bench = ProducerBench(leaders=(1, 1, 1))
    partitions = []
    for _ in range(6):
        (delivery,) = bench.send(partition=None)
        partitions.append(delivery._batch.partition)
        bench.ok(bench.call())
    assert partitions == [0, 1, 2, 0, 1, 2]


def test_records_without_a_key_go_to_the_next_partition_after_16_kib() -> None:
    bench = ProducerBench(leaders=(1, 2, 3))
    first = bench.send(20, partition=None, size_bytes=1_000)
    bench.call()
    second = bench.send(partition=None)
    assert {delivery._batch.partition for delivery in (*first, *second)} == {0, 1}


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    bench = ProducerBench(leaders=(1, -1, 1))
    for _ in range(4):
        (delivery,) = bench.send(partition=None)
        assert delivery._batch.partition != 1
        bench.ok(bench.call())


def test_a_full_buffer_takes_nothing_until_a_batch_ends() -> None:
    bench = ProducerBench(batch_bytes_max=8_192, buffer_memory_bytes=16_384, linger_ms=1_000)
    while bench.try_send(size_bytes=1_000) is not None:
        pass
    assert bench.core.free_bytes >= 0
    call = bench.calls()[0]
    assert bench.try_send(size_bytes=1_000) is None
    bench.ok(call)
    assert bench.try_send(size_bytes=1_000) is not None


def test_a_full_buffer_ends_the_linger() -> None:
    bench = ProducerBench(
        leaders=(1,) * 8, batch_bytes_max=8_192, buffer_memory_bytes=16_384, linger_ms=60_000
    )
    partition = 0
    while bench.try_send(partition=partition, size_bytes=1_000) is not None:
        partition = (partition + 1) % 8
    assert bench.calls()


def test_all_memory_comes_back() -> None:
    bench = ProducerBench(batch_bytes_max=8_192)
    bench.send(50, size_bytes=1_000)
    while calls := bench.calls():
        for call in calls:
            bench.ok(call)
    assert bench.core.free_bytes == bench.core.settings.buffer_memory_bytes
    assert bench.core.undelivered_count == 0


def test_a_record_over_the_limit_is_refused_with_the_limit_in_the_message() -> None:
    bench = ProducerBench(batch_bytes_max=8_192)
    with pytest.raises(RecordTooLargeError, match="8192") as caught:
        bench.try_send(size_bytes=9_000)
    assert caught.value.topic == "flights"
    bench.send()


def test_nothing_is_sent_before_the_producer_has_an_id() -> None:
    bench = ProducerBench()
    bench.send()
    assert bench.calls(identify=False) == []
    (identify,) = bench.asked
    assert bench.calls(identify=False) == []
    bench.core.completed(identify, identify.decode(b"\x08\x07"), bench.now_ms)
    (header,) = headers_of(bench.call())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)


def test_deliveries_know_their_offsets() -> None:
    bench = ProducerBench()
    deliveries = bench.send(3)
    bench.ok(bench.call(), base_offset=40)
    assert [delivery.result().offset for delivery in deliveries] == [40, 41, 42]


@pytest.mark.parametrize("first_turn", [0, 1, 2, 65_535])
def test_records_without_a_key_begin_where_the_shell_drew_not_always_at_partition_0(first_turn: int) -> None:
    bench = ProducerBench(leaders=(1, 1, 1), first_turn=first_turn)
    bench.send(1, partition=None)
    assert [header.partition for header in headers_of(bench.call())] == [first_turn % 3]
