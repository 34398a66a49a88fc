"""The demo's end on Spark: a process that archives what was written, counts it, and tells delays."""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from hightide_local.processes.guard import Guard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.spark_java import SHORT_LIVED
from hightide_runtime.process.environment import service_environment

DELAYS_TOPIC: Final = "flight-delays"
_MODULE: Final = "hightide_demo.spark"
_TIMEOUT_S: Final = 240.0
_LOOK_AGAIN_S: Final = 0.2
_JVM_ENDS_S: Final = 30.0


class SparkFailedError(Exception):
    """The demo's pipelines on Spark have failed, or did not end."""


@dataclass(frozen=True, slots=True)
class SparkFindings:
    """What the pipelines found."""

    rows: int
    """Flights in the windows of the delays."""
    archived: int
    """Records read back from the archive."""
    flaws: int
    """Gaps and overlaps in the archive."""
    chart: str

    def line(self) -> str:
        """Return what the demo's last line says of it."""
        return f"spark: rows={self.rows} archived={self.archived}"

    def is_whole(self, rows_total: int) -> bool:
        """Whether the archive and the delays hold every row once."""
        return self.rows == self.archived == rows_total and self.flaws == 0


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What the process is told, as JSON in its command line."""

    bootstrap: str
    topic: str
    directory: str

    @property
    def findings_path(self) -> Path:
        """Where it leaves what it found, or `{"error": …}`."""
        return Path(self.directory) / "findings.json"


def run_on_spark(settings: SparkSettings, log_directory: Path, java_home: Path) -> SparkFindings:
    """Run the pipelines and wait for what they find. Raises SparkFailedError.

    Whatever happens meanwhile, also Ctrl-C, nothing of it runs on.
    """
    directory = Path(settings.directory)
    directory.mkdir(parents=True)
    environment = {
        # A default: what the user says of such JVMs wins.
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
        told = json.loads(settings.findings_path.read_text())
    except FileNotFoundError:
        raise SparkFailedError(f"Spark ended; the end of {process.log_path}:\n{process.log_tail()}") from None
    if "error" in told:
        raise SparkFailedError(f"on Spark: {told['error']}")
    return SparkFindings(**told)


class _Running:
    """A process that runs while the with-block does."""

    def __init__(self, process: ManagedProcess) -> None:
        self._process = process
        self._guard = Guard()

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


def _find(settings: SparkSettings) -> SparkFindings:
    from hightide_spark.pipelines.archive import archive, check
    from hightide_spark.pipelines.delays import CHART, DelaysPlan, delays
    from hightide_spark.session import spark_session

    spark = spark_session("hightide demo", master="local[*]")
    directory = Path(settings.directory)
    archive(spark, settings.bootstrap, directory / "archive", {"subscribe": settings.topic})
    archived = spark.read.parquet(str(directory / "archive")).count()
    plan = DelaysPlan(settings.topic, DELAYS_TOPIC, directory / "delays")
    told = delays(spark, settings.bootstrap, plan, {})
    flaws = len(check(directory / "archive").flaws)
    return SparkFindings(told.rows, archived, flaws, str(plan.directory / CHART))


def _end_spark() -> None:
    """Wait until the JVM has ended and deleted what it wrote. Left alone, it does so after this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait(_JVM_ENDS_S)


def main() -> None:
    """Run as the demo's process; its argument are the settings."""
    from hightide_spark.pipelines.command import sentence_of

    settings = SparkSettings(**json.loads(sys.argv[1]))
    try:
        told = asdict(_find(settings))
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        told = {"error": sentence}
    finally:
        _end_spark()
    unfinished = settings.findings_path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(told))
    unfinished.replace(settings.findings_path)


if __name__ == "__main__":
    main()
