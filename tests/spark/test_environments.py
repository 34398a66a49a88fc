"""Spark elsewhere: on a standalone cluster that loses a worker, and behind Spark Connect."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.processes.spark_cluster import SparkCluster, SparkConnectServer

PROGRAM = Path(__file__).with_name("environment_program.py")
EVERY_ROW_ONCE = {"rows": 20_000, "keys": 20_000, "places": 20_000}
WITHIN_S = 300.0


@contextmanager
def program(cluster: LocalCluster, directory: Path, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The program on new topics of two partitions; what it says goes to the files `out` and `err`."""
    first, second = (f"environment-{uuid.uuid4().hex}" for _ in range(2))
    with Admin(cluster.bootstrap) as admin:
        for name in (first, second):
            admin.create_topic(name, 2, len(cluster.brokers))
    command = [
        *(sys.executable, str(PROGRAM), "--bootstrap", cluster.bootstrap),
        *("--first", first, "--second", second, "--checkpoint", str(directory / "checkpoint")),
        *arguments,
    ]
    with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
        running = subprocess.Popen(command, stdout=out, stderr=err)
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def summary_of(running: "subprocess.Popen[bytes]", directory: Path) -> dict[str, int]:
    running.wait(WITHIN_S)
    assert running.returncode == 0, (directory / "err").read_text()[-4000:]
    found: dict[str, int] = json.loads((directory / "out").read_text().splitlines()[-1])
    return found


def wait_for_held_tasks(gate: Path, count: int, running: "subprocess.Popen[bytes]", directory: Path) -> None:
    give_up_s = time.monotonic() + WITHIN_S
    while len(list(gate.iterdir())) < count:
        assert running.poll() is None, (directory / "err").read_text()[-4000:]
        assert time.monotonic() < give_up_s, f"no {count} tasks were reading after {WITHIN_S:g} s"
        threading.Event().wait(0.05)


def test_a_standalone_cluster_that_loses_a_worker_in_a_read_has_every_row_once(
    cluster: LocalCluster, java_home: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    with SparkCluster(tmp_path / "spark", workers=2) as spark:
        arguments = ("--master", spark.master_url, "--gate", str(gate))
        with program(cluster, tmp_path, *arguments) as running:
            wait_for_held_tasks(gate, 2, running, tmp_path)
            spark.kill("worker-1")
            (gate / "go").touch()
            assert summary_of(running, tmp_path) == EVERY_ROW_ONCE


def test_behind_spark_connect_every_row_arrives_once(
    cluster: LocalCluster, java_home: str, tmp_path: Path
) -> None:
    with (
        SparkConnectServer(tmp_path / "spark") as spark,
        program(cluster, tmp_path, "--remote", spark.address) as running,
    ):
        assert summary_of(running, tmp_path) == EVERY_ROW_ONCE
