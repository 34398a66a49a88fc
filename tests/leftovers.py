"""Nothing that a run of the tests has started outlives it, however it ends.

What tests start ends with a test that fails, but not with a run that is killed: commands, consumers, clusters
of `hightide dev up`, which are meant to run on. They would hold the ports that clients try by default (2181,
9092, 9192), answer the next run in the place of its own cluster, and keep the machine busy.

All of them inherit a variable of the environment. A watchdog, this module run as a script, waits for the end
of the run and then kills whoever has it.
"""

import contextlib
import os
import select
import subprocess
import sys
import uuid

import psutil

#: Not HIGHTIDE_…: some tests take those out of the environment.
MARK = "RUN_OF_THE_TESTS"
_POLL_S = 1.0
_ROUNDS_MAX = 20
_ROUND_S = 0.25
_END_S = 30.0


class Watchdog:
    """Kills what was left behind, when this process is gone or has called `close`.

    Made before anything else is started. Where the variable is there already, this is a part of a run
    (pytest-xdist's worker) whose watchdog runs elsewhere, and nothing happens.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if MARK in os.environ:
            return
        mark = uuid.uuid4().hex
        # A session of its own, since what ends all of the run must not end it; and without the mark.
        self._process = subprocess.Popen(
            [sys.executable, __file__, mark], stdin=subprocess.PIPE, start_new_session=True
        )
        os.environ[MARK] = mark

    def close(self) -> None:
        """Kill what is left, and wait for that."""
        if self._process is None:
            return
        os.environ.pop(MARK, None)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_END_S)


def left_behind(mark: str) -> list[psutil.Process]:
    """Whoever has the mark and is no zombie."""
    found = []
    for process in psutil.process_iter():
        # One that ends meanwhile, or that belongs to somebody else.
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has asked yet how."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _watch(mark: str) -> None:
    run = os.getppid()
    # A child of the run may hold the pipe open, so that its end is not all there is to look for.
    while os.getppid() == run and not select.select([0], [], [], _POLL_S)[0]:
        pass
    for _ in range(_ROUNDS_MAX):
        processes = left_behind(mark)
        if not processes:
            return
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, _ROUND_S)  # One of them may just have started another.


if __name__ == "__main__":
    _watch(sys.argv[1])
