"""Random schedules over topics that come and go, grow and move, while processes and messages are lost.

`pytest tests/sim/topics --seed N` runs schedule N again and prints its story; `--schedules 10000 --first-seed
500 -n 2` is a long run. Sets of names have no order of their own, so set PYTHONHASHSEED to see a run again.
"""

from __future__ import annotations

import pytest
from sim.topics.random_walk import RandomWalk

SHARES = 10
"""So that xdist can run them side by side."""
SCHEDULES_IN_SMOKE = 60


@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_schedule_breaks_an_invariant(share: int, pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("--seed", default=None)
    if seed is not None:
        if share == 0:
            replay(seed)
        return
    count = pytestconfig.getoption("--schedules", default=None) or SCHEDULES_IN_SMOKE
    first = pytestconfig.getoption("--first-seed", default=0)
    for number in range(first + share, first + count, SHARES):
        replay(number, quiet=True)


def replay(seed: int, quiet: bool = False) -> None:
    """Run one schedule; where it fails, its seed is what to tell."""
    walk = RandomWalk(seed)
    try:
        walk.run()
    except Exception as error:
        error.add_note(f"pytest tests/sim/topics/test_random_schedules.py --seed {seed}")
        raise
    finally:
        if not quiet:
            print("\n".join(walk.world.story))
