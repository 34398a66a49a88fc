"""What becomes of a producer's records when it is closed before they are delivered."""

import asyncio
import os
import signal
import threading
from types import FrameType

import pytest
from hightide import Delivery, Producer, aio
from hightide.aio.delivery import Delivery as AioDelivery
from hightide.errors import UndeliveredError
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide_local.histories.waiting import wait_until
from unit.sdk.producer_bench import TOPIC, metadata

NOBODY = "127.0.0.1:1"


class InterruptedByHandError(BaseException):
    """As KeyboardInterrupt, which would end the run of the tests."""


def led_by_nobody() -> GetMetadataResponse:
    """The topic is known, and its leader is not there."""
    known = metadata([1])
    for broker in known.brokers:
        broker.host, broker.port = "127.0.0.1", 1
    return known


async def aio_with_a_record() -> tuple[aio.Producer, AioDelivery]:
    producer = aio.Producer(NOBODY)
    producer._core.cluster.update(led_by_nobody())
    return producer, await producer.send(TOPIC, b"left")


def with_a_record() -> tuple[Producer, Delivery]:
    producer = Producer(NOBODY)
    producer._core.cluster.update(led_by_nobody())
    return producer, producer.send(TOPIC, b"left")


def test_what_is_left_when_the_time_runs_out_is_counted_and_fails() -> None:
    producer, delivery = with_a_record()
    with pytest.raises(UndeliveredError, match="still being sent"):
        producer.flush(0)
    with pytest.raises(UndeliveredError, match="closed with 1 records") as caught:
        producer.close(0)
    assert caught.value.undelivered_count == 1
    with pytest.raises(UndeliveredError):
        delivery.result()


def test_with_asyncio_what_is_left_when_the_time_runs_out_is_counted_and_fails() -> None:
    async def scenario() -> None:
        producer, delivery = await aio_with_a_record()
        with pytest.raises(UndeliveredError, match="still being sent"):
            await producer.flush(0)
        with pytest.raises(UndeliveredError, match="closed with 1 records") as caught:
            await producer.close(0)
        assert caught.value.undelivered_count == 1
        with pytest.raises(UndeliveredError):
            await delivery

    asyncio.run(scenario())


def test_who_interrupts_a_closing_is_told_what_is_left() -> None:
    producer, delivery = with_a_record()

    def interrupted(number: int, frame: FrameType | None) -> None:
        raise InterruptedByHandError

    def interrupt() -> None:
        # Closing hurries what is open, and then waits for it.
        wait_until("the closing waits", lambda: delivery._batch.is_urgent, 60)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(UndeliveredError, match="closed with 1 records") as caught:
            producer.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert isinstance(caught.value.__context__, InterruptedByHandError)


def test_a_closing_that_is_cancelled_ends_as_cancelled_and_fails_what_is_left() -> None:
    async def scenario() -> None:
        producer, delivery = await aio_with_a_record()
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(UndeliveredError):
            await delivery

    asyncio.run(scenario())
