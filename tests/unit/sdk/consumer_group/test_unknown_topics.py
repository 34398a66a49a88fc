"""A consumer in a group says that a topic it was given does not exist; it returned no records for ever."""

import pytest
from hightide.errors import UnknownTopicError
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from unit.sdk.group_bench import GroupBench, with_coordinator
from unit.sdk.producer_bench import TOPIC, no_topic

PATIENCE_MS = 2_000


def without_topic() -> GetMetadataResponse:
    answer = no_topic()
    answer.coordinators.extend(with_coordinator().coordinators)
    return answer


def wait(bench: GroupBench, passed_ms: int, answer: GetMetadataResponse) -> None:
    for _ in range(passed_ms // 100):
        bench.pass_ms(100)
        bench.answer_metadata(answer)


def test_a_topic_that_never_was_there_is_an_error_after_some_patience() -> None:
    bench = GroupBench()
    bench.answer_metadata(without_topic())
    wait(bench, PATIENCE_MS - 200, without_topic())
    bench.core.raise_errors(bench.now_ms)
    wait(bench, 2 * PATIENCE_MS, without_topic())
    with pytest.raises(UnknownTopicError, match=f"topic {TOPIC} of group readers does not exist") as caught:
        bench.core.raise_errors(bench.now_ms)
    assert "hightide topic create" in str(caught.value)


def test_a_topic_that_is_created_meanwhile_is_no_error_any_more() -> None:
    bench = GroupBench()
    wait(bench, 3 * PATIENCE_MS, without_topic())
    with pytest.raises(UnknownTopicError):
        bench.core.raise_errors(bench.now_ms)
    wait(bench, PATIENCE_MS, with_coordinator())
    bench.core.raise_errors(bench.now_ms)


def test_a_topic_that_is_deleted_while_the_group_reads_it_is_no_error() -> None:
    bench = GroupBench()
    bench.answer_metadata(with_coordinator())
    wait(bench, 3 * PATIENCE_MS, without_topic())
    bench.core.raise_errors(bench.now_ms)


def test_a_pattern_that_matches_no_topic_is_no_error() -> None:
    bench = GroupBench(topics={}, pattern="nothing.*")
    wait(bench, 3 * PATIENCE_MS, without_topic())
    bench.core.raise_errors(bench.now_ms)


def test_a_topic_that_is_there_is_asked_for_once() -> None:
    bench = GroupBench()
    bench.poll()
    assert len(bench.asked) == 1
    bench.answer_metadata(with_coordinator())
    assert not bench.asked
