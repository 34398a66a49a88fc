"""`hightide demo` leaves nothing behind when it is interrupted."""

import signal
import subprocess
from pathlib import Path

import pytest
from e2e.demo_runs import demo_command, processes_of
from interrupts import Job, started_as

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("ending", "job", "moment"),
    [
        (signal.SIGINT, Job.FOREGROUND, "cluster ready"),
        (signal.SIGTERM, Job.FOREGROUND, "cluster ready"),
        # A group of consumers runs by then as well.
        (signal.SIGTERM, Job.BACKGROUND, "killed broker"),
    ],
    ids=str,
)
def test_an_interrupted_demo_leaves_no_process_and_no_data(
    tmp_path: Path, ending: signal.Signals, job: Job, moment: str
) -> None:
    command = demo_command(tmp_path / "demo", seconds=15)
    with started_as(job):
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with demo:
        try:
            assert demo.stdout is not None
            assert demo.stderr is not None
            for line in demo.stdout:
                if line.startswith(moment):
                    break
            assert processes_of(tmp_path) != []
            demo.send_signal(ending)
            _, error = demo.communicate(timeout=200)
        finally:
            # Nothing happens where it has ended; a test that failed must not wait for it.
            demo.kill()
    assert (demo.returncode, error.strip().splitlines()[-1]) == (130, "error: interrupted")
    assert processes_of(tmp_path) == []
    assert {entry.name for entry in (tmp_path / "demo").iterdir() if entry.is_dir()} <= {"logs", "traces"}
