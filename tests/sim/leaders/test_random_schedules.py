"""Random schedules without a controller: whatever is lost, late, doubled, paused or dead, the invariants
hold.

`pytest tests/sim/leaders/test_random_schedules.py --schedules 100000 --first-seed 5000 -n 2` is a long run.
"""

from __future__ import annotations

import pytest
from sim.leaders.random_walk import LeadersWalk
from sim.seeds import SHARES, run_share

SCHEDULES_IN_SMOKE = 200


@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_schedule_breaks_an_invariant(share: int, pytestconfig: pytest.Config) -> None:
    run_share(
        LeadersWalk,
        lambda walk: walk.world.story,
        share,
        SCHEDULES_IN_SMOKE,
        pytestconfig,
        lambda walk: walk.world.take_apart(),
    )


def test_a_seed_replays_exactly() -> None:
    first, second = LeadersWalk(4), LeadersWalk(4)
    assert list(first.run().story) == list(second.run().story)
    assert len(first.world.acked) > 3
