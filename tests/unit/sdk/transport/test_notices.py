"""What cores tell is logged by their drivers."""

import asyncio
import logging
import threading
from random import Random

import pytest
from hightide.aio.driver import Driver as AioDriver
from hightide.aio.loop_condition import LoopCondition
from hightide.calls.notice import Level, Notice
from hightide.cluster.metadata import ClusterMetadata
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.tracing import Reporter
from hightide.transport.driver import Driver
from hightide.transport.thread_condition import ThreadCondition
from hightide.transport.transport import AioTransport, Transport

NOTICE = Notice("hightide.consumer", Level.WARNING, "the log is 100% gone")


class Heard(logging.Handler):
    """Notes the first record."""

    def __init__(self) -> None:
        """Hears of everything."""
        super().__init__()
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Note it."""
        self.found = (record.name, record.levelno, record.getMessage())
        self.came.set()


def core_with_a_notice() -> ConsumerCore:
    """A core that reads nothing, and so makes no call."""
    core = ConsumerCore(ConsumerSettings(), ClusterMetadata(("127.0.0.1:9",)), (), Random(1))
    core.notices.append(NOTICE)
    return core


def test_a_thread_logs_what_its_core_tells() -> None:
    core, changed, heard = core_with_a_notice(), ThreadCondition(), Heard()
    driver = Driver(core, Transport(None), changed, "reader", Reporter("poll", None))
    logger = logging.getLogger("hightide.consumer")
    logger.addHandler(heard)
    try:
        with changed:
            driver.start()
            driver.poke()
        assert heard.came.wait(60)
    finally:
        logger.removeHandler(heard)
        driver.stop()
    assert heard.found == ("hightide.consumer", logging.WARNING, "the log is 100% gone")
    assert not core.notices


def test_a_task_logs_what_its_core_tells_and_what_is_left_when_it_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        core = core_with_a_notice()
        driver = AioDriver(core, AioTransport(None), LoopCondition(), "reader", Reporter("poll", None))
        driver.start()
        await asyncio.sleep(0)
        assert not core.notices
        core.notices.append(NOTICE._replace(level=Level.ERROR))
        await driver.stop()

    asyncio.run(scenario())
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.WARNING, "the log is 100% gone"),
        (logging.ERROR, "the log is 100% gone"),
    ]
