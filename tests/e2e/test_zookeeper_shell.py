"""What docs/operating.md says of a ZooKeeper shell: znodes made by hand operate it, nonsense is told."""

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from e2e.command_line import hightide, succeed
from hightide import Admin, TopicDescription
from hightide_local.cluster import LocalCluster
from kazoo.client import KazooClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTLED_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster for this file alone."""
    with LocalCluster(tmp_path_factory.mktemp("shell")) as three:
        yield three


class Shell:
    """`create` and `set` of zkCli.sh."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def create(self, path: str, content: str = "") -> None:
        self._client.create(path, content.encode())

    def create_or_set(self, path: str, content: str) -> None:
        if self._client.exists(path) is None:
            self.create(path, content)
        else:
            self._client.set(path, content.encode())

    def delete(self, path: str) -> None:
        self._client.delete(path)

    def has(self, path: str) -> bool:
        return self._client.exists(path) is not None


@pytest.fixture
def shell(cluster: LocalCluster) -> Iterator[Shell]:
    client = KazooClient(hosts=cluster.zookeeper)
    client.start()
    yield Shell(client)
    client.stop()
    client.close()


def until(condition: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + SETTLED_S
    while not condition():
        assert time.monotonic() < give_up_s, f"gave up waiting until {what}"
        threading.Event().wait(0.05)


def described(cluster: LocalCluster, topic: str) -> TopicDescription:
    with Admin(cluster.bootstrap) as admin:
        return admin.describe_topics([topic])[0]


def test_every_znode_of_the_readme_does_what_its_command_does(cluster: LocalCluster, shell: Shell) -> None:
    succeed(cluster, "topic", "create", "byhand", "--assignment", "1,2")

    shell.create("/admin/partitions_reassigned/byhand")
    shell.create("/admin/partitions_reassigned/byhand/0", '{"replicas":[3,1]}')
    until(lambda: described(cluster, "byhand").partitions[0].replicas == (3, 1), "it has moved")
    until(lambda: not shell.has("/admin/partitions_reassigned/byhand/0"), "the znode is gone")

    shell.create("/admin/partitions_add/byhand")
    shell.create("/admin/partitions_add/byhand/1", '{"replicas":[2,3]}')
    until(lambda: len(described(cluster, "byhand").partitions) == 2, "it has grown")
    assert described(cluster, "byhand").partitions[1].replicas == (2, 3)

    shell.create("/admin/partitions_remove/byhand")
    shell.create("/admin/partitions_remove/byhand/1")
    until(lambda: len(described(cluster, "byhand").partitions) == 1, "it has shrunk")

    shell.create_or_set("/config/topics/byhand", '{"configs":{"retention.ms":"86400000"}}')
    until(lambda: described(cluster, "byhand").configs == {"retention.ms": "86400000"}, "it is altered")

    shell.create_or_set("/config/reassignment", '{"throttle_bytes_per_s":10000000}')
    until(lambda: b"10 MB/s" in succeed(cluster, "reassign", "ls"), "moves are throttled")
    succeed(cluster, "reassign", "throttle", "off")

    shell.create("/admin/delete_topics/byhand")
    until(lambda: b"byhand" not in succeed(cluster, "topic", "ls"), "it is deleted")
    until(lambda: hightide(cluster, "cluster", "health").returncode == 0, "the cluster is healthy")


def test_nonsense_is_told_by_health_and_harms_nothing(cluster: LocalCluster, shell: Shell) -> None:
    succeed(cluster, "topic", "create", "sane", "--assignment", "1,2")
    nonsense = {
        "/admin/partitions_reassigned/sane": "",
        "/admin/partitions_reassigned/sane/0": "to wherever",
        "/admin/delete_topics/not-there": "",
        "/admin/partitions_remove/sane": "",
        "/admin/partitions_remove/sane/0": "",
    }
    for path, content in nonsense.items():
        shell.create(path, content)
    wrong = {path for path in nonsense if not path.endswith("/sane")}

    def complaints() -> dict[str, str]:
        run = hightide(cluster, "cluster", "health", "-o", "json")
        told = {each["subject"]: each["message"] for each in json.loads(run.stdout)["complaints"]}
        assert run.returncode == 1 or not told
        return told

    until(lambda: complaints().keys() == wrong, "all of it is told, and nothing else")
    assert all(message for message in complaints().values())
    assert [each.replicas for each in described(cluster, "sane").partitions] == [(1, 2)]
    for path in reversed(nonsense):
        shell.delete(path)
    until(lambda: not complaints(), "it is told no more")
    until(lambda: hightide(cluster, "cluster", "health").returncode == 0, "the cluster is healthy")
    succeed(cluster, "topic", "delete", "sane", "--yes")
