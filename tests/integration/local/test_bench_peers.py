"""`bench peers` measures a real Apache Kafka beside Hightide. Marked `soak`, since Maven downloads Kafka
first, which a machine may not be able to do."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hightide_bench.peers.jars.maven_jars import KAFKA, jars_of
from hightide_cli.documents.form import departures
from hightide_cli.documents.registry import DOCUMENTS
from hightide_local.errors import ClusterError
from platformdirs import user_cache_path

pytestmark = [pytest.mark.cluster, pytest.mark.soak]


@pytest.fixture(scope="module")
def cache() -> Path:
    directory = user_cache_path("hightide", appauthor=False) / "peers"
    try:
        jars_of(KAFKA, directory)
    except ClusterError as error:
        pytest.skip(str(error))
    return directory


def test_both_systems_are_measured_and_nothing_is_left_behind(cache: Path, tmp_path: Path) -> None:
    rows = ("--only", "e2e-100", "--only", "consume-1kb", "--only", "failover-kill")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "hightide_cli.main", "bench", "peers", *rows, "--json"),
            *("--rounds", "1", "--seconds", "0.5", "--size-mb", "5"),
            *("--cache", str(cache), "--directory", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    document = json.loads(run.stdout)
    assert departures(DOCUMENTS["bench peers"], document) == []
    assert document["failures"] == []
    lines = {(each["row"], each["figure"]): each for each in document["lines"]}
    for row, figure in (
        ("e2e-100", "p50_ms"),
        ("consume-1kb", "mb_per_s"),
        ("failover-kill", "unavailable_ms_max"),
    ):
        line = lines[row, figure]
        assert line["hightide"]["median"] > 0
        assert line["kafka_default"]["median"] > 0
        assert line["ratio"]["median"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["hightide-peers.lock"]
    assert not processes_in(tmp_path)


def processes_in(directory: Path) -> list[list[str]]:
    """The processes that name the directory in their command line."""
    lines = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if any(str(directory) in word for word in line)]
