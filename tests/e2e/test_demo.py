"""`hightide demo` keeps its promise, twice in a row."""

import re
import subprocess
from pathlib import Path

import pytest
from e2e.demo_runs import ROWS, demo_command, processes_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1900)]

LAST_LINE = re.compile(
    rf"demo: produced={ROWS} consumed={ROWS} lost=0 duplicated=0 reordered=0 failovers=2 "
    r"unavailable_ms_max=\d+ groups: rebalances=\d+ double_owned=0 skipped=0 redelivered=\d+ "
    rf"spark: rows={ROWS} archived={ROWS}"
)


def test_the_demo_loses_nothing_twice_in_a_row(tmp_path: Path) -> None:
    for _ in range(2):
        run = subprocess.run(
            demo_command(tmp_path / "demo", seconds=8), capture_output=True, text=True, timeout=900
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert LAST_LINE.fullmatch(run.stdout.splitlines()[-1])
        assert processes_of(tmp_path) == []
        assert (tmp_path / "demo" / "delays.png").is_file()
