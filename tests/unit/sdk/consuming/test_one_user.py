"""A consumer is for one thread, or one task, at a time, and says so."""

import asyncio
import threading

import pytest
from hightide import Consumer, TopicPartition, aio
from hightide.errors import ClosedError, ConcurrentUseError
from hightide_local.histories.waiting import wait_until

NOBODY = "127.0.0.1:1"
PLACE = TopicPartition("flights", 0)
NEVER_S = 600.0


def test_a_second_thread_that_polls_meanwhile_is_told_so() -> None:
    """Each of both got some of the records, and committed those of the other."""
    consumer = Consumer(NOBODY)
    consumer.assign([PLACE])

    def read() -> None:
        with pytest.raises(ClosedError):
            consumer.poll(NEVER_S)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        wait_until("the first one reads", consumer._alone._held.locked, 60)
        with pytest.raises(ConcurrentUseError, match="one thread and pass them on"):
            consumer.poll(0)
    finally:
        consumer.close()
        reading.join()


def test_a_second_task_that_takes_records_meanwhile_is_told_so() -> None:
    async def scenario() -> None:
        async with aio.Consumer(NOBODY) as consumer:
            await consumer.assign([PLACE])
            first = asyncio.create_task(consumer.poll(NEVER_S))
            await asyncio.sleep(0)
            for take in (consumer.poll, consumer.poll_arrow, aiter(consumer).__anext__):
                with pytest.raises(ConcurrentUseError):
                    await take()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert await consumer.poll(0) == []

    asyncio.run(scenario())
