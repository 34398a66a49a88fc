"""Requests that wait, and what ends their waiting."""

from __future__ import annotations

import asyncio
import gc
import sys

from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.replica.parking import AckQueue, ParkedFetch, ParkedProduce

LONG_MS = 30_000


def test_a_produce_waits_for_all_its_partitions() -> None:
    async def scenario() -> None:
        first, second, produce = AckQueue(), AckQueue(), ParkedProduce()
        produce.expect(0, first, 10)
        produce.expect(1, second, 20)
        waiting = asyncio.ensure_future(produce.wait(LONG_MS))
        await asyncio.sleep(0)
        first.release(10)
        await asyncio.sleep(0)
        assert not waiting.done()
        second.release(25)
        await waiting
        assert produce.failures == {}

    asyncio.run(scenario())


def test_a_produce_settled_before_it_waits_returns_at_once() -> None:
    async def scenario() -> None:
        queue, produce = AckQueue(), ParkedProduce()
        produce.expect(0, queue, 10)
        queue.release(10)
        await produce.wait(LONG_MS)

    asyncio.run(scenario())


def test_what_is_not_committed_in_time_is_told_as_timed_out_and_leaves_the_queue() -> None:
    async def scenario() -> None:
        queue, produce = AckQueue(), ParkedProduce()
        produce.expect(0, queue, 10)
        produce.expect(1, queue, 20)
        queue.release(10)
        await produce.wait(1)
        assert produce.failures == {1: ErrorCode.ERROR_CODE_TIMED_OUT}
        assert len(queue) == 0

    asyncio.run(scenario())


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        queue, produce = AckQueue(), ParkedProduce()
        produce.expect(0, queue, 10)
        waiting = asyncio.ensure_future(produce.wait(LONG_MS))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(queue) == 0

    asyncio.run(scenario())


def test_lost_leadership_fails_all_that_wait() -> None:
    async def scenario() -> None:
        queue, produce = AckQueue(), ParkedProduce()
        produce.expect(0, queue, 10)
        queue.fail(ErrorCode.ERROR_CODE_NOT_LEADER)
        await produce.wait(LONG_MS)
        assert produce.failures == {0: ErrorCode.ERROR_CODE_NOT_LEADER}

    asyncio.run(scenario())


def test_a_duplicate_with_old_offsets_is_settled_before_newer_ones() -> None:
    newer, older, queue = ParkedProduce(), ParkedProduce(), AckQueue()
    newer.expect(0, queue, 20)
    older.expect(0, queue, 10)
    queue.release(15, ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert older.failures == {0: ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND}
    assert len(queue) == 1


def test_a_produce_that_ends_behind_the_high_watermark_waits_on() -> None:
    async def scenario() -> None:
        queue, first, second = AckQueue(), ParkedProduce(), ParkedProduce()
        first.expect(0, queue, 10)
        second.expect(0, queue, 11)
        queue.release(10)
        assert len(queue) == 1
        await first.wait(LONG_MS)
        await second.wait(1)
        assert second.failures == {0: ErrorCode.ERROR_CODE_TIMED_OUT}

    asyncio.run(scenario())


def test_a_fetch_is_woken_by_what_it_waits_for_or_by_its_time() -> None:
    async def scenario() -> None:
        woken, timed = ParkedFetch(), ParkedFetch()
        woken.wake()
        woken.wake()
        await woken.wait(LONG_MS)
        await timed.wait(1)

    asyncio.run(scenario())


def test_a_queue_in_which_nobody_waits_takes_hardly_any_memory() -> None:
    """A broker has ten thousand of them. Empty deques took 6 MB."""
    queue, produce = AckQueue(), ParkedProduce()
    produce.expect(0, queue, 10)
    queue.release(10)
    kept = [each for each in gc.get_referents(queue) if not isinstance(each, type)]
    assert sum(map(sys.getsizeof, kept)) < 100
