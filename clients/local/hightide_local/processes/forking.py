"""Starts services quickly, as forks of one process that has imported them.

A program that starts many clusters calls `fork_services` first, as the tests of this project do. A Python
that starts and imports a service uses most of a second of processor time, a fork some hundredths of that.
Otherwise a fork is like any process: it has its own session, log and environment, and signals and the
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
from hightide_local.processes.forking_process import FILE_SUFFIX, MESSAGE_MAX

#: The modules to import once: the services, and modules that they import only when they write spans, as all
#: do here.
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
_PYTHON: Final = sys.executable
_PACKAGES: Final = ("hightide_broker.", "hightide_controller.", "hightide_coordinator.", "hightide_bench.")
#: Prefixes of variables that no import of a service reads, so that a fork may have other values of them.
_READ_LATE: Final = (
    *("HIGHTIDE_", "PYTEST_", "JAVA_", "JDK_", "SPARK_", "PYSPARK_", "XDG_"),
    "OTEL_METRIC_EXPORT_INTERVAL",
)
_END_S: Final = 10.0
#: The exit code of a fork whose real one is not known, because the process that forked it had ended.
_UNKNOWN: Final = 255


class ForkedChild:
    """A forked process, with those methods of subprocess.Popen that `ManagedProcess` needs."""

    def __init__(self, server: "ForkServer", pid: int, gate: int) -> None:
        """`gate` is the end of a pipe. The process runs when `open_gate` has written to it."""
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        self._gate = gate
        # It waits at its gate, so it has not ended unless it was killed there.
        self._pidfd: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(pid)

    def open_gate(self) -> None:
        """Let the process run. Called once."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"\n")
        os.close(self._gate)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.returncode if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return the exit code. Raises subprocess.TimeoutExpired after `timeout`
        seconds."""
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
    """The supervisor's side of the process that forks services (`forking_process`). `close` ends it; its
    forks run on. Any thread may call it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start the process with this environment. It answers when it has imported all modules."""
        self._early = _read_early(environment)
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [_PYTHON, "-m", "hightide_local.processes.forking_process", str(theirs.fileno()), *MODULES],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def can_start(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a fork for this command behaves like a new process: it runs a service's module, or a Python
        file, as tests have it in the place of a service; and its environment has the same values of all
        variables that the start of Python or an import reads."""
        return _program_of(command) != () and _read_early(environment) == self._early

    def start(self, command: Sequence[str], environment: Mapping[str, str], output: int) -> ForkedChild:
        """Fork a process for a command that `can_start`. It waits at its gate. `output` is the file
        descriptor for its output. Raises ClusterError if the forking process has ended."""
        request = {
            "command": list(_program_of(command)),
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
        """The exit code of a fork that has ended. Waits for the message from its parent, which comes soon."""
        with self._lock:
            try:
                while pid not in self._codes:
                    self._next("ended")
            except OSError:
                return _UNKNOWN
            return self._codes.pop(pid)

    def close(self) -> None:
        """End the forking process."""
        self._socket.close()
        self._process.wait(_END_S)

    def _next(self, kind: str) -> int:
        """The pid in the next message of this kind. Exit codes in messages before it are kept. Raises OSError
        if the process has ended."""
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
    """The state of forking in this process: the environment, and the fork server once it has started."""

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
    """Let `ManagedProcess` fork services from now on, if possible. The forking process starts with the first
    service, with this environment.

    Does nothing if the system is not Linux, or if PYTHONPATH is set: code that Python finds there at its
    start may be meant for each process, and may start threads.
    """
    if sys.platform == "linux" and "PYTHONPATH" not in environment:
        _forking.begin(environment)


def end_forking() -> None:
    """End the forking process, if there is one. Its forks run on."""
    _forking.end()


def forked(command: Sequence[str], environment: Mapping[str, str], output: int) -> ForkedChild | None:
    """Fork a process for this command, which waits at its gate, with the file descriptor `output` for its
    output. Returns None if it cannot be forked, so that the caller must start it. Raises ClusterError if the
    forking process has ended."""
    server = _forking.server()
    if server is None or not server.can_start(command, environment):
        return None
    return server.start(command, environment, output)


def _program_of(command: Sequence[str]) -> Sequence[str]:
    """What a fork runs for a command line: a service's module or a file, and its arguments. Empty: another
    program."""
    python, *rest = command
    if python != _PYTHON or not rest:
        return ()
    if rest[0].endswith(FILE_SUFFIX):
        return rest
    is_service = rest[0] == "-m" and rest[1].startswith(_PACKAGES)
    return rest[1:] if is_service else ()


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_READ_LATE)}
