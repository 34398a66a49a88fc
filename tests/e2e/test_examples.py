"""The clients of examples/ do what their READMEs say, on a real cluster.

Skipped where the tool chain of the language is not there, or cannot reach its registry.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs.markdown import fences_of
from hightide import Admin, Consumer, Producer
from hightide_local.cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, RECORDS = 4, 100
#: Ends a build that hangs. It takes half a minute of CPU where nothing of it is cached.
BUILD_S = 400
RUN_S = 90
GO_MIN, NODE_MIN = (1, 24), (20, 0)
#: What the package managers say where they cannot reach their registry.
UNREACHABLE = re.compile(r"dial tcp|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|no such host|proxyconnect")


@dataclass(frozen=True, slots=True)
class Client:
    """A client in a copy of the repository, ready to run: the last command of its README."""

    language: str
    directory: Path
    command: str

    @property
    def topic(self) -> str:
        """The topic, and the group, that it takes unless it is told another."""
        return f"from-{self.language}"

    def start(self, cluster: LocalCluster, *options: str) -> "subprocess.Popen[str]":
        """Run it beside the test, in a group of processes of its own."""
        dash = "-" if self.language == "go" else "--"
        first, *_ = cluster.bootstrap.split(",")
        named = [f"{dash}{name} {value}" for name, value in zip(options[::2], options[1::2], strict=True)]
        return subprocess.Popen(
            ["bash", "-c", f"exec {self.command.replace('127.0.0.1:9092', first)} {' '.join(named)}"],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def why_not(language: str) -> str | None:
    """Why the client of a language cannot be built here; None: it can."""
    program, lowest = ("go", GO_MIN) if language == "go" else ("node", NODE_MIN)
    if shutil.which(program) is None or (language == "node" and shutil.which("npm") is None):
        return f"there is no {program} here"
    asked = [program, "version"] if language == "go" else [program, "--version"]
    told = subprocess.run(asked, capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    if found is None or (int(found[1]), int(found[2])) < lowest:
        return f"{program} {'.'.join(map(str, lowest))} or later is needed; this is {told.strip()}"
    return None


@pytest.fixture(scope="module", params=["go", "node"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The client, built in a copy by the commands of its README, all but the last one."""
    language: str = request.param
    if reason := why_not(language):
        pytest.skip(reason)
    copy = tmp_path_factory.mktemp(language)
    kept = shutil.ignore_patterns("gen", "node_modules")
    shutil.copytree(ROOT / "examples" / language, copy / "examples" / language, ignore=kept)
    shutil.copytree(ROOT / "protos", copy / "protos")
    shutil.copy(ROOT / "buf.yaml", copy)
    (block,) = [
        each for each in fences_of(ROOT / "examples" / language / "README.md") if each.info == "console"
    ]
    enter, build, run = block.text.splitlines()
    directory = copy / enter.removeprefix("cd ")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # What `go run` builds is built here, where there is time for it.
    built = f"{build} && go build -o /dev/null ." if language == "go" else build
    done = subprocess.run(
        ["bash", "-c", built],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip(f"the registry of {language} cannot be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, f"{built}: {done.stdout}{done.stderr}"
    return Client(language, directory, run)


@pytest.fixture
def running() -> Iterator[list["subprocess.Popen[str]"]]:
    """Those that a test has started; they end with it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.communicate()


def committed(cluster: LocalCluster, group: str) -> dict[int, int]:
    with Admin(cluster.bootstrap) as admin:
        return {at.partition: each.offset for at, each in admin.group_offsets(group).items()}


def lines_until(process: "subprocess.Popen[str]", wanted: str, count: int = 1) -> list[str]:
    """What it prints, up to the line that is the so-manieth to match."""
    assert process.stdout is not None
    ending = threading.Timer(RUN_S, process.kill)
    ending.start()
    heard: list[str] = []
    try:
        for line in process.stdout:
            heard.append(line.rstrip("\n"))
            count -= bool(re.search(wanted, line))
            if not count:
                return heard
    finally:
        ending.cancel()
    raise AssertionError(f"it ended or was killed before it said {wanted!r}; it said {heard}")


def test_a_client_creates_a_topic_produces_fetches_and_reads_as_a_member(
    client: Client, hightide_cluster: LocalCluster, running: list["subprocess.Popen[str]"]
) -> None:
    cluster = hightide_cluster
    running.append(client.start(cluster))
    printed, _ = running[0].communicate(timeout=RUN_S)
    assert running[0].returncode == 0, printed
    lines = printed.splitlines()
    assert lines[:3] == [
        f"created {client.topic}",
        f"produced {RECORDS} records",
        f"fetched {RECORDS} records",
    ]
    assert lines[3].startswith(f"joined group {client.topic} as ")
    assert sorted(lines[4:-1]) == [f"starts {client.topic}-{each} at offset 0" for each in range(PARTITIONS)]
    assert lines[-1] == f"the group has read {RECORDS} records"

    with Consumer(cluster.bootstrap, topics=[client.topic]) as consumer:
        values = {record.key: record.value for record in consumer.read_to_end()}
    assert values == {b"%d" % each: b"record %d" % each for each in range(RECORDS)}
    assert committed(cluster, client.topic) == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    with Admin(cluster.bootstrap) as admin:
        assert admin.describe_group(client.topic).members == (), "it said goodbye"


def test_a_member_gives_partitions_back_to_one_that_joins_and_takes_them_again(
    client: Client, hightide_cluster: LocalCluster, running: list["subprocess.Popen[str]"]
) -> None:
    cluster, topic = hightide_cluster, f"shared-with-{client.language}"
    running.append(client.start(cluster, "topic", topic, "group", topic, "read", f"{2 * RECORDS}"))
    process = running[0]
    lines_until(process, "^starts ", PARTITIONS)
    with Consumer(cluster.bootstrap, topics=[topic], group=topic, auto_commit=False) as joining:
        while len(joining.assignment) < PARTITIONS // 2:
            joining.poll(timeout_s=0.1)
        given = lines_until(process, "^stops ", PARTITIONS // 2)
    again = lines_until(process, "^starts ", PARTITIONS // 2)
    taken = {line.split()[1] for line in again if line.startswith("starts ")}
    assert {line.split()[1] for line in given if line.startswith("stops ")} == taken

    with Producer(cluster.bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"more", partition=number % PARTITIONS)
    lines_until(process, f"^the group has read {2 * RECORDS} records$")
    assert process.wait(RUN_S) == 0
    assert sum(committed(cluster, topic).values()) == 2 * RECORDS, "each record was read once"
