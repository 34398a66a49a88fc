"""What becomes of an asyncio producer's records when it is closed."""

import asyncio

import pytest
from hightide import aio
from hightide.aio.delivery import Delivery
from hightide.errors import UndeliveredError
from unit.sdk.producer_bench import TOPIC, metadata


async def with_a_record_that_nobody_takes() -> tuple[aio.Producer, Delivery]:
    """A producer that knows its topic, and whose only broker is not there."""
    producer = aio.Producer("127.0.0.1:1")
    known = metadata([1])
    for broker in known.brokers:
        broker.host = "127.0.0.1"
    producer._core.cluster.update(known)
    return producer, await producer.send(TOPIC, b"left")


def test_what_is_left_when_the_time_runs_out_is_counted_and_fails() -> None:
    async def scenario() -> None:
        producer, delivery = await with_a_record_that_nobody_takes()
        with pytest.raises(UndeliveredError, match="still being sent"):
            await producer.flush(0)
        with pytest.raises(UndeliveredError, match="closed with 1 records") as caught:
            await producer.close(0)
        assert caught.value.undelivered_count == 1
        with pytest.raises(UndeliveredError):
            await delivery

    asyncio.run(scenario())


def test_a_closing_that_is_cancelled_ends_as_cancelled_and_fails_what_is_left() -> None:
    async def scenario() -> None:
        producer, delivery = await with_a_record_that_nobody_takes()
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(UndeliveredError):
            await delivery

    asyncio.run(scenario())
