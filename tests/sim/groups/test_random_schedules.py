"""Random schedules over real coordinator cores: whatever is lost, late, paused or dead, the invariants hold.

`pytest tests/sim/groups --seed N` runs schedule N again and prints its story; `pytest
tests/sim/groups/test_random_schedules.py --schedules 100000 --first-seed 500 -n 2` is a long run.
"""

from __future__ import annotations

import pytest
from sim.checkers import Violation
from sim.groups.random_walk import RandomWalk
from sim.known_wrong import without
from sim.seeds import SHARES, run_share

SCHEDULES_IN_SMOKE = 150


@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_schedule_breaks_an_invariant(share: int, pytestconfig: pytest.Config) -> None:
    run_share(RandomWalk, lambda walk: walk.world.told_story(), share, SCHEDULES_IN_SMOKE, pytestconfig)


def run_all(seeds: range) -> None:
    """Run these schedules one after the other."""
    for seed in seeds:
        RandomWalk(seed).run()


@pytest.mark.parametrize("name", ["commits_fenced", "positions_fenced", "owners_before_start"])
def test_without_a_mend_some_schedule_breaks_an_invariant(name: str) -> None:
    with without(name), pytest.raises(Violation):
        run_all(range(100))


def test_a_seed_replays_exactly() -> None:
    first, second = RandomWalk(7), RandomWalk(7)
    assert first.run().told_story() == second.run().told_story()
    assert len(first.world.zookeeper.groups) > 0
