"""Starting the services of many clusters quickly: as forks of one process that has imported them.

Whoever starts a lot of clusters calls `fork_services` first; the tests of this project do. A Python that
starts and imports a service uses most of a second of a processor, a fork some hundredths of that. In all else
a fork is a process like another: it has a session, a log and an environment of its own, and signals and the
watchdog reach it. Only its command line is that of the process that forked it.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from hightide_local.errors import ClusterError
from hightide_local.processes.forking_process import MESSAGE_MAX

#: What is imported once: the services, and what they import late, since all here write their spans.
MODULES: Final = (
    "hightide_broker.main",
    "hightide_controller.main",
    "hightide_coordinator.main",
    "hightide_runtime.telemetry.metric_lines",
    "hightide_runtime.telemetry.metric_readers",
    "hightide_runtime.telemetry.span_ids",
    "hightide_runtime.telemetry.span_lines",
    "encodings.idna",
)
_PYTHON_M: Final = (sys.executable, "-m")
_PACKAGES: Final = ("hightide_broker.", "hightide_controller.", "hightide_coordinator.", "hightide_bench.")
#: Variables that nobody reads while a service is imported, so that a fork takes them over like any process.
_READ_LATE: Final = ("HIGHTIDE_", "PYTEST_", "JAVA_", "JDK_", "SPARK_", "PYSPARK_", "XDG_")
_END_S: Final = 10.0
#: How a process ended whose end nobody could ask for, since the process that forked it was gone before.
_UNKNOWN: Final = 255


class ForkedChild:
    """A process that was forked, with what `ManagedProcess` needs of subprocess.Popen."""

    def __init__(self, server: "ForkServer", pid: int, gate: int) -> None:
        """`gate`: a pipe; it runs once `open_gate` has written to it."""
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        self._gate = gate
        # It waits at its gate; only who kills it there can be quicker than this.
        self._pidfd: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(pid)

    def open_gate(self) -> None:
        """Let it begin. Called once."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"\n")
        os.close(self._gate)

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None where it runs."""
        return self.returncode if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; how. Raises subprocess.TimeoutExpired after so many seconds."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def _has_ended(self, timeout_s: float | None) -> bool:
        if self.returncode is not None:
            return True
        if self._pidfd is not None:
            if not select.select([self._pidfd], [], [], timeout_s)[0]:
                return False
            os.close(self._pidfd)
            self._pidfd = None
        self.returncode = self._server.exit_code_of(self.pid)
        return True


class ForkServer:
    """The process that forks services, as its supervisor sees it. `close` ends it; its forks live on."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """It starts with this environment, at once, and answers once it has imported everything."""
        self._early = _read_early(environment)
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*_PYTHON_M, "hightide_local.processes.forking_process", str(theirs.fileno()), *MODULES],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def can_start(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a fork for this command is as good as a process started for it alone: its module is a
        service's, and its environment says nothing else to what is read when Python starts or imports."""
        is_service = tuple(command[:2]) == _PYTHON_M and command[2].startswith(_PACKAGES)
        return is_service and _read_early(environment) == self._early

    def start(self, command: Sequence[str], environment: Mapping[str, str], output: int) -> ForkedChild:
        """Fork a process for a command that `can_start`; it waits at its gate. `output`: the file descriptor
        that takes what it prints. Raises ClusterError where the process that forks is gone."""
        request = {
            "command": list(command[2:]),
            "environment": dict(environment),
            "directory": os.getcwd(),
        }
        theirs, gate = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [output, theirs])
                pid = self._next("forked")
        except OSError:
            os.close(gate)
            raise ClusterError("the process that forks services is gone") from None
        finally:
            os.close(theirs)
        return ForkedChild(self, pid, gate)

    def exit_code_of(self, pid: int) -> int:
        """How a process that has ended did so. Waits until its parent says so, which it does at once."""
        with self._lock:
            try:
                while pid not in self._codes:
                    self._next("ended")
            except OSError:
                return _UNKNOWN
            return self._codes.pop(pid)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait(_END_S)

    def _next(self, kind: str) -> int:
        """The pid of the next answer of this kind; ends told meanwhile are kept. OSError: it is gone."""
        while True:
            message = self._socket.recv(MESSAGE_MAX)
            if not message:
                raise ConnectionResetError
            answer = json.loads(message)
            if "ended" in answer:
                self._codes[answer["ended"]] = answer["code"]
            if kind in answer:
                return int(answer[kind])


class _Forking:
    """Whether this process has its services forked, and by whom."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment: dict[str, str] | None = None
        self._server: ForkServer | None = None

    def begin(self, environment: Mapping[str, str]) -> None:
        with self._lock:
            self._environment = dict(environment)

    def server(self) -> ForkServer | None:
        with self._lock:
            if self._server is None and self._environment is not None:
                self._server = ForkServer(self._environment)
            return self._server

    def end(self) -> None:
        with self._lock:
            self._environment = None
            server, self._server = self._server, None
        if server is not None:
            server.close()


_forking = _Forking()


def fork_services(environment: Mapping[str, str]) -> None:
    """From now on, have `ManagedProcess` fork services where it may and can. The process that forks them
    starts with the first one, with this environment.

    Nothing happens where the system is not Linux, or PYTHONPATH is set: what Python finds there as it starts
    may be meant for each process, and may start threads.
    """
    if sys.platform == "linux" and "PYTHONPATH" not in environment:
        _forking.begin(environment)


def end_forking() -> None:
    """End the process that forks, where there is one. What it has forked runs on."""
    _forking.end()


def forked(command: Sequence[str], environment: Mapping[str, str], output: int) -> ForkedChild | None:
    """A process for this command that waits at its gate and prints to the file descriptor `output`; None
    where it cannot be forked and is to be started. Raises ClusterError where the forking process is gone."""
    server = _forking.server()
    if server is None or not server.can_start(command, environment):
        return None
    return server.start(command, environment, output)


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_READ_LATE)}
