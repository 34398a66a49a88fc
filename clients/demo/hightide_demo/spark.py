"""The Spark part of the demo: a process that archives the flights, counts them, and computes the delays."""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.spark_java import SHORT_LIVED
from hightide_runtime.process.environment import service_environment

DELAYS_TOPIC: Final = "flight-delays"
_MODULE: Final = "hightide_demo.spark"
_TIMEOUT_S: Final = 600.0
_LOOK_AGAIN_S: Final = 0.2
_JVM_ENDS_S: Final = 30.0


class SparkFailedError(Exception):
    """The demo's pipelines on Spark failed, or did not end in time."""


@dataclass(frozen=True, slots=True)
class SparkFindings:
    """The results of the pipelines."""

    rows: int
    """Flights in the windows of the delays."""
    archived: int
    """Records read back from the archive."""
    flaws: int
    """The number of gaps and overlaps in the archive."""
    chart: str
    """The path of the chart of the delays."""

    def line(self) -> str:
        """Return the part of the demo's last line about Spark."""
        return f"spark: rows={self.rows} archived={self.archived}"

    def is_whole(self, rows_total: int) -> bool:
        """Whether the archive and the delays hold every row once."""
        return self.rows == self.archived == rows_total and self.flaws == 0


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings of the process, as JSON in its command line."""

    bootstrap: str
    topic: str
    directory: str

    @property
    def findings_path(self) -> Path:
        """The file in which the process leaves its findings, or `{"error": …}`."""
        return Path(self.directory) / "findings.json"


def run_on_spark(settings: SparkSettings, log_directory: Path, java_home: Path) -> SparkFindings:
    """Run the pipelines in a new process, and return their findings. Raises SparkFailedError.

    The process does not outlive the call, also after Ctrl-C.
    """
    directory = Path(settings.directory)
    directory.mkdir(parents=True)
    environment = {
        # Before the user's environment, which takes precedence.
        "SPARK_SUBMIT_OPTS": SHORT_LIVED,
        **service_environment(os.environ),
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_DIRS": str(directory / "local"),
    }
    process = ManagedProcess(
        "spark",
        [sys.executable, "-m", _MODULE, json.dumps(asdict(settings))],
        environment,
        log_directory / "spark.log",
    )
    with _Running(process):
        deadline_s = time.monotonic() + _TIMEOUT_S
        while not process.wait(_LOOK_AGAIN_S):
            if time.monotonic() > deadline_s:
                raise SparkFailedError(
                    f"Spark did not end within {_TIMEOUT_S:.0f} s; the end of {process.log_path}:\n"
                    f"{process.log_tail()}"
                )
    try:
        findings = json.loads(settings.findings_path.read_text())
    except FileNotFoundError:
        raise SparkFailedError(f"Spark ended; the end of {process.log_path}:\n{process.log_tail()}") from None
    if "error" in findings:
        raise SparkFailedError(f"on Spark: {findings['error']}")
    return SparkFindings(**findings)


class _Running:
    """Runs a process within a with-block."""

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process
        self._guard = ProcessGuard()

    def __enter__(self) -> None:
        try:
            self._process.start(self._guard)
        except BaseException:
            self._guard.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.kill()
        finally:
            self._guard.close()


def _run_pipelines(settings: SparkSettings) -> SparkFindings:
    from hightide_spark.pipelines.archive import archive, check
    from hightide_spark.pipelines.delays import CHART, DelaysPlan, delays
    from hightide_spark.session import spark_session

    spark = spark_session("hightide demo", master="local[*]")
    directory = Path(settings.directory)
    archive(spark, settings.bootstrap, directory / "archive", {"subscribe": settings.topic})
    archived = spark.read.parquet(str(directory / "archive")).count()
    plan = DelaysPlan(settings.topic, DELAYS_TOPIC, directory / "delays")
    report = delays(spark, settings.bootstrap, plan, {})
    flaws = len(check(directory / "archive").flaws)
    return SparkFindings(report.rows, archived, flaws, str(plan.directory / CHART))


def _end_spark() -> None:
    """End the JVM, and wait until it has deleted its files. Without this it would do so after this
    process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait(_JVM_ENDS_S)


def main() -> None:
    """Run the pipelines with the settings of the command line, and write the findings to a file."""
    from hightide_spark.pipelines.command import sentence_of

    settings = SparkSettings(**json.loads(sys.argv[1]))
    try:
        findings = asdict(_run_pipelines(settings))
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        findings = {"error": sentence}
    finally:
        _end_spark()
    unfinished = settings.findings_path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(findings))
    unfinished.replace(settings.findings_path)


if __name__ == "__main__":
    main()
