"""What a client does when brokers or controllers ask it to wait, since its quota is used up (KIP-219)."""

from typing import Any

import pytest
from hightide.calls.call import Call
from hightide.errors import DeliveryTimeoutError, QuotaExceededError
from hightide.v1.broker_service_pb2 import FetchPartitionResult, FetchResponse, ProduceResponse
from hightide.v1.controller_service_pb2 import CreateTopicResponse
from unit.sdk.consumer_bench import ConsumerBench, batch, offsets
from unit.sdk.consuming.test_range_core import Log, Reading
from unit.sdk.operation_world import World
from unit.sdk.producer_bench import TOPIC, TOPIC_ID, ProducerBench, metadata


def quota_exceeded(throttle_time_ms: int) -> QuotaExceededError:
    return QuotaExceededError("too much", metadata={"throttle_time_ms": str(throttle_time_ms)})


def acknowledge(bench: ProducerBench, call: Any, throttle_time_ms: int) -> None:
    """The broker appends all, and asks to wait."""
    response = ProduceResponse(throttle_time_ms=throttle_time_ms)
    for entry in call.entries:
        response.partitions.add(topic_id=entry.topic_id, partition=entry.batch.partition)
    bench.core.completed(call, call.decode(response.SerializeToString()), bench.now_ms)


def test_a_producer_sends_nothing_to_a_broker_until_the_time_that_it_told_is_over() -> None:
    bench = ProducerBench()
    bench.send()
    acknowledge(bench, bench.call(), throttle_time_ms=2_000)
    (delivery,) = bench.send()
    bench.pass_ms(1_000)
    assert bench.calls() == []
    assert bench.core.wake_at_ms is not None
    assert bench.core.wake_at_ms - bench.now_ms == pytest.approx(1_000)
    bench.pass_ms(1_000)
    bench.ok(bench.call())
    assert delivery.done()
    assert bench.core.throttles.total_ms == 2_000


def test_a_producer_goes_on_sending_to_other_brokers_meanwhile() -> None:
    bench = ProducerBench(leaders=(1, 2))
    bench.send(partition=0)
    acknowledge(bench, bench.call(), throttle_time_ms=2_000)
    bench.send(partition=0)
    bench.send(partition=1)
    bench.pass_ms(100)
    assert [call.address for call in bench.calls()] == ["b2:2"]


def test_records_that_wait_for_a_broker_are_given_up_when_their_time_is_over() -> None:
    bench = ProducerBench(delivery_timeout_ms=3_000, request_timeout_ms=1_000)
    bench.send()
    acknowledge(bench, bench.call(), throttle_time_ms=5_000)
    (delivery,) = bench.send()
    bench.pass_ms(3_001)
    assert bench.calls() == []
    with pytest.raises(DeliveryTimeoutError) as failed:
        delivery.result(0)
    assert not failed.value.maybe_appended


def test_a_batch_that_the_broker_refused_for_the_quota_is_sent_again_after_the_time_that_it_told() -> None:
    bench = ProducerBench()
    (delivery,) = bench.send()
    bench.fail(bench.call(), quota_exceeded(3_000))
    bench.pass_ms(2_999)
    assert bench.calls() == []
    bench.pass_ms(1)
    again = bench.call()
    assert not again.entries[0].batch.maybe_appended
    bench.ok(again)
    assert delivery.done()


def answer(bench: ConsumerBench, call: Any, *batches: bytes, throttle_time_ms: int) -> None:
    result = FetchPartitionResult(
        topic_id=TOPIC_ID, partition=0, high_watermark=1_000, batches=b"".join(batches), current_leader=-1
    )
    response = FetchResponse(partitions=[result], throttle_time_ms=throttle_time_ms)
    bench.core.completed(call, call.decode(response.SerializeToString()), bench.now_ms)


def test_a_consumer_fetches_nothing_from_a_broker_until_the_time_that_it_told_is_over() -> None:
    bench = ConsumerBench().started_at(0)
    answer(bench, bench.fetch(), batch(0, 10), throttle_time_ms=2_000)
    assert offsets(bench.chunks()) == [(0, 10)], "what came may be read meanwhile"
    bench.pass_ms(1_999)
    assert bench.calls() == []
    bench.pass_ms(1)
    answer(bench, bench.fetch(), batch(10, 5), throttle_time_ms=0)
    assert offsets(bench.chunks()) == [(10, 15)]
    assert bench.core.throttles.total_ms == 2_000


def test_a_consumer_that_waits_for_its_quota_for_long_does_not_fail_by_it() -> None:
    bench = ConsumerBench(unavailable_timeout_ms=10_000).started_at(0)
    for _ in range(10):
        answer(bench, bench.fetch(), throttle_time_ms=5_000)
        bench.pass_ms(5_000)
        bench.core.raise_errors(bench.now_ms)
    answer(bench, bench.fetch(), batch(0, 10), throttle_time_ms=0)
    assert offsets(bench.chunks()) == [(0, 10)]


def test_a_range_is_read_to_its_end_however_long_its_reader_is_throttled() -> None:
    log, throttled = Log([5, 5]), [4_000] * 30

    def fetch(call: Call[Any]) -> Any:
        if not throttled:
            return log.fetch(call)
        result = FetchPartitionResult(topic_id=TOPIC_ID, high_watermark=10, current_leader=-1)
        return call.decode(
            FetchResponse(partitions=[result], throttle_time_ms=throttled.pop()).SerializeToString()
        )

    reading = Reading(log, 0, 10)
    reading.world = World(GET_METADATA=lambda _: metadata([1]), FETCH=fetch)
    assert reading.offsets() == list(range(10))
    assert reading.world.now_ms == 30 * 4_000, "twice its budget for brokers that do not answer"


def create(world: World) -> Any:
    operation = world.operations.create_topic(TOPIC, 1, 3, configs={}, assignment=None, validate_only=False)
    return world.run(operation)


def test_an_order_beyond_the_quota_is_given_again_after_the_time_that_the_controller_told() -> None:
    answers = [quota_exceeded(3_000), CreateTopicResponse(topic=metadata([1]).topics[0])]
    world = World(CREATE_TOPIC=lambda _: answers.pop(0))
    assert create(world).name == TOPIC
    assert world.now_ms == 3_000
    assert "DESCRIBE_TOPICS" not in [method for method, _ in world.asked], "it was surely not carried out"


def test_an_order_that_would_have_to_wait_for_longer_than_it_may_take_fails_at_once() -> None:
    world = World(CREATE_TOPIC=lambda _: quota_exceeded(60_000))
    with pytest.raises(QuotaExceededError) as failed:
        create(world)
    assert failed.value.throttle_time_ms == 60_000
    assert world.now_ms == 0


@pytest.mark.parametrize("told", ["", "-1", "x", "1e3", "9" * 20])
def test_a_time_that_makes_no_sense_is_none(told: str) -> None:
    assert QuotaExceededError("too much", metadata={"throttle_time_ms": told}).throttle_time_ms == 0
