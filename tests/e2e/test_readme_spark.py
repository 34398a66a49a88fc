"""The README's "Spark in five minutes", block by block as it stands, after a fresh installation."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hightide import Admin, TopicPartition
from hightide_local.processes.spark_java import SHORT_LIVED, spark_java_home

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

README = Path(__file__).resolve().parents[2] / "README.md"
FIRST_BROKER = "127.0.0.1:9092"


def blocks() -> list[tuple[str, str]]:
    """The language and the text of each block of the section, in order."""
    (section,) = re.findall(
        r"^## Spark in five minutes\n(.*?)^## ", README.read_text(), re.DOTALL | re.MULTILINE
    )
    return re.findall(r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user account without a cluster so far, in whose shell the virtual environment is active."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    others = {name: value for name, value in os.environ.items() if name != "HIGHTIDE_BOOTSTRAP"}
    java = {"JAVA_HOME": str(spark_java_home()), "SPARK_SUBMIT_OPTS": SHORT_LIVED}
    return {**others, **java, "PATH": path, "XDG_STATE_HOME": str(tmp_path)}


def test_every_block_does_what_it_says(environment: dict[str, str], tmp_path: Path) -> None:
    (_, first), *middle, (_, last) = blocks()
    assert [language for language, _ in middle] == ["python"] * 4

    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        return done.stdout

    try:
        run("bash", "-e", "-c", first)
        bootstrap = find_bootstrap(run("hightide", "dev", "status", "-o", "json"))
        # Where the first port was taken, the cluster is elsewhere, and the command has said so.
        program = "\n".join(text for _, text in middle).replace(FIRST_BROKER, bootstrap)
        assert "100000 rows in Parquet" in run(sys.executable, "-c", program)
        with Admin(bootstrap) as admin:
            places = [
                TopicPartition(topic, number) for topic in ("readings", "copies") for number in range(4)
            ]
            ends = admin.list_offsets(places)
            assert sum(end or 0 for place, end in ends.items() if place.topic == "copies") == 100_000
            published = admin.group_offsets("five-minutes")
            assert {place: each.offset for place, each in published.items()} == {
                place: end for place, end in ends.items() if place.topic == "readings"
            }
        run("bash", "-e", "-c", last)
    finally:
        subprocess.run(["hightide", "dev", "down"], env=environment, check=False, timeout=120)


def find_bootstrap(status: str) -> str:
    return next(
        str(each["address"]) for each in json.loads(status)["processes"] if each["name"] == "broker-1"
    )
