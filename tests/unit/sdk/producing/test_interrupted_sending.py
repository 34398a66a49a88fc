"""A thread that is interrupted while it sends, as by Ctrl-C, leaves whole records behind, or nothing."""

import time
from typing import Any

import pytest
from hightide import Producer
from hightide.errors import UndeliveredError
from unit.sdk.producer_bench import TOPIC, ProducerBench, headers_of, metadata


class InterruptedByHandError(BaseException):
    """As KeyboardInterrupt, which would end the run of the tests."""


class Interrupting(tuple[tuple[str, bytes], ...]):
    """Headers at which the sending is interrupted, when they are looked at once more than they should be."""

    looks = 1

    def __bool__(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            raise InterruptedByHandError
        return True


def test_a_record_whose_sending_was_interrupted_leaves_no_part_in_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its key and value stayed, so that all later records of the batch had the timestamp of another."""

    def interrupted() -> int:
        monkeypatch.undo()
        raise InterruptedByHandError

    producer = Producer("127.0.0.1:1", linger_ms=60_000)
    producer._core.cluster.update(metadata([1]))
    before = producer.send(TOPIC, b"before", timestamp_us=1)
    monkeypatch.setattr(time, "time_ns", interrupted)
    with pytest.raises(InterruptedByHandError):
        producer.send(TOPIC, b"interrupted")
    after = producer.send(TOPIC, b"after", timestamp_us=2)
    assert after._batch is before._batch
    rows = after._batch.columns()
    assert rows.column(1).to_pylist() == [b"before", b"after"]
    assert list(after._batch.timestamps) == [1, 2]
    assert producer.undelivered_count == 2
    with pytest.raises(UndeliveredError, match="closed with 2 records"):
        producer.close(0)


@pytest.mark.parametrize("records_before", [0, 1])
def test_so_does_one_that_takes_the_slow_way(records_before: int) -> None:
    bench = ProducerBench(linger_ms=60_000)
    bench.send(records_before)
    free_bytes = bench.core.free_bytes
    queue = bench.home.queues[0]
    interrupting: Any = Interrupting([("name", b"value")])
    with pytest.raises(InterruptedByHandError):
        bench.core.append(bench.home, queue, b"k", b"interrupted", 5, interrupting, bench.now_ms)
    assert bench.core.undelivered_count == records_before
    assert records_before or bench.core.free_bytes == free_bytes
    assert records_before or bench.calls() == [], "a batch without records is never sent"
    bench.send()
    bench.pass_ms(60_001)
    assert [header.record_count for header in headers_of(bench.call())] == [records_before + 1]
