"""Runs Spark as separate processes on this machine: a master with workers, or a Spark Connect server."""

import json
import os
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from hightide_local.errors import ClusterError
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import HOST, free_port
from hightide_local.processes.spark_java import SHORT_LIVED, spark_java_home

MASTER = "master"
_DAEMON_MB = 256
_DRIVER_MB = 1024
_POLL_S = 0.05
_STOP_S = 10.0
_ANSWER_S = 2.0


class _SparkProcesses:
    """Processes of Spark that start together and end together."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, ManagedProcess] = {}
        self._guard: ProcessGuard | None = None

    @property
    def names(self) -> list[str]:
        """The names of the processes, for `kill` and `log_tail`."""
        return list(self._processes)

    def start(self, timeout_s: float = 120.0) -> None:
        """Start all processes, and wait until they are ready. Raises ClusterError with the end of a log if
        they are not."""
        self._guard = ProcessGuard()
        try:
            for process in self._processes.values():
                process.start(self._guard)
            self._wait_until(self._is_ready, timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Send SIGTERM to all processes, and SIGKILL to those that do not end in time."""
        for process in reversed(self._processes.values()):
            if not process.terminate(_STOP_S):
                process.kill()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process and to those that it has started, such as executors."""
        self._processes[name].kill()

    def log_tail(self, name: str, lines: int = 20) -> str:
        """The last lines of a process's log."""
        return self._processes[name].log_tail(lines)

    def __enter__(self) -> Self:
        """Start the processes, and wait until they are ready."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the processes."""
        self.stop()

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _add(self, name: str, *command: str, memory_mb: int) -> None:
        self._processes[name] = ManagedProcess(
            f"spark {name}",
            [str(_spark_home() / "bin" / "spark-class"), *command],
            _environment(memory_mb),
            self._directory / "logs" / f"{name}.log",
        )

    def _wait_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            for process in self._processes.values():
                if not process.is_running():
                    raise ClusterError(
                        f"{process.name} ended with exit code {process.exit_code} while it started; "
                        f"the end of {process.log_path}:\n{process.log_tail()}"
                    )
            if time.monotonic() > deadline:
                process = next(iter(self._processes.values()))
                raise ClusterError(
                    f"{', '.join(each.name for each in self._processes.values())} are not ready after "
                    f"{timeout_s:g} s; the end of {process.log_path}:\n{process.log_tail()}"
                )
            time.sleep(_POLL_S)


class SparkCluster(_SparkProcesses):
    """A standalone master and workers on loopback. `master_url` is for `spark_session(master=…)`.

    The processes are called `master` and `worker-1`…. The executors of a worker die with it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        cores_per_worker: int = 1,
        memory_mb_per_worker: int = 1024,
    ) -> None:
        """Prepare the processes. The directory gets their logs and the files of executors."""
        super().__init__(directory)
        if workers < 1:
            raise ClusterError(f"a Spark cluster needs a worker, not {workers}")
        self._workers = workers
        self._port = free_port()
        self._web_port = free_port([self._port])
        self._add(
            MASTER,
            "org.apache.spark.deploy.master.Master",
            *("--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port)),
            memory_mb=_DAEMON_MB,
        )
        for number in range(1, workers + 1):
            self._add(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                *("--host", HOST, "--webui-port", "0", "--cores", str(cores_per_worker)),
                *("--memory", f"{memory_mb_per_worker}m"),
                *("--work-dir", str(directory / f"worker-{number}")),
                self.master_url,
                memory_mb=_DAEMON_MB,
            )

    @property
    def master_url(self) -> str:
        """spark://host:port."""
        return f"spark://{HOST}:{self._port}"

    def _is_ready(self) -> bool:
        # The master counts the workers that have registered and send heartbeats.
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=_ANSWER_S) as answer:
                account = json.load(answer)
        except (OSError, HTTPException, ValueError):
            return False
        return isinstance(account, dict) and account.get("aliveworkers") == self._workers


class SparkConnectServer(_SparkProcesses):
    """A Spark Connect server. `address` is for `spark_session(remote=…)`."""

    def __init__(self, directory: Path, *, master: str = "local[2]") -> None:
        """Prepare the process. `master` runs its jobs: local[n], or that of a SparkCluster."""
        super().__init__(directory)
        self._port = free_port()
        settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.local.dir": str(directory / "local"),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
        }
        self._add(
            "connect",
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", master),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
            "spark-internal",
            memory_mb=_DRIVER_MB,
        )

    @property
    def address(self) -> str:
        """sc://host:port."""
        return f"sc://{HOST}:{self._port}"

    def _is_ready(self) -> bool:
        # It does not listen before it can serve.
        try:
            with socket.create_connection((HOST, self._port), timeout=_ANSWER_S):
                return True
        except OSError:
            return False


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ClusterError("Spark is not installed: `pip install 'hightide[spark]'`")
    return Path(spec.submodule_search_locations[0])


def _environment(memory_mb: int) -> dict[str, str]:
    # Workers must run the Python of the driver, which has the packages of data sources and functions.
    return {
        **os.environ,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": f"{memory_mb}m",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
        "PYSPARK_PYTHON": sys.executable,
    }
