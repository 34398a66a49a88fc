"""Plans are balanced, move as little as can be, and leave alone what may stay."""

from collections import Counter
from itertools import combinations, product

import pytest
from hightide_cli.reassign.even_spread import Spreadable, spread
from hightide_cli.reassign.plan import Place, Plan, PlanError, plan_by_hand, plan_onto, plan_without
from hypothesis import given
from hypothesis import strategies as st

BROKERS = range(1, 9)


@st.composite
def clusters(draw: st.DrawFn, partitions_max: int = 40) -> list[Place]:
    return [
        Place(f"topic-{at % 3}", at // 3, tuple(replicas), replicas[0], draw(st.integers(0, 1_000)))
        for at, replicas in enumerate(
            draw(
                st.lists(
                    st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True),
                    max_size=partitions_max,
                )
            )
        )
    ]


targets = st.sets(st.sampled_from(BROKERS), min_size=4)


def after(places: list[Place], plan: Plan) -> dict[tuple[str, int], tuple[int, ...]]:
    moved = {(move.topic, move.partition): move.after for move in plan.moves}
    return {
        (place.topic, place.partition): moved.get((place.topic, place.partition), place.replicas)
        for place in places
    }


def carried_out(places: list[Place], plan: Plan) -> list[Place]:
    now = after(places, plan)
    return [
        Place(place.topic, place.partition, now[place.topic, place.partition], None, place.size_bytes)
        for place in places
    ]


def moved_count(plan: Plan) -> int:
    return sum(len(move.arriving) for move in plan.moves)


@given(clusters(), targets, st.one_of(st.none(), st.integers(1, 4)))
def test_a_plan_is_balanced_and_right(places: list[Place], brokers: set[int], factor: int | None) -> None:
    now = after(places, plan_onto(places, brokers, factor))
    for place in places:
        replicas = now[place.topic, place.partition]
        assert len(set(replicas)) == len(replicas) == (factor or len(place.replicas))
        assert brokers.issuperset(replicas)
    held = Counter(dict.fromkeys(brokers, 0))
    held.update(broker for replicas in now.values() for broker in replicas)
    assert max(held.values()) - min(held.values()) <= 1


@given(clusters(), targets)
def test_leaders_are_spread_within_one_where_every_partition_may_be_led_by_several(
    places: list[Place], brokers: set[int]
) -> None:
    now = after(places, plan_onto(places, brokers, 3))
    led = Counter(dict.fromkeys(brokers, 0))
    led.update(replicas[0] for replicas in now.values())
    assert max(led.values()) - min(led.values()) <= 1


@given(clusters(), targets)
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(places: list[Place], brokers: set[int]) -> None:
    settled = carried_out(places, plan_onto(places, brokers))
    assert plan_onto(settled, brokers).moves == ()


def fewest_moves(places: list[Place], brokers: set[int], factor: int) -> int:
    """Of all balanced ways to place them, tried one by one."""
    fewest = len(places) * factor
    for chosen in product(combinations(sorted(brokers), factor), repeat=len(places)):
        held = Counter(dict.fromkeys(brokers, 0))
        held.update(broker for replicas in chosen for broker in replicas)
        if max(held.values()) - min(held.values()) <= 1:
            new = (set(now) - set(place.replicas) for now, place in zip(chosen, places, strict=True))
            fewest = min(fewest, sum(map(len, new)))
    return fewest


@given(clusters(partitions_max=4), st.sets(st.integers(1, 5), min_size=2, max_size=4), st.integers(1, 2))
def test_no_balanced_plan_moves_fewer_replicas(places: list[Place], brokers: set[int], factor: int) -> None:
    assert moved_count(plan_onto(places, brokers, factor)) == fewest_moves(places, brokers, factor)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), max_size=5),
    st.dictionaries(st.integers(0, 3), st.integers(0, 4)),
)
def test_a_spread_is_as_even_as_what_is_allowed_lets_it_be_and_moves_the_fewest(
    allowed: list[list[int]], load: dict[int, int]
) -> None:
    things = [Spreadable(1, tuple(each), (each[0],)) for each in allowed]

    def judged(chosen: tuple[int, ...]) -> tuple[int, int]:
        loads = Counter(dict.fromkeys(range(4), 0))
        loads.update(load)
        loads.update(chosen)
        return sum(each**2 for each in loads.values()), sum(
            at != thing.home[0] for at, thing in zip(chosen, things, strict=True)
        )

    found = tuple(broker for (broker,) in spread(things, range(4), load))
    assert judged(found) == min(judged(each) for each in product(*allowed))


def test_a_balanced_topic_stays_as_it_is() -> None:
    places = [Place("t", at, (at % 3 + 1, (at + 1) % 3 + 1), None, 10) for at in range(6)]
    plan = plan_onto(places, [1, 2, 3])
    assert (plan.moves, plan.bytes_to_move, plan.partition_count) == ((), 0, 6)


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    places = [Place("t", at, (at % 3 + 1, (at + 1) % 3 + 1), at % 3 + 1, 10) for at in range(12)]
    plan = plan_onto(places, [1, 2, 3, 4])
    assert moved_count(plan) == 6
    assert all(move.arriving in ((), (4,)) for move in plan.moves)
    assert plan.bytes_to_move == 60
    assert [(each.replicas_after, each.leaders_after) for each in plan.brokers] == [(6, 3)] * 4
    assert sum(each.bytes_in for each in plan.brokers) == sum(each.bytes_out for each in plan.brokers) == 60


def test_the_preferred_leader_and_the_order_are_kept_where_they_can_be() -> None:
    (move,) = plan_onto([Place("t", 0, (1, 2, 3), 1, 5)], [1, 3, 4]).moves
    assert (move.after, move.arriving, move.leaving) == ((1, 3, 4), (4,), (2,))


def test_fewer_replicas_are_the_first_ones() -> None:
    places = [Place("t", at, (1 + at, 2 + at, 3 + at), 1, 5) for at in range(3)]
    plan = plan_onto(places, [1, 2, 3, 4, 5], 1)
    assert [move.after for move in plan.moves] == [(1,), (2,), (3,)]
    assert plan.bytes_to_move == 0


def test_more_replicas_join_those_that_are_there() -> None:
    (move,) = plan_onto([Place("t", 0, (2,), 2, 5)], [1, 2, 3], 3).moves
    assert move.after == (2, 1, 3)


def test_a_new_broker_gets_partitions_of_every_topic() -> None:
    places = [Place(topic, at, (1,), 1, 0) for topic in "ab" for at in range(4)]
    assert {move.topic for move in plan_onto(places, [1, 2]).moves} == {"a", "b"}


@given(clusters(), st.sampled_from(BROKERS))
def test_decommissioning_moves_only_what_the_broker_holds(places: list[Place], leaving: int) -> None:
    plan = plan_without(places, BROKERS, leaving)
    affected = {(place.topic, place.partition) for place in places if leaving in place.replicas}
    assert {(move.topic, move.partition) for move in plan.moves} == affected
    for move in plan.moves:
        assert move.leaving == (leaving,)
        assert len(set(move.after)) == len(move.before)
        assert move.after[0] == move.before[0] or move.before[0] == leaving


def test_what_a_leaving_broker_held_goes_to_those_that_hold_least() -> None:
    places = [Place("t", at, (1, 4), 1, 7) for at in range(2)] + [
        Place("u", at, (2,), 2, 7) for at in range(4)
    ]
    plan = plan_without(places, [1, 2, 3, 4], 4)
    assert [move.arriving for move in plan.moves] == [(3,), (3,)]
    assert [(each.broker_id, each.replicas_after) for each in plan.brokers] == [
        (1, 2),
        (2, 4),
        (3, 2),
        (4, 0),
    ]


def test_a_plan_by_hand_tells_what_it_means() -> None:
    plan = plan_by_hand([Place("t", 0, (1, 2), 2, 8)], {("t", 0): (3, 4)})
    (move,) = plan.moves
    assert (move.arriving, move.leaving, move.bytes_to_move) == ((3, 4), (1, 2), 16)
    assert [(each.broker_id, each.bytes_in, each.bytes_out) for each in plan.brokers] == [
        (1, 0, 0),
        (2, 0, 16),
        (3, 8, 0),
        (4, 8, 0),
    ]


def test_more_replicas_than_brokers_is_told_with_the_numbers() -> None:
    with pytest.raises(PlanError, match=r"3 replicas of t-0 need as many brokers, and 2 are given \(1, 2\)"):
        plan_onto([Place("t", 0, (1,), 1, 0)], [1, 2], 3)
    with pytest.raises(PlanError, match="0 replicas"):
        plan_onto([Place("t", 0, (1,), 1, 0)], [1, 2], 0)
    with pytest.raises(PlanError, match="no live broker but 2 is left"):
        plan_without([Place("t", 0, (1, 2), 1, 0)], [1, 2], 2)
