"""One process of a cluster: started, signalled, waited for."""

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
from hightide_local.processes.guard import Guard

#: The child waits for one line before it becomes the program, so that the watchdog knows its pid first. Where
#: the supervisor dies in between, `read` fails and the child just ends.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
_KILL_WAIT_S = 60.0
_POLL_S = 0.02
_STOP_WAIT_S = 30.0
_STOP_POLL_S = 0.001


class ManagedProcess:
    """A program with its log file; it can run several times, one at a time.

    It leads its own session and process group, so that Ctrl-C reaches the supervisor alone. After `adopt`,
    the process may be one that an earlier supervisor started (a detached cluster).
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
        self._guard: Guard | None = None
        failure_report.note_log(name, log_path)

    def start(self, guard: Guard | None, *, may_fork: bool = True) -> None:
        """Start it; its output is appended to the log. `guard` None leaves it running when we end.

        A service may be a fork (`forking`). One that is detached is none: its command line says what it is.
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
        """Let it be nobody's child in particular: it may run on when this process ends."""
        if self._child is not None:
            self._forget()
            assert isinstance(self._child, subprocess.Popen), "a fork does not outlive us"
            # Or else subprocess complains, when the object goes, of a child that still runs.
            self._child.returncode = 0
            self._child = None

    def adopt(self, pid: int, created_s: float) -> None:
        """Take over a process that somebody else started, if it is still the same one."""
        try:
            process = psutil.Process(pid)
            same = abs(process.create_time() - created_s) < 1.0
        except psutil.NoSuchProcess:
            return
        if same:
            self._process = process

    @property
    def pid(self) -> int:
        """Its pid; 0 where it does not run."""
        return self._process.pid if self._process is not None and self.is_running() else 0

    @property
    def created_s(self) -> float:
        """When it was created; with the pid it identifies a process. 0 where it does not run."""
        if self._process is None or not self.is_running():
            return 0.0
        return float(self._process.create_time())

    def is_running(self) -> bool:
        """Whether it runs (or is stopped by SIGSTOP); a dead child is reaped on the way."""
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
        """How it ended, negative for a signal; None where it runs or is not known."""
        return self._child.poll() if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; ClusterError where it does not run. After SIGSTOP, wait until all of it stands
        still: what is asked of it from then on is not answered."""
        if not self.is_running():
            raise ClusterError(f"{self.name} does not run")
        assert self._process is not None
        try:
            os.kill(self._process.pid, number)
        except ProcessLookupError:
            raise ClusterError(f"{self.name} does not run") from None
        deadline = time.monotonic() + _STOP_WAIT_S
        while number == signal.SIGSTOP and not self._stands_still() and time.monotonic() < deadline:
            time.sleep(_STOP_POLL_S)

    def _stands_still(self) -> bool:
        """Whether every thread is stopped; on systems that do not tell, the process as a whole."""
        assert self._process is not None
        threads = Path(f"/proc/{self._process.pid}/task")
        try:
            if not threads.is_dir():
                return bool(self._process.status() == psutil.STATUS_STOPPED)
            # The state stands behind the name, which is in parentheses and may hold anything.
            states = [(each / "stat").read_text().rpartition(") ")[2][:1] for each in threads.iterdir()]
        except (OSError, psutil.Error):
            return False  # A thread ended meanwhile: look again.
        return all(state in "TtZX" for state in states)  # What has ended does not go on either.

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; whether it has."""
        if self._child is not None:
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return False
            self._forget()
            return True
        # Not our child. Its parent may leave it as a zombie for ever, which counts as ended.
        deadline = time.monotonic() + timeout_s
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def terminate(self, timeout_s: float) -> bool:
        """SIGTERM, and wait; whether it ended by itself in time. It is woken first where it was stopped."""
        # It may have ended before, or by the first signal before the second one.
        with contextlib.suppress(ClusterError):
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL it and whatever it started, and wait; nothing happens where it does not run."""
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
