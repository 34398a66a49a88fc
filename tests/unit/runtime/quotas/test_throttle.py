"""Calls that come before earlier ones are paid for are held, in their order, and for a bounded time."""

import asyncio

from hightide_runtime.quotas.throttle import Throttle, ThrottleCounts


class Clock:
    """The time as the loop has it, which it jumps over while it has nothing to do."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.skipped_s = 0.0
        unskipped = self.loop.time
        self.loop.time = lambda: unskipped() + self.skipped_s  # type: ignore[method-assign]

    async def skip(self, seconds: float) -> None:
        """Let timers of the next seconds be due, and what waits for them go on."""
        await self._settle()
        self.skipped_s += seconds
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def throttle(clock: Clock, rate_per_s: float = 1_000) -> Throttle:
    return Throttle(rate_per_s, clock.loop.time, ThrottleCounts())


async def take(throttle: Throttle, size: int, done: list[int], patience_s: float = 30) -> bool:
    if await throttle.admit(patience_s):
        throttle.charge(size)
        done.append(size)
        return True
    return False


def test_calls_are_admitted_one_after_the_other_in_their_order_each_once_the_one_before_is_paid() -> None:
    async def story() -> None:
        clock = Clock()
        limited, done = throttle(clock), list[int]()
        calls = [asyncio.create_task(take(limited, size, done)) for size in (2_000, 1_001, 1_002, 1_003)]
        await clock.skip(0)
        assert done == [2_000]
        assert 900 < limited.told_ms <= 1_000, "a second of it was saved"
        for expected in ([2_000, 1_001], [2_000, 1_001, 1_002], [2_000, 1_001, 1_002, 1_003]):
            await clock.skip(1.05)
            assert done == expected
        assert all(await asyncio.gather(*calls))
        assert limited.counts.calls_held == 3
        assert limited.counts.taken == 5_006

    asyncio.run(story())


def test_a_call_that_comes_when_the_debt_is_paid_does_not_overtake_those_that_are_held() -> None:
    async def story() -> None:
        clock = Clock()
        limited, done = throttle(clock), list[int]()
        await take(limited, 2_000, done)
        held = asyncio.create_task(take(limited, 1, done))
        await clock.skip(0)
        clock.skipped_s += 2
        late = asyncio.create_task(take(limited, 2, done))
        await clock.skip(0)
        await asyncio.gather(held, late)
        assert done == [2_000, 1, 2]

    asyncio.run(story())


def test_a_call_is_not_held_for_longer_than_its_patience_and_then_takes_nothing() -> None:
    async def story() -> None:
        clock = Clock()
        limited, done = throttle(clock), list[int]()
        await take(limited, 30_000, done)
        impatient = asyncio.create_task(take(limited, 1, done, patience_s=5))
        patient = asyncio.create_task(take(limited, 2, done, patience_s=35))
        await clock.skip(4.9)
        assert not impatient.done()
        await clock.skip(0.2)
        assert impatient.done()
        assert not await impatient
        await clock.skip(25)
        assert await patient
        assert done == [30_000, 2]

    asyncio.run(story())


def test_a_call_that_is_cancelled_while_it_is_held_leaves_its_turn_to_the_next_one() -> None:
    async def story() -> None:
        clock = Clock()
        limited, done = throttle(clock), list[int]()
        await take(limited, 2_000, done)
        first, second = (asyncio.create_task(take(limited, size, done)) for size in (1, 2))
        await clock.skip(0)
        first.cancel()
        await clock.skip(1.1)
        assert await second
        assert done == [2_000, 2]
        assert not limited.must_wait

    asyncio.run(story())


def test_a_higher_rate_lets_those_that_are_held_go_on_sooner_and_none_at_once() -> None:
    async def story() -> None:
        clock = Clock()
        limited, done = throttle(clock), list[int]()
        await take(limited, 21_000, done)
        first, second = (asyncio.create_task(take(limited, size, done)) for size in (50_000, 2))
        await clock.skip(1)
        limited.set_rate(20_000)
        await clock.skip(0.5)
        assert done == [21_000]
        await clock.skip(0.6)
        assert done == [21_000, 50_000]
        limited.set_rate(None)
        await clock.skip(0)
        assert await first
        assert await second
        assert limited.told_ms == 0

    asyncio.run(story())


def test_two_principals_do_not_wait_for_each_other() -> None:
    async def story() -> None:
        clock = Clock()
        greedy, modest, done = throttle(clock), throttle(clock), list[int]()
        calls = [asyncio.create_task(take(greedy, 10_000, [])) for _ in range(100)]
        await clock.skip(0)
        assert await take(modest, 900, done)
        assert modest.told_ms == 0
        for each in calls:
            each.cancel()

    asyncio.run(story())
