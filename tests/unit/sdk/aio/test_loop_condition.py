"""The guard of asyncio's clients: it wakes who waits, and refuses what would stop the blocking twin."""

import asyncio

import pytest
from hightide.aio.loop_condition import LoopCondition


def test_who_waits_is_woken_and_others_may_enter_meanwhile() -> None:
    async def scenario() -> None:
        changed, ready = LoopCondition(), False

        async def until_ready() -> None:
            with changed:
                while not ready:
                    await changed.wait()

        waiting = [asyncio.create_task(until_ready()) for _ in range(2)]
        await asyncio.sleep(0)
        with changed:
            changed.notify_all()
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        with changed:
            ready = True
            changed.notify_all()
        await asyncio.gather(*waiting)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_waiting_ends_when_the_time_is_up_and_it_is_held_again() -> None:
    async def scenario() -> None:
        changed = LoopCondition()
        with changed:
            await changed.wait(0)
            changed.notify_all()

    asyncio.run(scenario())


def test_it_is_free_again_when_who_waits_is_cancelled() -> None:
    async def scenario() -> None:
        changed = LoopCondition()

        async def wait() -> None:
            with changed:
                await changed.wait()

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with changed:
            pass

    asyncio.run(scenario())


def test_it_is_not_held_over_an_await_of_something_else() -> None:
    async def scenario() -> None:
        changed, go_on = LoopCondition(), asyncio.Event()

        async def hold() -> None:
            with changed:
                await go_on.wait()

        holding = asyncio.create_task(hold())
        await asyncio.sleep(0)
        with pytest.raises(AssertionError, match="held already"), changed:
            pass
        go_on.set()
        await holding

    asyncio.run(scenario())


def test_only_who_holds_it_waits_and_wakes() -> None:
    changed = LoopCondition()
    with pytest.raises(AssertionError):
        changed.notify_all()
    with pytest.raises(AssertionError):
        asyncio.run(changed.wait(0))
