"""What becomes of a producer's records when it is closed, or fails, before they are delivered."""

import asyncio
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import pytest
from hightide import Delivery, Producer, aio
from hightide.aio.delivery import Delivery as AioDelivery
from hightide.errors import DeliveryTimeoutError, InternalError, InvalidArgumentError, UndeliveredError
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


async def aio_with_a_record(**settings: Any) -> tuple[aio.Producer, AioDelivery]:
    producer = aio.Producer(NOBODY, **settings)
    producer._core.cluster.update(led_by_nobody())
    return producer, await producer.send(TOPIC, b"left")


def with_a_record(**settings: Any) -> tuple[Producer, Delivery]:
    producer = Producer(NOBODY, **settings)
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

    struck: list[int] = []

    def interrupted(number: int, frame: FrameType | None) -> None:
        if not struck:
            struck.append(number)
            raise InterruptedByHandError

    def is_struck() -> bool:
        if not struck:
            os.kill(os.getpid(), signal.SIGUSR1)
        return bool(struck)

    def interrupt() -> None:
        # Closing hurries what is open, and then waits for it. A signal that comes while it begins to wait
        # does not wake it, so that another one has to follow.
        wait_until("the closing waits", lambda: delivery._batch.is_urgent, 60)
        wait_until("the closing is interrupted", is_struck, 60)

    before = signal.signal(signal.SIGUSR1, interrupted)
    interrupting = threading.Thread(target=interrupt)
    try:
        interrupting.start()
        with pytest.raises(UndeliveredError, match="closed with 1 records") as caught:
            producer.close()
    finally:
        interrupting.join()
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


def break_down(producer: Producer | aio.Producer) -> None:
    """What drives its core meets a defect next."""
    producer._core.seeker = None  # type: ignore[assignment]
    producer._driver.poke()


def test_a_sender_that_fails_fails_what_waits_for_it() -> None:
    """Those who waited for a record, or for all of them, waited for ever."""
    producer, delivery = with_a_record(linger_ms=60_000)
    break_down(producer)
    assert "the sender thread failed" in str(delivery.exception(60))
    # It sent its user to the log of a server, and there is none that failed.
    with pytest.raises(InternalError, match=r"the sender thread failed.*close this client"):
        producer.send(TOPIC, b"later")
    assert producer.undelivered_count == 0
    producer.close()


def test_with_asyncio_a_sender_that_fails_fails_what_waits_for_it() -> None:
    async def scenario() -> None:
        producer, delivery = await aio_with_a_record()
        break_down(producer)
        async with asyncio.timeout(60):
            with pytest.raises(InternalError, match="the sender task failed"):
                await delivery
        with pytest.raises(InternalError, match="the sender task failed"):
            await producer.send(TOPIC, b"later")
        assert producer.undelivered_count == 0
        await producer.close()

    asyncio.run(scenario())


def test_with_asyncio_a_call_that_fails_fails_what_waits_for_it() -> None:
    """The failure of one call was nobody's: its records stayed in flight."""

    async def scenario() -> None:
        producer, delivery = await aio_with_a_record(idempotent=False)
        # What lies in the batch cannot be encoded, for a reason that no check foresaw.
        delivery._batch.timestamps = None
        async with asyncio.timeout(60):
            with pytest.raises(InternalError, match="the sender task failed"):
                await delivery
        await producer.close()

    asyncio.run(scenario())


def test_a_callback_that_wants_to_end_the_program_ends_only_itself() -> None:
    """It ended the sender's thread without a word."""

    def end(_: Delivery) -> None:
        # Where it is late, it is called at once, by the test itself.
        if threading.current_thread() is not threading.main_thread():
            sys.exit(1)

    producer, delivery = with_a_record(delivery_timeout_ms=500)
    delivery.add_done_callback(end)
    assert isinstance(delivery.exception(60), DeliveryTimeoutError)
    assert isinstance(producer.send(TOPIC, b"later").exception(60), DeliveryTimeoutError)
    producer.close()


@pytest.mark.parametrize("topic", [5, b"topic", "\ud800"])
def test_a_topic_that_no_request_can_carry_harms_no_record_of_another(topic: Any) -> None:
    """It was asked for by the sender, which failed."""
    producer, delivery = with_a_record()
    with pytest.raises(InvalidArgumentError, match="name of a topic"):
        producer.send(topic, b"never sent")
    with pytest.raises(InvalidArgumentError, match="header"):
        producer.send(TOPIC, b"never sent", headers=[("\ud800", b"")])
    assert not delivery.done()
    with pytest.raises(UndeliveredError, match="closed with 1 records"):
        producer.close(0)
