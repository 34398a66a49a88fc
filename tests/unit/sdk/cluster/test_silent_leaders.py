"""A leader that is paused says nothing: when a client asks the others who leads, and how often."""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hightide.calls.call import Call, Method
from hightide.cluster.metadata import ClusterMetadata, MetadataSeeker
from hightide.cluster.silent_leaders import SilentLeaders
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from unit.sdk.consumer_bench import ConsumerBench
from unit.sdk.producer_bench import ProducerBench, metadata

Bench = ProducerBench | ConsumerBench


def producer_at_a_silent_leader() -> tuple[Bench, float]:
    """A producer whose leader does not answer, and how long it takes that for a slow answer."""
    bench = ProducerBench()
    bench.send()
    bench.call()
    return bench, 500


def consumer_at_a_silent_leader() -> tuple[Bench, float]:
    """A consumer whose leader does not answer, and how long it takes that for a slow answer."""
    bench = ConsumerBench(fetch_max_wait_ms=500).started_at(7)
    bench.fetch()
    return bench, 1_500


def questions(bench: Bench, until_ms: float, answer: GetMetadataResponse) -> list[float]:
    """When the client asks who leads, while each question is answered at once; the clock goes where the core
    wants to be woken."""
    asked = []
    while bench.now_ms < until_ms:
        bench.calls()
        if bench.asked:
            assert bench.asked[-1].address != "b1:1", "nobody asks the silent one"
            asked.append(bench.now_ms)
            bench.answer_metadata(answer)
            bench.calls()
        assert bench.core.wake_at_ms is not None
        assert bench.core.wake_at_ms > bench.now_ms, "nothing spins"
        bench.now_ms = bench.core.wake_at_ms
    return asked


@pytest.mark.parametrize("silence", [producer_at_a_silent_leader, consumer_at_a_silent_leader])
def test_others_are_asked_ten_times_a_second_for_as_long_as_the_leader_is_silent(
    silence: Callable[[], tuple[Bench, float]],
) -> None:
    bench, patience_ms = silence()
    began_ms = bench.now_ms
    asked = questions(bench, began_ms + 20_000, metadata([1]))
    assert asked[0] == began_ms + patience_ms
    assert all(80 <= later - earlier <= 120 for earlier, later in pairwise(asked))
    assert asked[-1] >= began_ms + 20_000 - 120


@pytest.mark.parametrize("silence", [producer_at_a_silent_leader, consumer_at_a_silent_leader])
def test_the_first_answer_that_names_a_new_leader_frees_what_hangs(
    silence: Callable[[], tuple[Bench, float]],
) -> None:
    bench, patience_ms = silence()
    questions(bench, bench.now_ms + patience_ms + 2_000, metadata([1]))
    bench.calls()
    bench.answer_metadata(metadata({0: (2, 2)}))
    assert [call.address for call in bench.core.cancelled] == ["b1:1"]


def test_a_leader_that_answers_in_time_lets_nobody_ask() -> None:
    bench = ProducerBench()
    for _ in range(20):
        bench.send()
        call = bench.call()
        bench.pass_ms(499)
        bench.calls()
        bench.ok(call)
    assert bench.asked == []


class SilentCall(Call[None]):
    """A call of which nothing is heard."""

    def __init__(self, started_ms: float, address: str = "b1:1") -> None:
        super().__init__(address, Method.PRODUCE, 30_000)
        self.started_ms = started_ms

    def encode(self) -> bytes:
        return b""

    def decode(self, answer: bytes) -> None:
        raise AssertionError("it is not answered")


def asked_at(calls: list[Call[Any]], seed: int) -> list[float]:
    """When a client with these calls asks, in its first ten seconds."""
    seeker = MetadataSeeker(ClusterMetadata(("boot:9",)))
    silent = SilentLeaders(seeker, 500, Random(seed))
    now_ms, asked = 0.0, []
    while now_ms < 10_000:
        silent.poll(calls, now_ms)
        call = seeker.poll(now_ms)
        if call is not None:
            asked.append(now_ms)
            seeker.answered(call, metadata([1]), now_ms)
        assert silent.wake_at_ms is not None
        now_ms = silent.wake_at_ms
    return asked


def test_many_silent_calls_to_many_leaders_ask_no_more_than_one() -> None:
    many: list[Call[Any]] = [SilentCall(at, f"b{at % 3}:1") for at in range(0, 400, 10)]
    assert asked_at(many, 1) == asked_at([SilentCall(0.0)], 1)


def test_clients_that_wait_for_one_leader_do_not_ask_in_step() -> None:
    mine, other = (asked_at([SilentCall(0.0)], seed) for seed in (1, 2))
    assert mine[0] == other[0] == 500
    assert set(mine[1:]).isdisjoint(other[1:])
