"""The watchdog process: kills the processes of a supervisor when the supervisor has ended, in any way.

It runs as a script with only the standard library, and reads commands from stdin: `+<pid>` watches a process
group, `-<pid>` forgets it, `release` leaves all running and exits. The end of stdin means that the supervisor
has ended. A signal at the parent's death (PR_SET_PDEATHSIG) is no alternative: it comes when the *thread*
that started the process ends.
"""

import contextlib
import os
import select
import signal

_POLL_S = 1.0


def start_time(pid: int) -> str:
    """The start time of a process, which distinguishes it from a later one with the same pid; empty if it is
    not known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def main() -> None:
    """Read commands until the supervisor has ended, then kill the watched processes."""
    supervisor = os.getppid()
    watched: dict[int, str] = {}
    pending = b""
    while os.getppid() == supervisor:
        # Another child of the supervisor may hold the pipe open, so the end of the pipe alone is no sign.
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
