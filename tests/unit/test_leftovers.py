"""What a run of the tests has started does not outlive it."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from leftovers import MARK, Watchdog, is_gone

ENDED_S = 30.0
#: A run that starts what is meant to run on, in a session of its own and with its output elsewhere.
RUN = f"""
import subprocess, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from leftovers import Watchdog
watchdog = Watchdog()
sleep = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
left = subprocess.Popen(sleep, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
print(left.pid, flush=True)
sys.stdin.read()
watchdog.close()
left.wait()
"""


@pytest.mark.parametrize("ending", [None, signal.SIGKILL, signal.SIGTERM], ids=str)
def test_nothing_outlives_a_run_however_it_ends(
    ending: signal.Signals | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MARK, raising=False)
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        left = int(run.stdout.readline())
        assert not is_gone(left)
        if ending is None:
            run.stdin.close()
        else:
            run.send_signal(ending)
        run.wait(ENDED_S)
    deadline, pause = time.monotonic() + ENDED_S, threading.Event()
    while not is_gone(left):
        assert time.monotonic() < deadline, f"{left} runs on"
        pause.wait(0.02)


def test_a_part_of_a_run_leaves_it_to_the_watchdog_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "the-whole")
    before = psutil.Process().children()
    part = Watchdog()
    assert psutil.Process().children() == before
    part.close()
