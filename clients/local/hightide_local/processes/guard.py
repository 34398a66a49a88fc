"""The supervisor's side of the watchdog process."""

import contextlib
import subprocess
import sys
from pathlib import Path

from hightide_local.processes import watchdog


class ProcessGuard:
    """Runs a watchdog process, and tells it which processes to kill when this process has ended.

    A cluster makes it before its first process. `release` is for a detached cluster that has started.
    """

    def __init__(self) -> None:
        # With -I and -S it starts in 15 ms, and the environment cannot break it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(watchdog.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Let the watchdog kill this process group when the supervisor has ended. Called before the program
        runs."""
        self._tell(f"+{pid}")

    def forget(self, pid: int) -> None:
        """Let the watchdog forget a process that has ended and was reaped."""
        self._tell(f"-{pid}")

    def release(self) -> None:
        """End the watchdog, and leave all processes running."""
        self._tell("release")
        self._close()

    def close(self) -> None:
        """End the watchdog, which kills the processes that it still watches."""
        self._close()

    def _tell(self, command: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(command.encode() + b"\n")
            pipe.flush()
        except (BrokenPipeError, ValueError):
            # The watchdog was killed, or is closed. The cluster works without it.
            return

    def _close(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        self._process.wait(timeout=60)
