"""The demo's consumer group: its processes, and the history from their reports."""

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_runtime.process.environment import service_environment

from hightide_demo.group_consumer import ConsumerSettings
from hightide_demo.group_history import GroupHistory
from hightide_demo.group_reports import ReportFile

GROUP: Final = "flights-readers"
CONSUMERS: Final = 4
SESSION_TIMEOUT_MS: Final = 6_000
_MODULE: Final = "hightide_demo.group_consumer"
_STOP_S: Final = 10.0


class ConsumerEndedError(Exception):
    """A consumer ended although the demo had not killed it."""


class DemoGroup:
    """The consumers, each a process. A with-block starts them, and kills those that still run at its end.

    The script's thread and the main thread both call it.
    """

    def __init__(self, bootstrap: str, topic: str, log_directory: Path) -> None:
        self.names: Sequence[str] = [f"consumer-{number}" for number in range(1, CONSUMERS + 1)]
        self._reports = {name: ReportFile(log_directory / f"{name}.jsonl") for name in self.names}
        self._history = GroupHistory()
        self._lock = threading.Lock()
        self._expected_dead: set[str] = set()
        self._guard: ProcessGuard | None = None
        self._processes = {
            name: ManagedProcess(
                name,
                [
                    sys.executable, "-m", _MODULE,
                    ConsumerSettings(
                        bootstrap, GROUP, topic, name, SESSION_TIMEOUT_MS, str(self._reports[name].path)
                    ).argument(),
                ],
                service_environment(os.environ),
                log_directory / f"{name}.log",
            )
            for name in self.names
        }  # fmt: skip

    def look(self) -> GroupHistory:
        """Read the reports since the last call, and return the history. Raises ConsumerEndedError, with the
        end of its log, if a consumer ended by itself."""
        with self._lock:
            for name, process in self._processes.items():
                is_running = process.is_running()
                for report in self._reports[name].follow():
                    self._history.take(name, report)
                if not is_running and name not in self._expected_dead:
                    raise ConsumerEndedError(
                        f"{name} ended; the end of {process.log_path}:\n{process.log_tail()}"
                    )
            return self._history

    def kill(self, name: str) -> float:
        """Send SIGKILL to a consumer. Return the time, in milliseconds of the monotonic clock."""
        with self._lock:
            self._expected_dead.add(name)
            killed_at_ms = time.monotonic() * 1000
            self._processes[name].kill()
        return killed_at_ms

    @property
    def living(self) -> list[str]:
        """The names of the consumers that the demo has not killed."""
        return [name for name in self.names if name not in self._expected_dead]

    def stop(self) -> GroupHistory:
        """Let all running consumers leave the group and end, at the same time. Return the whole history."""
        with self._lock:
            running = [each for each in self._processes.values() if each.is_running()]
            for process in running:
                process.send(signal.SIGTERM)
            self._expected_dead.update(self.names)
            deadline_s = time.monotonic() + _STOP_S
            for process in running:
                process.wait(max(0.1, deadline_s - time.monotonic()))
        return self.look()

    def __enter__(self) -> "DemoGroup":
        """Start all consumers. They become members of the group a moment later."""
        self._guard = ProcessGuard()
        try:
            for process in self._processes.values():
                process.start(self._guard)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the consumers that still run."""
        self._end()

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
        if self._guard is not None:
            self._guard.close()
            self._guard = None
