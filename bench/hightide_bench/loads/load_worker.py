"""Starts a load as a process of its own, with the memory settings that services also have."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from hightide_local.traces.client_traces import trace_clients
from hightide_runtime.process.environment import service_environment

READY = "ready"
_ENDS_WITHIN_S = 5.0


class LoadFailedError(Exception):
    """A load ended without a result. The message is the last line that it wrote to stderr."""


class LoadWorker:
    """One load process, `python -m <module> <configuration as JSON>`; a with-block ends it in any case.

    The process prints `ready` when it is warm, and its result as one line of JSON when it has done its work,
    or when `stop` ended it.
    """

    def __init__(
        self, module: str, configuration: Mapping[str, object], environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` is that of the process; None: the one that services have."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(configuration)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=service_environment(os.environ) if environment is None else environment,
        )

    def wait_until_ready(self) -> None:
        """Return when the load is warm. Raises LoadFailedError if it ended before."""
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != READY:
            raise self._failure()

    @property
    def pid(self) -> int:
        """The load process."""
        return self._process.pid

    def ask(self, what: str, **details: object) -> dict[str, Any]:
        """Let a load that takes orders carry one out, and return its answer. Raises LoadFailedError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **details}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        return self.result()

    def stop(self) -> None:
        """End a load that runs until it is stopped."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def result(self) -> dict[str, Any]:
        """Wait for the result. Raises LoadFailedError if there is none."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                document = json.loads(line)
                assert isinstance(document, dict)
                return document
        raise self._failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, which has ended by itself if all went well."""
        try:
            self._process.wait(timeout=_ENDS_WITHIN_S if kind is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _failure(self) -> LoadFailedError:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return LoadFailedError(lines[-1] if lines else f"the load ended with code {self._process.returncode}")


def run_load(module: str, configuration: Mapping[str, object]) -> dict[str, Any]:
    """Run a load to its end and return its result."""
    with LoadWorker(module, configuration) as worker:
        return worker.result()


def load_main(run: Callable[[dict[str, Any]], Mapping[str, object]]) -> None:
    """Run as the load process: read the configuration, run, print the result. Called by each load's main."""
    # At the beginning, because the import takes time, and the waits of clients belong to the traces of
    # failovers.
    trace_clients(at_once=True)
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)


def say_ready() -> None:
    """Tell the parent that the load is warm. Called in the load process."""
    print(READY, flush=True)
