"""Random schedules over topics that come and go, grow and move, while processes and messages are lost.

`pytest tests/sim/topics --seed N` runs schedule N again and prints its story; `--schedules 10000 --first-seed
500 -n 2` is a long run. Sets of names have no order of their own, so set PYTHONHASHSEED to see a run again.
"""

from __future__ import annotations

import pytest
from sim.seeds import SHARES, run_share
from sim.topics.random_walk import RandomWalk

SCHEDULES_IN_SMOKE = 30


@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_schedule_breaks_an_invariant(share: int, pytestconfig: pytest.Config) -> None:
    run_share(RandomWalk, lambda walk: walk.world.story, share, SCHEDULES_IN_SMOKE, pytestconfig)
