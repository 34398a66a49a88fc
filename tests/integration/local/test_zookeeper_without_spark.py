"""A ZooKeeper that is not pyspark's: what `hightide[dev]` runs."""

import os
from pathlib import Path

import pytest
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.errors import RepositoryError
from hightide_local.jars.zookeeper_jars import zookeeper_class_path

pytestmark = pytest.mark.cluster


def class_path_of_a_cluster(directory: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool = False) -> str:
    """That of the ZooKeeper of a cluster, which has done some work with it."""
    with LocalCluster(directory, brokers=1, controllers=1, tls=tls) as cluster:
        for name, value in cluster.client_environment.items():
            monkeypatch.setenv(name, value)
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("flights", partitions=1, replication_factor=1)
            assert admin.list_topics() == ["flights"]
        command = Path("/proc", str(cluster.running()["zookeeper"]), "cmdline").read_text().split("\0")
        assert "INFO" not in cluster.log_tail("zookeeper", 1_000)
    return command[command.index("-cp") + 1]


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_a_cluster_runs_on_the_jars_that_were_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    monkeypatch.setattr("hightide_local.jars.zookeeper_jars.find_spec", lambda name: None)
    monkeypatch.delenv("HIGHTIDE_ZOOKEEPER_HOME", raising=False)
    try:
        downloaded = zookeeper_class_path()
    except RepositoryError as error:
        pytest.skip(str(error))
    assert class_path_of_a_cluster(tmp_path / "cluster", monkeypatch, tls=tls) == downloaded


def test_a_cluster_runs_on_the_zookeeper_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "zookeeper"
    (home / "lib").mkdir(parents=True)
    for jar in zookeeper_class_path({}).split(os.pathsep):
        (home / "lib" / Path(jar).name).symlink_to(jar)
    monkeypatch.setenv("HIGHTIDE_ZOOKEEPER_HOME", str(home))
    assert str(home / "lib") in class_path_of_a_cluster(tmp_path / "cluster", monkeypatch)
