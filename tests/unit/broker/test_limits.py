"""Budgets: how much unfinished work a broker holds."""

from __future__ import annotations

from hightide_broker.limits import WAIT_MS_MAX, UnfinishedWorkLimit, bounded_wait_ms


def test_a_budget_refuses_what_goes_beyond_it_until_some_is_given_back() -> None:
    budget = UnfinishedWorkLimit(10)
    assert budget.take(8)
    assert not budget.take(3)
    budget.give_back(8)
    assert budget.take(3)


def test_one_piece_over_the_limit_passes_when_it_is_alone() -> None:
    budget = UnfinishedWorkLimit(10)
    assert budget.take(11)
    assert not budget.take(1)


def test_a_wait_is_never_negative_nor_longer_than_the_limit() -> None:
    assert bounded_wait_ms(-5) == 0
    assert bounded_wait_ms(7) == 7
    assert bounded_wait_ms(10**9) == WAIT_MS_MAX
