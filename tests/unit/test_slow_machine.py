"""What looks for tests that pass on a quick machine only finds them."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

SLOW_MACHINE = Path(__file__).parents[1] / "slow_machine"
#: Passes wherever two lines follow each other within half a second.
RACE = """
    import threading

    def test_is_first():
        passed = threading.Event()
        timer = threading.Timer(0.5, passed.set)
        timer.start()
        came_first = not passed.is_set()
        timer.join()
        assert came_first
"""
#: Says that it stood still, if all of its threads did.
STANDSTILL = """
    import time

    end = last = time.monotonic()
    longest_s = 0.0
    while last - end < 5 and longest_s < 0.2:
        now = time.monotonic()
        longest_s, last = max(longest_s, now - last), now
    print("stood still" if longest_s >= 0.2 else "ran all the time")
"""


def outcome(directory: Path, *options: str) -> str:
    (directory / "tests").mkdir(exist_ok=True)
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "tests" / "test_race.py").write_text(textwrap.dedent(RACE))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests/test_race.py"],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": f"{SLOW_MACHINE}:{os.environ.get('PYTHONPATH', '')}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.stdout


def test_a_test_that_counts_on_its_own_quickness_fails_and_says_which_lines_were_late(tmp_path: Path) -> None:
    found = outcome(tmp_path, "-p", "late_lines", "--late-lines", "1:2000:4", "--late-seed", "2")
    assert "1 failed" in found
    lateness_ms = [int(each) for each in re.findall(r"test_race\.py:\d+ by (\d+) ms", found)]
    assert 4_000 <= sum(lateness_ms) < 6_000, "no line is late once the cap is reached"


def test_a_process_of_a_slow_machine_stands_still(tmp_path: Path) -> None:
    def says(**settings: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(SLOW_MACHINE)} | settings
        program = [sys.executable, "-c", textwrap.dedent(STANDSTILL)]
        return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout

    assert says(STALLS="2000:0.05") == "stood still\n"
