"""Starts, signals and awaits one process of a cluster."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from hightide_local import failure_report
from hightide_local.errors import ClusterError
from hightide_local.processes.forking import ForkedChild, forked
from hightide_local.processes.guard import ProcessGuard

#: The child waits for one line before it becomes the program, so that the watchdog knows its pid first. If
#: the supervisor dies before, `read` fails and the child ends.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
_KILL_WAIT_S = 60.0
_POLL_S = 0.02
_STOP_WAIT_S = 30.0
_STOP_POLL_S = 0.001


class ManagedProcess:
    """A program with its log file. It can run several times, one after the other.

    It leads its own session and process group, so that Ctrl-C reaches only the supervisor. After `adopt` its
    process may be one that an earlier supervisor started, as in a detached cluster.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log_path: Path
    ) -> None:
        self.name = name
        self.log_path = log_path
        self._command = tuple(command)
        self._environment = dict(environment)
        self._child: subprocess.Popen[bytes] | ForkedChild | None = None
        self._process: psutil.Process | None = None
        self._guard: ProcessGuard | None = None
        failure_report.note_log(name, log_path)

    def start(self, guard: ProcessGuard | None, *, may_fork: bool = True) -> None:
        """Start the program. Its output is appended to the log. With `guard` None, it runs on when this
        process ends.

        With `may_fork` a service may be a fork (`forking`). A detached one is not, so that its command line
        names its program.
        """
        assert not self.is_running(), f"{self.name} runs already"
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            can_fork = may_fork and guard is not None
            fork = forked(self._command, self._environment, log.fileno()) if can_fork else None
            child = self._started(log) if fork is None else fork
        self._child, self._guard = child, guard
        self._process = psutil.Process(child.pid)
        if guard is not None:
            guard.watch(child.pid)
        if isinstance(child, ForkedChild):
            child.open_gate()
        else:
            assert child.stdin is not None
            with child.stdin as gate:
                gate.write(b"\n")
        if guard is None:
            self.detach()

    def _started(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*_GATE, *self._command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )

    def detach(self) -> None:
        """Give up the process as a child, so that it may run on when this process ends."""
        if self._child is not None:
            self._forget()
            assert isinstance(self._child, subprocess.Popen), "a fork is never detached"
            # Otherwise Popen would warn of a running child when it is deleted.
            self._child.returncode = 0
            self._child = None

    def adopt(self, pid: int, created_s: float) -> None:
        """Take over the process with this pid that another supervisor started, if it was created at this
        time."""
        try:
            process = psutil.Process(pid)
            same = abs(process.create_time() - created_s) < 1.0
        except psutil.NoSuchProcess:
            return
        if same:
            self._process = process

    @property
    def pid(self) -> int:
        """The pid; 0 if it does not run."""
        return self._process.pid if self._process is not None and self.is_running() else 0

    @property
    def created_s(self) -> float:
        """The time of its creation, which identifies a process together with the pid; 0 if it does not
        run."""
        if self._process is None or not self.is_running():
            return 0.0
        return float(self._process.create_time())

    def is_running(self) -> bool:
        """Whether it runs or is stopped by SIGSTOP. A child that has ended is reaped."""
        if self._child is not None:
            if self._child.poll() is None:
                return True
            self._forget()
            return False
        if self._process is None:
            return False
        try:
            return bool(self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None if it runs, or if the code is not known."""
        return self._child.poll() if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal. After SIGSTOP, wait until all its threads have stopped, so that it answers no later
        request. Raises ClusterError if it does not run."""
        if not self.is_running():
            raise ClusterError(f"{self.name} does not run")
        assert self._process is not None
        try:
            os.kill(self._process.pid, number)
        except ProcessLookupError:
            raise ClusterError(f"{self.name} does not run") from None
        deadline = time.monotonic() + _STOP_WAIT_S
        while number == signal.SIGSTOP and not self._is_stopped() and time.monotonic() < deadline:
            time.sleep(_STOP_POLL_S)

    def _is_stopped(self) -> bool:
        """Whether every thread has stopped; on systems without /proc, whether the process has."""
        assert self._process is not None
        threads = Path(f"/proc/{self._process.pid}/task")
        try:
            if not threads.is_dir():
                return bool(self._process.status() == psutil.STATUS_STOPPED)
            # The state comes after the name, which is in parentheses and may contain any character.
            states = [(each / "stat").read_text().rpartition(") ")[2][:1] for each in threads.iterdir()]
        except (OSError, psutil.Error):
            return False  # A thread ended meanwhile, so the caller checks again.
        return all(state in "TtZX" for state in states)  # Z and X are threads that have ended.

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended. Returns whether it has."""
        if self._child is not None:
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return False
            self._forget()
            return True
        # It is not a child of this process. A zombie, which its parent may never reap, counts as ended.
        deadline = time.monotonic() + timeout_s
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def terminate(self, timeout_s: float) -> bool:
        """Send SIGTERM, resume it if it is stopped, and wait. Returns whether it ended in time."""
        # It may have ended before either signal.
        with contextlib.suppress(ClusterError):
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL to its process group, and wait. Does nothing if it does not run. Raises ClusterError
        if it does not end."""
        if not self.is_running():
            return
        assert self._process is not None
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        if not self.wait(_KILL_WAIT_S):
            raise ClusterError(f"{self.name} (pid {self._process.pid}) does not end on SIGKILL")

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - 64 * 1024))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _forget(self) -> None:
        if self._guard is not None and self._child is not None:
            self._guard.forget(self._child.pid)
            self._guard = None
