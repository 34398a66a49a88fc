"""`hightide demo` keeps its promise, twice in a row, and leaves nothing behind when it is interrupted."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from interrupts import Job, started_as

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1300)]

ROWS = 20_000
LAST_LINE = re.compile(
    rf"demo: produced={ROWS} consumed={ROWS} lost=0 duplicated=0 reordered=0 failovers=2 "
    r"unavailable_ms_max=\d+ groups: rebalances=\d+ double_owned=0 skipped=0 redelivered=\d+ "
    rf"spark: rows={ROWS} archived={ROWS}"
)


def demo_command(directory: Path, *, seconds: int) -> list[str]:
    settings = ["--rows", str(ROWS), "--seconds", str(seconds), "--directory", str(directory)]
    return [sys.executable, "-m", "hightide_cli.main", "demo", *settings]


def processes_of(directory: Path) -> list[str]:
    """Return the command lines that name the demo's directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(directory) in line:
            found.append(line)
    return found


def test_the_demo_loses_nothing_twice_in_a_row(tmp_path: Path) -> None:
    for _ in range(2):
        run = subprocess.run(
            demo_command(tmp_path / "demo", seconds=8), capture_output=True, text=True, timeout=600
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert LAST_LINE.fullmatch(run.stdout.splitlines()[-1])
        assert processes_of(tmp_path) == []
        assert (tmp_path / "demo" / "delays.png").is_file()


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
