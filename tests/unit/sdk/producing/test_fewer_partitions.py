"""What a producer makes of a topic that has fewer partitions than before: it was created again, or some were
removed."""

import pytest
from hightide.errors import UnknownPartitionError
from hightide.producing.producer_core import UNKNOWN_TOPIC_PATIENCE_MS
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.producer_bench import TOPIC_ID, ProducerBench, headers_of, metadata

STEP_MS = 100


def told_of(bench: ProducerBench, leaders: list[int], *, for_ms: float, topic_id: bytes = TOPIC_ID) -> None:
    """For so long brokers name these leaders whenever they are asked."""
    end_ms = bench.now_ms + for_ms
    while bench.now_ms < end_ms:
        assert bench.calls() == [], "nothing goes to a partition without a leader"
        if bench.asked:
            bench.answer_metadata(metadata(leaders, topic_id=topic_id))
        bench.pass_ms(STEP_MS)


@pytest.mark.parametrize("topic_id", [b"n" * 16, TOPIC_ID], ids=["created again", "removed"])
def test_a_record_for_a_partition_that_is_gone_fails_long_before_its_delivery_timeout(
    topic_id: bytes,
) -> None:
    """It waited for two minutes, and so did each later record for that partition."""
    bench = ProducerBench((1, 2))
    (lost,) = bench.send(1, partition=1)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID)
    told_of(bench, [1], for_ms=UNKNOWN_TOPIC_PATIENCE_MS + 5 * STEP_MS, topic_id=topic_id)
    assert lost.done()
    error = lost.exception()
    assert isinstance(error, UnknownPartitionError)
    assert "topic flights has the partitions 0 to 0 by now, not 1" in str(error)
    assert bench.core.undelivered_count == 0
    with pytest.raises(UnknownPartitionError, match="partitions 0 to 0, not 1"):
        bench.send(1, partition=1)
    assert bench.home.queues[bench.home.partition_of(b"key")].partition == 0


def test_records_without_a_key_go_to_a_partition_that_is_left_at_once() -> None:
    bench = ProducerBench((1, 2))
    bench.core.next_sticky(bench.home)
    bench.core.next_sticky(bench.home)
    assert bench.home.sticky.partition == 1
    bench.send(1, partition=1)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_INCONSISTENT_TOPIC_ID)
    told_of(bench, [1], for_ms=STEP_MS, topic_id=b"n" * 16)
    (sent,) = bench.send(1, partition=None)
    bench.ok(bench.call(), base_offset=3)
    assert (sent.result().partition, sent.result().offset) == (0, 3)


def test_a_broker_that_has_not_heard_of_new_partitions_fails_no_record() -> None:
    bench = ProducerBench((1, 2))
    (sent,) = bench.send(1, partition=1)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_NOT_LEADER)
    told_of(bench, [1], for_ms=UNKNOWN_TOPIC_PATIENCE_MS / 2)
    bench.pass_ms(UNKNOWN_TOPIC_PATIENCE_MS)
    assert bench.calls() == []
    bench.answer_metadata(metadata({0: (1, 1), 1: (3, 2)}))
    bench.ok(bench.call(), base_offset=8)
    assert sent.result().offset == 8


def test_a_topic_of_which_no_leader_is_known_for_long_keeps_its_partitions() -> None:
    """It was created again while no controller could choose leaders. The producer ended with an assertion."""
    bench = ProducerBench((1, 2))
    (sent,) = bench.send(1, partition=1)
    bench.refuse(bench.call(), ErrorCode.ERROR_CODE_NOT_LEADER)
    told_of(bench, [], for_ms=2 * UNKNOWN_TOPIC_PATIENCE_MS)
    assert bench.calls() == []
    bench.answer_metadata(metadata({0: (1, 1), 1: (3, 2)}))
    bench.ok(bench.call(), base_offset=8)
    assert sent.result().offset == 8


def test_a_partition_that_comes_back_goes_on_with_its_sequences() -> None:
    """A new queue would begin at sequence 0, and a record would be taken for one that is there already."""
    bench = ProducerBench((1, 2))
    bench.send(1, partition=1)
    bench.ok(bench.call())
    bench.home.resize(1)
    bench.home.resize(2)
    bench.send(1, partition=1)
    (header,) = headers_of(bench.call())
    assert header.base_sequence == 1
