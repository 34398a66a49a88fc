"""on_error and on_statistics of real clients, to whom nobody listens: where they are called, and that one
that raises is told and harms nothing."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable

import pytest
from hightide import (
    CallFailure,
    Consumer,
    ConsumerStatistics,
    ProducerStatistics,
    TopicPartition,
    aio,
)
from hightide.errors import AddressUnreachableError, UndeliveredError
from hightide.transport.driver import REPORT_RAISED
from unit.sdk.producer_bench import TOPIC
from unit.sdk.producing.test_closing import NOBODY, with_a_record

PLACE = TopicPartition(TOPIC, 0)


class Called:
    """Notes what a callback is told, and by which thread, and raises."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.threads: set[str] = set()
        self.twice = threading.Event()
        self.on_twice: Callable[[], None] = self.twice.set

    def __call__(self, what: object) -> None:
        self.told.append(what)
        self.threads.add(threading.current_thread().name)
        if len(self.told) == 2:
            self.on_twice()
        raise LookupError("a fault of the program")


def test_the_thread_of_a_consumer_calls_them_though_nobody_polls(caplog: pytest.LogCaptureFixture) -> None:
    on_error, on_statistics = Called(), Called()
    with Consumer(
        NOBODY, on_error=on_error, on_statistics=on_statistics, statistics_interval_ms=100
    ) as consumer:
        consumer.assign([PLACE])
        assert on_error.twice.wait(60), "a failed callback is not the last one"
        assert on_statistics.twice.wait(60)
    failure, figures = on_error.told[0], on_statistics.told[0]
    assert isinstance(failure, CallFailure)
    assert (failure.method, failure.address) == ("GetMetadata", NOBODY)
    assert isinstance(failure.error, AddressUnreachableError)
    assert isinstance(figures, ConsumerStatistics)
    assert (figures.group, figures.partitions[PLACE].position) == (None, None)
    assert on_error.threads == on_statistics.threads == {"hightide-consumer"}
    raised = [each for each in caplog.records if each.getMessage() == REPORT_RAISED]
    assert len(raised) >= 4
    assert {(each.name, each.levelno) for each in raised} == {("hightide", logging.ERROR)}
    assert all(each.exc_info and each.exc_info[0] is LookupError for each in raised)


def test_a_producer_tells_what_is_undelivered() -> None:
    figures = queue.SimpleQueue[ProducerStatistics]()
    producer, _ = with_a_record(on_statistics=figures.put, statistics_interval_ms=100)
    while not (told := figures.get(timeout=60)).undelivered_records:
        pass
    with pytest.raises(UndeliveredError):
        producer.close(timeout_s=0)
    assert (told.acknowledged_records, told.undelivered_records) == (0, 1)
    assert told.buffered_bytes > 0


def test_with_asyncio_they_are_called_on_the_loop() -> None:
    on_error, on_statistics = Called(), Called()

    async def scenario() -> None:
        both = asyncio.Semaphore(0)
        on_error.on_twice = on_statistics.on_twice = both.release
        async with aio.Consumer(
            NOBODY, on_error=on_error, on_statistics=on_statistics, statistics_interval_ms=100
        ) as consumer:
            await consumer.assign([PLACE])
            async with asyncio.timeout(60):
                await both.acquire()
                await both.acquire()

    asyncio.run(scenario())
    assert on_error.threads == on_statistics.threads == {threading.current_thread().name}
