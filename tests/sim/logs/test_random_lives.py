"""Random lives of one log, on a disk that forgets what was not synced.

`pytest tests/sim/logs --seed N` runs schedule N again and prints its story; `--schedules 100000 --first-seed
500 -n 2` is a long run. A schedule takes some 7 ms.
"""

from __future__ import annotations

import pytest
from sim.logs.random_lives import Lives
from sim.seeds import SHARES, run_share

SCHEDULES_IN_SMOKE = 300


@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
def test_no_life_of_a_log_breaks_a_promise_of_the_last_one(share: int, pytestconfig: pytest.Config) -> None:
    run_share(Lives, lambda lives: lives.story, share, SCHEDULES_IN_SMOKE, pytestconfig)
