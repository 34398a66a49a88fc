"""Reading to the end of the partitions, when logs move meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hightide import Consumer
from hightide.cluster.offset_at import EARLIEST
from unit.sdk.consumer_bench import P0, batch, parse
from unit.sdk.producing.test_closing import NOBODY


def test_it_ends_although_the_records_up_to_the_end_are_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The position is behind the end then, and no record may ever come: it waited for ever."""
    with Consumer(NOBODY) as consumer, ThreadPoolExecutor(1) as thread:
        consumer.assign([P0])
        monkeypatch.setattr(consumer, "end_offsets", lambda _: {P0: 10})
        with consumer._changed:
            position = consumer._core.positions[P0]
            position.found(7)
            data = batch(7, 1)
            consumer._core.queue(position.take_over([(parse(data, 0), memoryview(data))]))
        reading = consumer.read_to_end()
        assert next(reading).offset == 7
        with consumer._changed:
            position.reset(EARLIEST)  # Offset 8 is out of range.
            position.found(12)
        ending = thread.submit(list, reading)
        try:
            assert ending.result(30) == []
        finally:
            consumer.close()
