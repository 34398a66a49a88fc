"""A rolling upgrade from the last release to the tree as it is, while a program of that release writes.

The release is the commit that HIGHTIDE_UPGRADE_FROM names, else the last tag. Without either there is nothing
to upgrade from, and the test is skipped. `HIGHTIDE_UPGRADE_FROM=<commit> pytest <this file>` runs it by hand.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide import Admin, Consumer
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    "clients/python",
    "clients/local",
    "services/runtime",
    *(f"services/{each}" for each in ("broker", "controller", "coordinator")),
)

# Runs a service of the release, until a file with the service's name says that it is to be one of today.
_SERVICE = """
import os, sys
switches, release, module, *arguments = sys.argv[1:]
kind = module.partition(".")[0].removeprefix("hightide_")
name = kind + "-" + arguments[arguments.index(f"--{kind}-id") + 1]
os.environ.pop("PYTHONPATH", None)
if not os.path.exists(os.path.join(switches, name)):
    os.environ["PYTHONPATH"] = release
os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
"""

# Writes numbers until its standard input ends, then tells which of them were acknowledged.
_WRITER = """
import sys, threading
from hightide import Producer
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
sent = []
with Producer(sys.argv[1]) as producer:
    print("begun", flush=True)
    while not ended.is_set():
        sent.append(producer.send("flights", b"%d" % len(sent), b"%d" % (len(sent) % 50)))
        if len(sent) % 100 == 0:
            sent[-1].result(120)
print(sum(each.result() is not None for each in sent), flush=True)
"""


def release() -> str | None:
    """The commit or tag to upgrade from."""
    if named := os.environ.get("HIGHTIDE_UPGRADE_FROM"):
        return named
    described = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or None


@pytest.fixture
def released(tmp_path: Path) -> str:
    """A PYTHONPATH with the release. The packages that it needs are those of this environment."""
    commit = release()
    if commit is None:
        pytest.skip("there is no tag to upgrade from; HIGHTIDE_UPGRADE_FROM may name a commit")
    tree = tmp_path / "release"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", commit, *FOLDERS], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return os.pathsep.join(str(tree / folder) for folder in FOLDERS)


@pytest.fixture
def cluster(tmp_path: Path, released: str) -> Iterator[LocalCluster]:
    """A cluster of the release: whoever is started again after `upgrade` is of today."""
    service = tmp_path / "service.py"
    service.write_text(_SERVICE)
    switches = tmp_path / "switches"
    switches.mkdir()

    def program(kind: str) -> tuple[str, ...]:
        return (sys.executable, str(service), str(switches), released, f"hightide_{kind}.main")

    with LocalCluster(
        tmp_path / "cluster",
        brokers=3,
        controllers=2,
        coordinators=2,
        broker_program=program("broker"),
        controller_program=program("controller"),
        coordinator_program=program("coordinator"),
    ) as running:
        running.active_coordinator()
        yield running


def is_of_release(cluster: LocalCluster, name: str, released: str) -> bool:
    return f"PYTHONPATH={released}" in Path(f"/proc/{cluster.running()[name]}/environ").read_text()


def read_by_group(cluster: LocalCluster, count: int) -> int:
    """Let the group read on, commit, and tell at how many records it is in all."""
    with Consumer(cluster.bootstrap, topics="flights", group="upgraded") as consumer:
        read = 0
        while read < count:
            read += len(consumer.poll())
    with Admin(cluster.bootstrap) as admin:
        return sum(each.offset for each in admin.group_offsets("upgraded").values())


def test_every_process_is_replaced_under_load_and_no_record_is_lost_or_written_twice(
    cluster: LocalCluster, released: str, tmp_path: Path
) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("flights", partitions=6, replication_factor=3)
    program = tmp_path / "writer.py"
    program.write_text(_WRITER)
    writer = subprocess.Popen(
        [sys.executable, str(program), cluster.bootstrap],
        env={**os.environ, "PYTHONPATH": released},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "begun\n"
    before = read_by_group(cluster, 100)
    services = [name for name in cluster.names if name != "zookeeper"]
    assert all(is_of_release(cluster, name, released) for name in services)
    for name in sorted(services, key=lambda each: each.startswith("broker-")):
        (tmp_path / "switches" / name).touch()
        cluster.restart(name)
        cluster.wait_isr("flights")
    assert not any(is_of_release(cluster, name, released) for name in services)
    assert read_by_group(cluster, 100) > before, "the group goes on where it was"
    told, _ = writer.communicate(timeout=180)
    assert writer.returncode == 0
    with Consumer(cluster.bootstrap, topics="flights") as consumer:
        times_read = Counter(int(record.value or b"-1") for record in consumer.read_to_end())
    assert sorted(times_read) == list(range(int(told)))
    assert set(times_read.values()) == {1}
    with Admin(cluster.bootstrap) as admin:
        wait_until("nothing is amiss", lambda: not admin.describe_cluster().complaints, 60)
