"""How pauses between attempts grow."""

from __future__ import annotations

import pytest
from hightide.calls.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(initial_ms=250, maximum_ms=16_000)
    pauses = [backoff.pause_ms(failures) for failures in range(1, 10)]
    assert pauses == [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000]
    assert backoff.pause_s(1) == 0.25


def test_a_bound_that_is_no_multiple_of_the_first_pause_is_kept() -> None:
    backoff = Backoff(initial_ms=20, maximum_ms=500, multiplier=3)
    assert [backoff.pause_ms(failures) for failures in (1, 2, 3, 4)] == [20, 60, 180, 500]


def test_who_has_not_failed_yet_waits_as_after_the_first_failure() -> None:
    assert Backoff(5, 40).pause_ms(0) == 5


def test_failures_for_years_neither_overflow_nor_take_long() -> None:
    assert Backoff(1, 60_000).pause_ms(10**9) == 60_000


def test_a_first_pause_beyond_the_longest_is_cut() -> None:
    assert Backoff(500, 100).pause_ms(1) == 100


@pytest.mark.parametrize(("chance", "pause_ms"), [(0.0, 50), (0.5, 75), (1.0, 100)])
def test_chance_takes_off_so_much_of_a_pause_as_the_jitter_says(chance: float, pause_ms: int) -> None:
    assert Backoff(100, 1_000, jitter=0.5).pause_ms(1, chance) == pause_ms
