"""A seed is a schedule: whoever runs it again sees the same."""

from __future__ import annotations

from sim.topics.random_walk import RandomWalk


def test_a_schedule_that_is_run_again_tells_the_same_story() -> None:
    first, second = (RandomWalk(7).run() for _ in range(2))
    assert len(first.story) > 500
    assert list(first.story) == list(second.story)
