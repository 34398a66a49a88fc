"""A limit that many share: none can use it up, whatever it does."""

import pytest
from hightide_runtime.serving.fair_limit import FairLimit, Holder

A, B, C = (Holder(connection) for connection in "abc")


def take_all(limit: FairLimit, holder: Holder) -> int:
    """Take pieces of one until there are no more."""
    while limit.take(holder):
        pass
    return limit.held(holder)


def test_one_holder_can_have_a_fifth_and_the_next_one_a_fifth_of_the_rest() -> None:
    limit = FairLimit(1000)
    assert [take_all(limit, holder) for holder in (A, B, C)] == [200, 160, 128]


def test_twenty_greedy_holders_leave_something_for_a_modest_one() -> None:
    limit = FairLimit(10_000)
    for number in range(20):
        take_all(limit, Holder(f"greedy {number}"))
    assert limit.taken <= limit.limit
    assert not limit.take(Holder("greedy 0"))
    assert limit.take(Holder("modest"))


def test_what_is_given_back_can_be_taken_again_and_a_holder_of_nothing_costs_nothing() -> None:
    limit = FairLimit(10)
    taken = take_all(limit, A)
    limit.give_back(A, taken)
    assert (limit.taken, limit.held(A), take_all(limit, B)) == (0, 0, taken)


def test_the_last_places_are_for_those_who_hold_nothing() -> None:
    limit = FairLimit(3)
    assert [limit.take(holder) for holder in map(Holder, "aabcd")] == [True, False, True, True, False]


def test_a_piece_larger_than_any_share_passes_where_nobody_holds_anything() -> None:
    limit = FairLimit(100)
    assert limit.take(A, 300)
    assert not limit.take(B, 1)
    limit.give_back(A, 300)
    assert limit.take(B, 1)
    assert not limit.take(A, 300)


def test_nobody_gives_back_what_it_did_not_take() -> None:
    limit = FairLimit(100)
    limit.take(A, 2)
    with pytest.raises(AssertionError):
        limit.give_back(A, 3)


def test_many_connections_of_one_principal_leave_half_for_others() -> None:
    limit = FairLimit(1_000)
    for number in range(200):
        take_all(limit, Holder(f"alice {number}", "client/alice"))
    assert limit.held_by_principal("client/alice") == 500
    for number in range(200):
        take_all(limit, Holder(f"bob {number}", "client/bob"))
    assert limit.held_by_principal("client/bob") == 250
    assert not limit.take(Holder("alice 0", "client/alice"))
    assert limit.take(Holder("carol", "client/carol"))


def test_of_those_whom_nobody_knows_each_connection_has_its_share_alone() -> None:
    limit = FairLimit(1_000)
    for number in range(4):
        take_all(limit, Holder(f"somebody {number}"))
    assert limit.held_by_principal("") == limit.taken > 500


def test_it_knows_of_how_many_connections_a_principal_holds_something() -> None:
    limit = FairLimit(1_000)
    first, second = Holder("1", "client/alice"), Holder("2", "client/alice")
    for holder, amount in ((first, 1), (first, 0), (second, 5), (first, 2)):
        assert limit.take(holder, amount)
    assert limit.connections_of("client/alice") == 2
    limit.give_back(first, 1)
    limit.give_back(first, 0)
    assert limit.connections_of("client/alice") == 2
    limit.give_back(first, 2)
    limit.give_back(second, 5)
    assert (limit.connections_of("client/alice"), limit.held_by_principal("client/alice")) == (0, 0)
