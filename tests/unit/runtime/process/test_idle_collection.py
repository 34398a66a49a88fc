"""Garbage is collected when a burst is over, and not in the middle of it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from hightide_runtime.process.idle_collection import IdleCollection, is_due


@pytest.mark.parametrize(
    ("before", "made", "due"),
    [
        (40_000, 40_100, True),
        (40_100, 40_000, True),
        (40_000, 80_000, False),  # a burst is under way
        (80_000, 40_000, False),  # and here it is taken apart
        (9_000, 9_100, False),  # not worth it
    ],
)
def test_a_collection_is_due_when_much_was_made_and_a_second_brought_little(
    before: int, made: int, due: bool
) -> None:
    assert is_due(made, before) is due


@pytest.fixture
def rare_collector() -> Iterator[None]:
    """The thresholds of a service."""
    earlier = gc.get_threshold()
    gc.set_threshold(100_000, 1, 1_000)
    yield
    gc.set_threshold(*earlier)


@pytest.mark.usefixtures("rare_collector")
def test_what_a_burst_has_made_is_gone_through_when_it_is_over() -> None:
    async def scenario() -> None:
        collected: list[int] = []
        is_collected = asyncio.Event()

        def note(phase: str, info: dict[str, int]) -> None:
            if phase == "stop":
                collected.append(info["generation"])
                is_collected.set()

        gc.collect()
        gc.callbacks.append(note)
        collection = IdleCollection(look_s=0.01)
        kept = [[number] for number in range(20_000)]
        assert not collected, "in the middle of it"
        await asyncio.wait_for(is_collected.wait(), 60)
        await collection.close()
        gc.callbacks.remove(note)
        assert collected == [1]
        assert len(kept) == 20_000

    asyncio.run(scenario())
