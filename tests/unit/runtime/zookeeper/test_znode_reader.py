"""Who reads a thing of ZooKeeper again and again says what is wrong with it, and goes on."""

import asyncio
import logging

import pytest
from hightide_local.histories.waiting import aio_wait_until
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.znode_reader import RepeatedReader


def test_a_znode_that_makes_no_sense_is_told_in_a_sentence_and_not_as_a_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def read() -> None:
        raise ZnodeGarbage("/consumers/coordinator_epoch", "not a JSON object")

    async def told() -> bool:
        return bool(caplog.records)

    async def run() -> None:
        connected = asyncio.Event()
        connected.set()
        reader = RepeatedReader("coordinator-0", read, connected)
        reader.start()
        reader.mark()
        await aio_wait_until("it says what is wrong", told, 30)
        await reader.close()

    asyncio.run(run())
    (record,) = caplog.records
    assert (record.levelno, record.exc_info) == (logging.ERROR, None)
    assert record.getMessage() == (
        "znode /consumers/coordinator_epoch: not a JSON object; reading coordinator-0 is tried again until "
        "an operator corrects it"
    )
