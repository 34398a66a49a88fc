"""A step that a process repeats goes on until it is closed, whatever one of them raises."""

from __future__ import annotations

import asyncio

import pytest
from hightide_runtime.process.repeated_step import RepeatedStep

PATIENCE_S = 60.0


def test_a_step_that_failed_is_logged_and_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    """Whether another process coordinates was never asked again after an error that nobody expected."""

    async def scenario() -> None:
        again = asyncio.Event()
        steps: list[int] = []

        async def step() -> None:
            steps.append(len(steps))
            if steps == [0]:
                raise ValueError("a broker said something new")
            again.set()

        repeated = RepeatedStep("isolation", 0.001, step)
        repeated.start()
        await asyncio.wait_for(again.wait(), PATIENCE_S)
        await repeated.close()

    asyncio.run(scenario())
    assert "isolation failed, and is repeated in 0.0 s" in caplog.text
    assert "a broker said something new" in caplog.text


def test_it_is_closed_in_the_middle_of_a_step() -> None:
    async def scenario() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def step() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        repeated = RepeatedStep("a look that hangs", 0.0, step)
        repeated.start()
        await asyncio.wait_for(began.wait(), PATIENCE_S)
        await asyncio.wait_for(repeated.close(), PATIENCE_S)
        assert ended.is_set()

    asyncio.run(scenario())


def test_one_that_was_never_started_can_be_closed() -> None:
    async def step() -> None:
        raise AssertionError("nobody started it")

    asyncio.run(RepeatedStep("never", 0.0, step).close())
