"""The supervisor's side of the watchdog."""

import contextlib
import subprocess
import sys
from pathlib import Path

from hightide_local.processes import watchdog


class Guard:
    """Holds a watchdog process, and tells it what to kill when this process is gone.

    Started with the first process of a cluster; `release` for a detached cluster that is up.
    """

    def __init__(self) -> None:
        # -I and -S: it starts in 15 ms, and nothing in the environment can break it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(watchdog.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Kill this process group when the supervisor is gone. Call it before the process does anything."""
        self._tell(f"+{pid}")

    def forget(self, pid: int) -> None:
        """The process has ended and was reaped."""
        self._tell(f"-{pid}")

    def release(self) -> None:
        """Leave everything running when the supervisor ends, and end the watchdog."""
        self._tell("release")
        self._close()

    def close(self) -> None:
        """End the watchdog; whatever is still watched is killed."""
        self._close()

    def _tell(self, command: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(command.encode() + b"\n")
            pipe.flush()
        except (BrokenPipeError, ValueError):
            # Somebody killed the watchdog, or it is closed: the cluster still works, only less guarded.
            return

    def _close(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
        self._process.wait(timeout=60)
