"""What a client that waited for a leader change tells of it, once for each change."""

import pytest
from hightide.cluster.leader_waits import GATHERING_MS, PATIENCE_MS, STALE_MS, Fact, GroupOrder, LeaderWait
from hightide.cluster.metadata import ClusterMetadata
from hightide.errors import AddressUnreachableError, RequestTimeoutError
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide.v1.coordinator_service_pb2 import StartFetcher, StopFetcher
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.consumer_bench import P0, P1, ConsumerBench, batch
from unit.sdk.group_bench import GroupBench, owned, starts
from unit.sdk.producer_bench import TOPIC, ProducerBench, metadata

CHANGE = f"00-{'a' * 32}-{'b' * 16}-01"
UNREACHABLE = AddressUnreachableError("b1:1 cannot be reached", address="b1:1")


def elected(
    leader: int = 2, epoch: int = 2, *, partitions: int = 1, traced: str = CHANGE
) -> GetMetadataResponse:
    """Metadata after a leader change."""
    answer = metadata(dict.fromkeys(range(partitions), (2, epoch)))
    for partition in answer.topics[0].partitions:
        partition.traceparent = traced
    return answer


def traced_producer(partitions: int = 1) -> ProducerBench:
    bench = ProducerBench((1,) * partitions)
    bench.core.be_traced()
    return bench


def facts(bench: ProducerBench | ConsumerBench) -> list[Fact]:
    bench.calls()
    return bench.core.facts()


def test_a_producer_tells_from_the_first_failure_to_the_first_success_under_the_new_epoch() -> None:
    bench = traced_producer()
    bench.send()
    call = bench.call()
    bench.pass_ms(10)
    bench.fail(call, UNREACHABLE)
    bench.calls()
    bench.pass_ms(200)
    bench.answer_metadata(elected())
    call = bench.call()
    bench.pass_ms(7)
    bench.ok(call)
    assert facts(bench) == [LeaderWait(TOPIC, 1, (0,), 2, CHANGE, 1_010.0, 1_217.0)]
    assert facts(bench) == []


def test_all_partitions_of_one_change_are_told_of_together() -> None:
    bench = traced_producer(partitions=2)
    for partition in (0, 1):
        bench.send(partition=partition)
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.pass_ms(100)
    half = metadata({0: (2, 2), 1: (1, 1)})
    half.topics[0].partitions[0].traceparent = CHANGE
    bench.answer_metadata(half)
    calls = bench.calls()
    bench.ok(next(call for call in calls if call.address == "b2:2"))
    assert facts(bench) == [], "the other partition waits still"
    bench.fail(next(call for call in calls if call.address == "b1:1"), UNREACHABLE)
    bench.calls()
    bench.pass_ms(50)
    bench.answer_metadata(elected(partitions=2))
    bench.ok(bench.call())
    assert facts(bench) == [LeaderWait(TOPIC, 2, (0, 1), 2, CHANGE, 1_000.0, 1_150.0)]


def test_a_partition_that_stays_away_does_not_keep_the_others_from_being_told_of() -> None:
    bench = traced_producer(partitions=2)
    for partition in (0, 1):
        bench.send(partition=partition)
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    half = metadata({0: (2, 2), 1: (-1, 1)})
    half.topics[0].partitions[0].traceparent = CHANGE
    bench.answer_metadata(half)
    bench.ok(bench.call())
    assert facts(bench) == []
    bench.pass_ms(GATHERING_MS)
    (fact,) = facts(bench)
    assert isinstance(fact, LeaderWait)
    assert (fact.partition_count, fact.ended_ms) == (1, 1_000.0)


def test_a_failure_without_a_leader_change_is_not_told_of() -> None:
    bench = traced_producer()
    bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.pass_ms(100)
    bench.ok(bench.call())
    assert facts(bench) == []


def test_where_nobody_traces_nothing_is_noted() -> None:
    bench = ProducerBench()
    bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.answer_metadata(elected())
    bench.ok(bench.call())
    assert facts(bench) == []


def test_a_refusal_that_names_the_new_leader_is_told_of_when_metadata_names_the_change() -> None:
    bench = traced_producer()
    bench.send()
    refusal = ErrorCode.ERROR_CODE_NOT_LEADER
    bench.refuse(bench.call(), refusal, current_leader=2, current_leader_epoch=2)
    bench.pass_ms(3)
    call = bench.call()
    assert call.address == "b2:2", "it goes there at once"
    bench.ok(call)
    assert facts(bench) == [], "whose change it was is not known yet"
    bench.answer_metadata(elected())
    assert facts(bench) == [LeaderWait(TOPIC, 1, (0,), 2, CHANGE, 1_000.0, 1_003.0)]


def test_a_change_that_no_broker_knows_a_trace_of_is_told_of_without() -> None:
    bench = traced_producer()
    bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.answer_metadata(elected(traced=""))
    bench.ok(bench.call())
    (fact,) = facts(bench)
    assert fact.traceparent == ""


def test_metadata_is_not_waited_for_longer_than_it_is_worth() -> None:
    bench = traced_producer()
    bench.send()
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_NOT_LEADER, current_leader=2, current_leader_epoch=2)
    bench.ok(bench.call())
    bench.pass_ms(PATIENCE_MS - 1)
    assert facts(bench) == []
    bench.pass_ms(1)
    (fact,) = facts(bench)
    assert fact.traceparent == ""


def test_a_client_that_is_closed_tells_what_it_knows() -> None:
    bench = traced_producer()
    bench.send()
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_NOT_LEADER, current_leader=2, current_leader_epoch=2)
    bench.ok(bench.call())
    assert len(bench.core.facts(is_last=True)) == 1


def test_who_did_not_try_for_long_did_not_wait() -> None:
    bench = traced_producer()
    bench.send()
    bench.fail(bench.call(), UNREACHABLE)
    bench.calls()
    bench.pass_ms(STALE_MS + 1)
    bench.answer_metadata(elected())
    bench.ok(bench.call())
    assert facts(bench) == []


def test_a_call_to_a_leader_that_hangs_waits_since_it_was_made() -> None:
    bench = traced_producer()
    bench.send()
    call = bench.call()
    bench.pass_ms(600)
    bench.calls()
    bench.answer_metadata(elected())
    assert bench.core.cancelled == [call]
    bench.fail(call, UNREACHABLE)
    bench.pass_ms(10)
    bench.ok(bench.call())
    (fact,) = facts(bench)
    assert isinstance(fact, LeaderWait)
    assert (fact.began_ms, fact.ended_ms) == (1_000.0, 1_610.0)


def traced_consumer() -> ConsumerBench:
    bench = ConsumerBench((1, 1), assign=(P0, P1))
    bench.core.be_traced()
    call = bench.pending[0]
    bench.answer_look_up(call, 0)  # type: ignore[arg-type]
    bench.pending = []
    return bench


def test_a_consumer_tells_of_a_change_once_its_fetches_go_through() -> None:
    bench = traced_consumer()
    call = bench.fetch()
    bench.pass_ms(20)
    bench.fail(call, UNREACHABLE)
    bench.calls()
    bench.pass_ms(100)
    bench.answer_metadata(elected(partitions=2))
    call = bench.fetch()
    bench.pass_ms(400)
    bench.answer(call, batch(0, 1))
    (fact,) = facts(bench)
    assert isinstance(fact, LeaderWait)
    assert (fact.partition_count, fact.traceparent, fact.began_ms) == (2, CHANGE, 1_020.0)
    assert fact.ended_ms == 1_520.0


def test_a_long_poll_that_brings_nothing_ends_the_wait_when_it_begins() -> None:
    bench = traced_consumer()
    bench.fail(bench.fetch(), UNREACHABLE)
    bench.calls()
    bench.pass_ms(100)
    bench.answer_metadata(elected(partitions=2))
    call = bench.fetch()
    bench.pass_ms(500)
    bench.answer(call)
    (fact,) = facts(bench)
    assert fact.ended_ms == 1_100.0


@pytest.mark.parametrize(("high_watermark", "ended_ms"), [(0, 1_100.0), (9, 1_600.0)])
def test_a_poll_for_records_that_are_not_there_yet_ends_the_wait_when_it_begins(
    high_watermark: int, ended_ms: float
) -> None:
    bench = traced_consumer()
    bench.answer(bench.fetch(), high_watermark=high_watermark)
    bench.fail(bench.fetch(), UNREACHABLE)
    bench.calls()
    bench.pass_ms(100)
    bench.answer_metadata(elected(partitions=2))
    call = bench.fetch()
    bench.pass_ms(500)
    bench.answer(call, batch(0, 1), high_watermark=high_watermark + 1)
    (fact,) = facts(bench)
    assert fact.ended_ms == ended_ms


@pytest.mark.parametrize(("high_watermark", "began_ms"), [(0, 1_500.0), (9, 1_000.0)])
def test_a_leader_that_hangs_is_waited_for_since_its_answer_was_due(
    high_watermark: int, began_ms: float
) -> None:
    bench = traced_consumer()
    bench.answer(bench.fetch(), high_watermark=high_watermark)
    call = bench.fetch()
    bench.pass_ms(2_000)
    bench.fail(call, RequestTimeoutError("no answer", address=call.address))
    bench.calls()
    bench.answer_metadata(elected(partitions=2))
    bench.answer(bench.fetch(), batch(0, 1))
    (fact,) = facts(bench)
    assert fact.began_ms == began_ms


def test_a_member_tells_of_the_orders_of_a_coordinator_that_traces() -> None:
    bench = GroupBench().register()
    bench.core.be_traced()
    bench.tell(
        generation=2, start_fetcher=StartFetcher(streams=starts(0, 1, generation=2)), traceparent=CHANGE
    )
    bench.pass_ms(50)
    bench.tell(generation=3, stop_fetcher=StopFetcher(partitions=owned(1, generation=2)), traceparent=CHANGE)
    told = bench.core.facts()
    assert [type(each) for each in told] == [GroupOrder, GroupOrder]
    assert [(each.is_start, each.partition_count, each.generation) for each in told] == [  # type: ignore[union-attr]
        (True, 2, 2),
        (False, 1, 3),
    ]
    assert {each.traceparent for each in told} == {CHANGE}


def test_orders_without_a_trace_are_not_told_of() -> None:
    bench = GroupBench().register()
    bench.core.be_traced()
    bench.tell(generation=2, start_fetcher=StartFetcher(streams=starts(0, generation=2)))
    assert bench.core.facts() == []


@pytest.mark.parametrize("epoch", [1, 3])
def test_only_the_change_to_that_very_epoch_is_a_parent(epoch: int) -> None:
    cluster = ClusterMetadata(("boot:9",))
    cluster.remembers_changes = True
    cluster.update(elected(epoch=2))
    assert cluster.traceparent_of(P0, 2) == CHANGE
    assert cluster.traceparent_of(P0, epoch) == ("" if epoch < 2 else None)
