"""A ZooKeeper that is not pyspark's, named by HIGHTIDE_ZOOKEEPER_HOME: what `hightide[dev]` runs."""

import os
from pathlib import Path

import pytest
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.processes.java import zookeeper_class_path

pytestmark = pytest.mark.cluster


def test_a_cluster_runs_on_the_zookeeper_of_a_folder_without_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "zookeeper"
    (home / "lib").mkdir(parents=True)
    for jar in zookeeper_class_path({}).split(os.pathsep):
        (home / "lib" / Path(jar).name).symlink_to(jar)
    monkeypatch.setenv("HIGHTIDE_ZOOKEEPER_HOME", str(home))
    monkeypatch.setattr("hightide_local.processes.java.find_spec", lambda name: None)
    with LocalCluster(tmp_path / "cluster", brokers=1, controllers=1) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("flights", partitions=1, replication_factor=1)
            assert admin.list_topics() == ["flights"]
        command = Path("/proc", str(cluster.running()["zookeeper"]), "cmdline").read_text()
    assert str(home / "lib") in command
