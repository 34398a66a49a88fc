"""A process that ends what a supervisor started, when the supervisor itself is gone, however it went.

Runs as a script, with nothing but the standard library, and is told on stdin: `+<pid>` watch this process
group, `-<pid>` forget it, `release` leave everything running and exit. The end of stdin means that the
supervisor is gone. A signal on the parent's death (PR_SET_PDEATHSIG) would not do: it comes when the
*thread* that started the process ends.
"""

import contextlib
import os
import select
import signal

_POLL_S = 1.0


def start_time(pid: int) -> str:
    """What tells this process from a later one with the same pid; empty where it cannot be known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def main() -> None:
    """Read commands until the supervisor is gone, then kill what it left behind."""
    supervisor = os.getppid()
    watched: dict[int, str] = {}
    pending = b""
    while os.getppid() == supervisor:
        # A fork of the supervisor may hold the pipe open, so that its end is not all there is to look for.
        if not select.select([0], [], [], _POLL_S)[0]:
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line == b"release":
                return
            pid = int(line[1:])
            if line[:1] == b"+":
                watched[pid] = start_time(pid)
            else:
                watched.pop(pid, None)
    for pid, started in watched.items():
        if start_time(pid) == started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
