"""Which coordinator gives a shard up, and when none does."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest
from hightide_coordinator.zookeeper.balance import shard_to_give_up

A, B, C = ("a", 1), ("b", 1), ("c", 1)
Place = tuple[str, int]


@pytest.mark.parametrize(
    ("holders", "candidates", "given_up"),
    [
        ([A, A, A, A], {A, B}, 0),
        ([B, A, A, A], {A, B}, 1),
        ([B, A, B, A], {A, B}, None),
        # One more is no reason: the roles would only change.
        ([B, A, A], {A, B}, None),
        ([A], {A, B}, None),
        # A process that cannot be elected gets nothing, and one that has no znode yet gives nothing.
        ([A, A, A, A], {A}, None),
        ([A, A, A, A], {B}, None),
        # First each shard has a coordinator.
        ([A, A, A, None], {A, B}, None),
        # Of two that have the most, one gives.
        ([A, A, B, B], {A, B, C}, 0),
        ([B, B, A, A, A], {A, B, C}, 2),
    ],
)
def test_the_coordinator_with_the_most_shards_gives_one_up_if_another_has_fewer_by_two(
    holders: Sequence[Place | None], candidates: set[Place], given_up: int | None
) -> None:
    assert shard_to_give_up(A, holders, candidates) == given_up


@pytest.mark.parametrize("count", range(1, 7))
def test_from_everywhere_the_shards_come_to_lie_evenly_and_stay(count: int) -> None:
    """Where the one with the fewest gets what is given up."""
    candidates = {A, B, C}
    for start in product(sorted(candidates), repeat=count):
        holders: list[Place | None] = [*start]
        for _ in range(count + 1):
            gifts = [(me, shard_to_give_up(me, holders, candidates)) for me in sorted(candidates)]
            given = [(me, shard) for me, shard in gifts if shard is not None]
            assert len(given) <= 1, "one at a time"
            for me, shard in given:
                assert holders[shard] == me
                fewest = Counter(each for each in holders if each)
                holders[shard] = min(candidates, key=lambda each: (fewest[each], each))
        assert not given, (start, holders)
        shares = [holders.count(each) for each in candidates]
        assert max(shares) - min(shares) <= 1, (start, holders)
