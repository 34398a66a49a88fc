"""A limit that many share: none can use it up, whatever it does."""

import pytest
from hightide_runtime.serving.fair_limit import FairLimit


def take_all(limit: FairLimit, holder: str) -> int:
    """Take pieces of one until there are no more."""
    while limit.take(holder):
        pass
    return limit.held(holder)


def test_one_holder_can_have_a_fifth_and_the_next_one_a_fifth_of_the_rest() -> None:
    limit = FairLimit(1000)
    assert [take_all(limit, holder) for holder in "abc"] == [200, 160, 128]


def test_twenty_greedy_holders_leave_something_for_a_modest_one() -> None:
    limit = FairLimit(10_000)
    for number in range(20):
        take_all(limit, f"greedy {number}")
    assert limit.taken <= limit.limit
    assert not limit.take("greedy 0")
    assert limit.take("modest")


def test_what_is_given_back_can_be_taken_again_and_a_holder_of_nothing_costs_nothing() -> None:
    limit = FairLimit(10)
    taken = take_all(limit, "a")
    limit.give_back("a", taken)
    assert (limit.taken, limit.held("a"), take_all(limit, "b")) == (0, 0, taken)


def test_the_last_places_are_for_those_who_hold_nothing() -> None:
    limit = FairLimit(3)
    assert [limit.take(holder) for holder in "aabcd"] == [True, False, True, True, False]


def test_a_piece_larger_than_any_share_passes_where_nobody_holds_anything() -> None:
    limit = FairLimit(100)
    assert limit.take("a", 300)
    assert not limit.take("b", 1)
    limit.give_back("a", 300)
    assert limit.take("b", 1)
    assert not limit.take("a", 300)


def test_nobody_gives_back_what_it_did_not_take() -> None:
    limit = FairLimit(100)
    limit.take("a", 2)
    with pytest.raises(AssertionError):
        limit.give_back("a", 3)
