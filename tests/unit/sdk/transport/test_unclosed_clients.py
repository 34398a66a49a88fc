"""A client that nobody closes ends by itself when it is collected, and says that it was not closed. Its
thread and its connections stayed, in a notebook for ever."""

import asyncio
import gc
import threading

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition, aio
from hightide.errors import DeliveryTimeoutError
from hightide.transport import at_exit
from hightide_local.histories.waiting import wait_until
from unit.sdk.producer_bench import TOPIC
from unit.sdk.producing.test_closing import NOBODY, aio_with_a_record, with_a_record

PLACE = TopicPartition(TOPIC, 0)


def threads_of_the_sdk() -> int:
    return sum(each.name.startswith("hightide-") for each in threading.enumerate())


def test_ten_producers_that_were_not_closed_leave_no_thread_behind() -> None:
    before = threads_of_the_sdk()
    for _ in range(10):
        with pytest.warns(ResourceWarning, match=r"unclosed .*Producer.*: call its close\(\)"):
            with_a_record(delivery_timeout_ms=1)
    wait_until("all threads have ended", lambda: threads_of_the_sdk() == before, 60)
    assert not at_exit._open


def test_a_consumer_that_was_not_closed_leaves_no_thread_behind() -> None:
    before = threads_of_the_sdk()
    consumer = Consumer(NOBODY)
    consumer.assign([PLACE])
    assert threads_of_the_sdk() == before + 1
    with pytest.warns(ResourceWarning, match="unclosed .*Consumer"):
        del consumer
    wait_until("its thread has ended", lambda: threads_of_the_sdk() == before, 60)


def test_what_a_producer_took_ends_although_the_producer_was_not_closed() -> None:
    producer, delivery = with_a_record(linger_ms=60_000, delivery_timeout_ms=50)
    with pytest.warns(ResourceWarning):
        del producer
    assert isinstance(delivery.exception(60), DeliveryTimeoutError)
    wait_until("it is forgotten", lambda: not at_exit._open, 60)


def test_a_producer_that_is_in_a_cycle_of_references_is_collected() -> None:
    before = threads_of_the_sdk()
    holder: list[object] = [with_a_record(delivery_timeout_ms=1)]
    holder.append(holder)
    del holder
    with pytest.warns(ResourceWarning):
        gc.collect()
    wait_until("its thread has ended", lambda: threads_of_the_sdk() == before, 60)


def test_a_client_that_was_never_used_needs_no_closing(recwarn: pytest.WarningsRecorder) -> None:
    for make in (Producer, Consumer, aio.Producer, aio.Consumer):
        made = make(NOBODY)
        del made
    assert not recwarn.list


def test_a_client_shows_its_cluster_its_group_and_its_state() -> None:
    for names in (Producer, Consumer, Admin), (aio.Producer, aio.Consumer, aio.Admin):
        producer, consumer, admin = (make(NOBODY) for make in names)
        assert repr(producer) == f"<Producer of {NOBODY}: not used yet>"
        assert repr(consumer) == f"<Consumer of {NOBODY}: partitions: 0, not used yet>"
        assert repr(admin) == f"<Admin of {NOBODY}: open>"
    with Consumer(NOBODY, group="readers", topics="t") as member:
        assert repr(member) == f"<Consumer of {NOBODY}: group readers, partitions: 0, not used yet>"
    with Consumer(NOBODY) as reader:
        reader.assign([PLACE])
        assert repr(reader) == f"<Consumer of {NOBODY}: partitions: 1, open>"
    assert repr(reader) == f"<Consumer of {NOBODY}: partitions: 1, closed>"


def test_with_asyncio_what_was_not_closed_ends_by_itself() -> None:
    async def scenario() -> None:
        own = asyncio.current_task()
        producer, delivery = await aio_with_a_record(delivery_timeout_ms=50)
        consumer = aio.Consumer(NOBODY)
        await consumer.assign([PLACE])
        with pytest.warns(ResourceWarning, match="unclosed .*Producer"):
            del producer
        with pytest.warns(ResourceWarning, match="unclosed .*Consumer"):
            del consumer
        with pytest.raises(DeliveryTimeoutError):
            await delivery
        async with asyncio.timeout(60):
            # A call that is under way when its driver stops ends as cancelled.
            await asyncio.gather(*asyncio.all_tasks() - {own}, return_exceptions=True)
        assert not at_exit._open

    asyncio.run(scenario())


def test_with_asyncio_what_is_left_after_the_end_of_the_loop_is_counted() -> None:
    producer, _ = asyncio.run(aio_with_a_record())
    with pytest.warns(ResourceWarning):
        del producer
    (left,) = at_exit._open
    assert left.undelivered_count == 1
    at_exit.forget(left)
