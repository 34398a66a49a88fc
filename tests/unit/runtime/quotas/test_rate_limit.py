"""A rate is kept over any schedule of calls, no piece is too large for it, and no wait is without an end."""

import pytest
from hightide_runtime.quotas.rate_limit import BURST_S, DEBT_S_MAX, RateLimit
from hypothesis import given
from hypothesis import strategies as st

PAUSES_S = st.lists(st.floats(0, 5), min_size=1, max_size=60)
SIZES = st.lists(st.integers(0, 3_000), min_size=60, max_size=60)


def taken_by_who_waits(limit: RateLimit, pauses_s: list[float], sizes: list[int]) -> list[tuple[float, int]]:
    """What one takes that comes after each pause and then waits as it is told, with the times."""
    now_s, taken = 100.0, []
    for pause_s, size in zip(pauses_s, sizes, strict=False):
        now_s += pause_s
        now_s += limit.wait_s(now_s)
        assert limit.wait_s(now_s) < 1e-6, "waiting once is enough"
        limit.charge(size, now_s)
        taken.append((now_s, size))
    return taken


@given(st.integers(200, 5_000), PAUSES_S, SIZES)
def test_no_time_span_gets_more_than_the_rate_gives_in_it_and_the_burst_and_its_last_piece(
    rate: int, pauses_s: list[float], sizes: list[int]
) -> None:
    taken = taken_by_who_waits(RateLimit(rate), pauses_s, sizes)
    for first, (from_s, _) in enumerate(taken):
        total = 0
        for to_s, size in taken[first:]:
            assert total <= rate * (to_s - from_s + BURST_S) + 1, (from_s, to_s)
            total += size


@given(st.integers(1, 10**12), st.lists(st.integers(0, 2**40), max_size=30))
def test_nobody_is_told_to_wait_longer_than_a_call_may_be_parked(rate: int, sizes: list[int]) -> None:
    limit = RateLimit(rate)
    for size in sizes:
        limit.charge(size, 100.0)
        assert 0 <= limit.wait_s(100.0) <= DEBT_S_MAX


@given(st.integers(1, 10**9), st.integers(0, 2**40))
def test_a_piece_of_any_size_is_taken_by_who_owes_nothing_and_is_paid_after_30_seconds(
    rate: int, size: int
) -> None:
    limit = RateLimit(rate)
    assert limit.wait_s(100.0) == 0
    limit.charge(size, 100.0)
    assert limit.wait_s(100.0 + DEBT_S_MAX) == 0


def test_who_takes_little_for_a_while_may_then_take_a_second_worth_at_once_and_no_more() -> None:
    limit = RateLimit(1_000)
    limit.charge(1_000, 100.0)
    assert limit.wait_s(100.0) == 0
    limit.charge(500, 100.0)
    assert limit.wait_s(100.0) == pytest.approx(0.5)
    assert limit.wait_s(3600.0) == 0
    limit.charge(1_500, 3600.0)
    assert limit.wait_s(3600.0) == pytest.approx(0.5), "an hour of silence saves a second"


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_piece_that_was_charged_before_its_size_was_known_costs_its_size(guess: int, size: int) -> None:
    guessed, exact = RateLimit(1_000), RateLimit(1_000)
    guessed.charge(guess, 100.0)
    guessed.correct(guess, size)
    exact.charge(size, 100.0)
    assert guessed.wait_s(100.0) == pytest.approx(exact.wait_s(100.0))


def test_what_is_owed_is_paid_back_at_the_new_rate() -> None:
    limit = RateLimit(1_000)
    limit.charge(11_000, 100.0)
    assert limit.wait_s(100.0) == pytest.approx(10)
    limit.set_rate(10_000, 100.0)
    assert limit.wait_s(100.0) == pytest.approx(1)
    limit.set_rate(1, 100.0)
    assert limit.wait_s(100.0) == DEBT_S_MAX


def test_it_may_be_forgotten_once_a_new_one_would_allow_as_much() -> None:
    limit = RateLimit(1_000)
    assert limit.is_idle(100.0)
    limit.charge(1_000, 100.0)
    assert not limit.is_idle(100.5)
    assert limit.is_idle(101.0)
